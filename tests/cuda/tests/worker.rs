//! A worker on emulated GPUs.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_circuit::wire::{self, operation::Kind};
use cloakwork_cuda::{CudaDevice, gpu::DriverError};
use cloakwork_device::Device as _;
use cloakwork_tests_cuda::emulator::Emulated;
use cloakwork_tests_device::{jobs::Client, server::FakeServer};
use cloakwork_worker::{CancellationToken, Options, WorkerError, run_on};

fn options() -> Options {
    Options { arena_memory: 16 << 20, vector_memory: 0, pool: "gpu".to_owned(), ..Options::default() }
}

fn device() -> (Vec<Arc<Emulated>>, Arc<CudaDevice>) {
    let gpus: Vec<_> = (0..2).map(|_| Arc::new(Emulated::new(512 << 20))).collect();
    let device = CudaDevice::new(gpus.iter().map(|gpu| gpu.clone() as _).collect());
    (gpus, Arc::new(device.expect("memory for the workspace")))
}

fn add(by: u32) -> Vec<u32> {
    (0..16).map(|x| (x + by) % 16).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_several_keys_have_correct_results() {
    let server = Arc::new(FakeServer::default());
    let (_, device) = device();
    let stop = CancellationToken::new();
    let worker = tokio::spawn(run_on(device, options(), server.serve(), stop.clone()));
    let mut clients: Vec<_> =
        (1..3).map(|seed| Client::new::<u64, u64>(&server, "TOY_MESSAGE_2_CARRY_2", seed)).collect();
    for client in &mut clients {
        let program = client.chain(&[add(1), add(5)]);
        let rows: Vec<u64> = (0..200).map(|row| row % 4).collect();
        let mut jobs: Vec<_> = (0..10).map(|job| client.job(&program, &[job % 4], true)).collect();
        jobs.push(client.job(&program, &rows, false));
        let names = server.assign(jobs);
        let ends = server.ends(&names).await;
        for (job, end) in ends[..10].iter().enumerate() {
            assert_eq!(client.answer(end), [(job as u64 % 4 + 6) % 16]);
        }
        assert_eq!(client.answer(&ends[10]), rows.iter().map(|row| (row + 6) % 16).collect::<Vec<_>>());
        assert!(ends[10].latency.blind_rotate_nanos > 0 && ends[10].latency.key_switch_nanos > 0);
    }
    stop.cancel();
    worker.await.expect("no panic").expect("a clean end");
    let last = server.last_report().expect("a report");
    assert_eq!((last.pool.as_str(), last.resident_keys.len()), ("gpu", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_alternate_on_the_gpu_are_downloaded_once() {
    let server = Arc::new(FakeServer::default());
    let gpu = Arc::new(Emulated::new(512 << 20));
    let device = CudaDevice::new(vec![gpu]).expect("memory for the workspace");
    let device = device.with_warm_keys(16 << 20, Duration::from_secs(3600)).expect("a thread");
    let stop = CancellationToken::new();
    let mut clients: Vec<_> =
        (1..3).map(|seed| Client::new::<u64, u64>(&server, "TOY_MESSAGE_2_CARRY_2", seed)).collect();
    // Key memory for one of the two keys.
    let key_memory = device.key_bytes(clients[0].keys.set) * 3 / 2;
    let options = Options { key_memory, ..options() };
    let worker = tokio::spawn(run_on(Arc::new(device), options, server.serve(), stop.clone()));
    for _ in 0..3 {
        for client in &mut clients {
            let program = client.chain(&[add(1)]);
            let job = client.job(&program, &[2], true);
            let ends = server.ends(&server.assign([job])).await;
            assert_eq!(client.answer(&ends[0]), [3]);
        }
    }
    stop.cancel();
    worker.await.expect("no panic").expect("a clean end");
    for part in clients.iter().flat_map(|client| &client.parts) {
        assert_eq!(server.reads(part), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_gpu_is_lost_exits_with_the_reason() {
    let server = Arc::new(FakeServer::default());
    let (gpus, device) = device();
    let worker = tokio::spawn(run_on(device, options(), server.serve(), CancellationToken::new()));
    let mut client = Client::new::<u64, u64>(&server, "TOY_MESSAGE_2_CARRY_2", 1);
    let program = client.chain(&[add(1)]);
    let job = client.job(&program, &[1], true);
    let ends = server.ends(&server.assign([job])).await;
    assert_eq!(client.answer(&ends[0]), [2]);
    gpus[1].fail_after(0);
    let rows: Vec<u64> = vec![3; 200];
    let job = client.job(&program, &rows, false);
    let _lost = server.assign([job]);
    let ended = tokio::time::timeout(Duration::from_secs(60), worker).await.expect("it ends by itself");
    let error = ended.expect("no panic").expect_err("the GPU is gone");
    assert!(matches!(error, WorkerError::Device(_)) && error.to_string().contains("off the bus"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_gpu_is_lost_during_key_loading_exits_and_reports_no_result() {
    let server = Arc::new(FakeServer::default());
    let (gpus, device) = device();
    let worker = tokio::spawn(run_on(device, options(), server.serve(), CancellationToken::new()));
    let mut clients: Vec<_> =
        (1..3).map(|seed| Client::new::<u64, u64>(&server, "TOY_MESSAGE_2_CARRY_2", seed)).collect();
    let program = clients[0].chain(&[add(1)]);
    let job = clients[0].job(&program, &[1], true);
    let ends = server.ends(&server.assign([job])).await;
    assert_eq!(clients[0].answer(&ends[0]), [2]);
    gpus[1].fail("upload", DriverError::Lost("it fell off the bus".to_owned()));
    let job = clients[1].job(&program, &[1], true);
    let lost = server.assign([job]);
    let ended = tokio::time::timeout(Duration::from_secs(60), worker).await.expect("it ends by itself");
    let error = ended.expect("no panic").expect_err("the GPU is gone");
    assert!(matches!(error, WorkerError::Device(_)) && error.to_string().contains("off the bus"), "{error}");
    // Another worker may run the job, because this one has not reported a failure.
    assert!(server.ended(&lost[0]).is_none());
}

/// A program with `width` lookups of one block, and a further lookup of each result.
fn fan(client: &Client, width: u32) -> Bytes {
    let lookup = |argument: u32, entries: Vec<u32>| wire::Operation {
        kind: Kind::Lookup.into(),
        arguments: vec![argument],
        tables: vec![wire::Table { entries }],
        ..Default::default()
    };
    let first = (0..width).map(|index| lookup(0, (0..16).map(|x| spread(index, x)).collect()));
    let second = (0..width).map(|index| lookup(1 + index, add(1)));
    client.program(1, 15, first.chain(second).collect(), (1 + width..1 + 2 * width).collect())
}

/// A distinct function for each index below 64.
fn spread(index: u32, x: u32) -> u32 {
    ((1 + index / 16) * x + index) % 16
}

#[tokio::test(flavor = "multi_thread")]
async fn waves_without_enough_memory_are_narrowed_and_wait_for_others() {
    const WIDTH: u32 = 60;
    let server = Arc::new(FakeServer::default());
    let gpu = Arc::new(Emulated::new(512 << 20));
    let device = Arc::new(CudaDevice::new(vec![gpu.clone()]).expect("memory for the workspace"));
    let stop = CancellationToken::new();
    let worker = tokio::spawn(run_on(device, options(), server.serve(), stop.clone()));
    let mut client = Client::new::<u64, u64>(&server, "TOY_MESSAGE_2_CARRY_2", 1);
    let program = client.chain(&[add(1)]);
    let job = client.job(&program, &[1], true);
    server.ends(&server.assign([job])).await;
    // The worker reports a result before it frees the memory of the job's slots. That memory would
    // otherwise add to what `leave` leaves, and no wave would lack memory.
    let given_back = async {
        while gpu.reservations() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), given_back).await.expect("slots are given back");
    // From now on, memory suffices for the tables, the input, the first lookups, and two more
    // slots. The memory that the tables leave unused is less than one step in which slots take
    // memory.
    let (tables, slots) = (80 * 2048, 128 << 10);
    assert_eq!(slots / (8 * 257), 63);
    gpu.leave(tables + slots);
    let program = fan(&client, WIDTH);
    let job = client.job(&program, &[3], true);
    let end = server.ends(&server.assign([job])).await.remove(0);
    let expected: Vec<Vec<u64>> = (0..WIDTH).map(|index| vec![u64::from((spread(index, 3) + 1) % 16)]).collect();
    assert_eq!(client.answers(&end), expected);
    assert!(gpu.refusals() > 0, "there was less memory than the widest waves take");
    stop.cancel();
    worker.await.expect("no panic").expect("a clean end");
}
