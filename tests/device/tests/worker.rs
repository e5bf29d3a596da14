//! A worker with an in-memory server: results of jobs, and the handling of faults.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_circuit::wire;
use cloakwork_proto::v1::{CompanionKey, JobContent, LatencyRecord, Lowering};
use cloakwork_tests_device::{flaky::Flaky, jobs::Client, server::FakeServer};
use cloakwork_worker::{CancellationToken, CpuDevice, Options, WorkerError, run, run_on};
use prost::Message as _;
use tokio::task::JoinHandle;

const TOY: &str = "TOY_MESSAGE_2_CARRY_2";

struct Worker {
    stop: CancellationToken,
    task: JoinHandle<Result<(), WorkerError>>,
}

fn options() -> Options {
    Options { threads: 2, arena_memory: 64 << 20, grace: Duration::from_secs(60), ..Options::default() }
}

fn start(server: &FakeServer, options: Options) -> Worker {
    let stop = CancellationToken::new();
    Worker { task: tokio::spawn(run(options, server.serve(), stop.clone())), stop }
}

impl Worker {
    async fn stop(self) -> Result<(), WorkerError> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }
}

fn add(by: u32) -> Vec<u32> {
    (0..16).map(|x| (x + by) % 16).collect()
}

fn check_record(record: &LatencyRecord) {
    let sum = record.key_load_nanos
        + record.fetch_nanos
        + record.wave_wait_nanos
        + record.key_switch_nanos
        + record.blind_rotate_nanos
        + record.other_compute_nanos
        + record.store_nanos;
    assert_eq!(sum, record.wall_nanos, "the stages add up: {record:?}");
    assert_eq!(record.cuts.iter().map(|cut| cut.waves).sum::<u64>(), record.wave_count);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cpu_worker_does_not_read_the_companion_key() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, "TOY_MESSAGE_2_CARRY_2_N2048", 1);
    let part = server.blob(vec![1, 2, 3]);
    let companion = CompanionKey {
        parameter_set: "TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_N2048".to_owned(),
        group: Bytes::from_static(b"its own"),
        key_parts: vec![part.clone()],
    };
    let program = client.chain(&[add(1)]);
    let job = JobContent { companion: Some(companion), ..client.job(&program, &[2], true) };
    let names = server.assign([job]);
    let worker = start(&server, options());
    let end = server.ends(&names).await.remove(0);
    assert_eq!((client.answer(&end), end.latency.companion_waves), (vec![3], 0));
    assert_eq!((server.reads(&part), server.reads(&client.parts[0])), (0, 1));
    worker.stop().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_share_waves_and_the_key_is_loaded_once() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&[add(1), add(5)]);
    let mut jobs: Vec<_> = (0..60).map(|job| client.job(&program, &[job % 4], job % 2 == 0)).collect();
    let rows: Vec<u64> = (0..3000).map(|row| row % 4).collect();
    jobs.push(client.job(&program, &rows, false));
    let names = server.assign(jobs);
    let worker = start(&server, options());
    let ends = server.ends(&names).await;
    let expected = |message: u64| (message + 6) % 16;
    for (job, end) in ends[..60].iter().enumerate() {
        assert_eq!(client.answer(end), [expected(job as u64 % 4)]);
        assert_eq!((end.latency.pbs_count, end.latency.wave_count), (2, 2));
        check_record(&end.latency);
    }
    let large = ends.last().expect("the large job");
    assert_eq!(client.answer(large), rows.iter().map(|row| expected(*row)).collect::<Vec<_>>());
    check_record(&large.latency);
    assert_eq!(large.latency.pbs_count, 6000);
    assert!(large.latency.mean_wave_fill > 0.5, "{}", large.latency.mean_wave_fill);
    let shared = ends.iter().flat_map(|end| &end.latency.waves).filter(|wave| wave.width > wave.own_width).count();
    assert!(shared > 60, "{shared} times, a job shared a wave with another one");
    for part in &client.parts {
        assert_eq!(server.reads(part), 1, "one load, however many wait for it");
    }
    worker.stop().await.expect("a clean end");
    let last = server.last_report().expect("a report");
    assert!(last.draining && last.leases.is_empty());
    assert_eq!(last.resident_keys.len(), 1);
    assert!(last.waves.iter().any(|wave| wave.parameter_set == TOY), "a time curve");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_different_keys_are_computed_separately() {
    let server = Arc::new(FakeServer::default());
    let mut clients = [Client::new::<u64, u64>(&server, TOY, 1), Client::new::<u64, u64>(&server, TOY, 2)];
    let mut names: [Vec<Bytes>; 2] = Default::default();
    for _ in 0..5 {
        for (client, names) in clients.iter_mut().zip(&mut names) {
            let program = client.chain(&[add(3)]);
            names.extend(server.assign([client.job(&program, &[0, 1, 2, 3], true)]));
        }
    }
    // Memory for one key at a time.
    let key_memory = 400 << 10;
    let worker = start(&server, Options { key_memory, ..options() });
    for (client, names) in clients.iter().zip(&names) {
        for end in server.ends(names).await {
            assert_eq!(client.answer(&end), [3, 4, 5, 6]);
            check_record(&end.latency);
        }
    }
    worker.stop().await.expect("a clean end");
    let resident = server.last_report().expect("a report").resident_keys;
    assert!(resident.iter().map(|key| key.bytes).sum::<u64>() <= key_memory, "{resident:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_keys_invalid_inputs_and_invalid_programs_have_distinct_reasons() {
    let server = Arc::new(FakeServer::default());
    let mut good = Client::new::<u64, u64>(&server, TOY, 1);
    let mut bad = Client::new::<u64, u64>(&server, TOY, 2);
    server.corrupt(&bad.parts[1], |bytes| bytes[4000] ^= 1);
    let program = good.chain(&[add(1)]);
    let corrupt = bad.job(&program, &[1], true);
    let foreign = {
        let mut job = good.job(&program, &[1], true);
        job.inputs = bad.job(&program, &[1], true).inputs;
        job
    };
    let mut short = good.job(&program, &[1, 2], true);
    short.rows = 3;
    let narrow = good.program(1, 2, Vec::new(), vec![0]);
    let excess = good.job(&narrow, &[1], true);
    let nonsense = good.job(&Bytes::from_static(b"\xff\xff"), &[1], true);
    let names = server.assign([corrupt, foreign, short, excess, nonsense, good.job(&program, &[2], false)]);
    let worker = start(&server, options());
    let ends = server.ends(&names).await;
    let reasons: Vec<&str> = ends
        .iter()
        .map(|end| match &end.result {
            Ok(_) => "",
            Err(failure) => {
                assert!(!failure.retryable, "{failure:?}");
                &failure.reason
            }
        })
        .collect();
    let invalid = "INPUT_INVALID";
    assert_eq!(reasons, ["KEY_CORRUPT", invalid, invalid, invalid, "PROGRAM_INVALID", ""]);
    let failure = ends[0].result.as_ref().expect_err("a corrupt key");
    assert_eq!(failure.bad_key_part.as_ref(), Some(&bad.parts[1]));
    assert_eq!(good.answer(&ends[5]), [3]);
    ends.iter().for_each(|end| check_record(&end.latency));
    worker.stop().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_job_releases_its_memory() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&[add(1)]);
    let endless = client.chain(&vec![add(1); 16_000]);
    let names = server.assign([client.job(&endless, &[0; 50], false)]);
    let worker = start(&server, Options { arena_memory: 1 << 30, ..options() });
    let computing = |server: &FakeServer| {
        let report = server.last_report()?;
        (report.leases.first()?.progress > 20).then_some(())
    };
    server.until("progress", computing).await;
    server.withdraw(&names[0]);
    let gone = |server: &FakeServer| server.last_report().filter(|report| report.leases.is_empty()).map(drop);
    server.until("an empty report", gone).await;
    let names = server.assign([client.job(&program, &[2], true)]);
    assert_eq!(client.answer(&server.ends(&names).await[0]), [3]);
    worker.stop().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_job_joins_the_waves_of_running_jobs() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&[add(1)]);
    // The job has more rows than the widest wave takes, so that some are always ready.
    let endless = client.chain(&vec![add(1); 1000]);
    let large = server.assign([client.job(&endless, &[0; 2000], false)]);
    let worker = start(&server, Options { arena_memory: 1 << 30, grace: Duration::ZERO, ..options() });
    let computing = |server: &FakeServer| {
        let report = server.last_report()?;
        (report.leases.first()?.progress > 20).then_some(())
    };
    server.until("progress", computing).await;
    let mut urgent = client.job(&program, &[0, 1, 2], true);
    urgent.priority = 5;
    let names = server.assign([urgent]);
    let end = server.ends(&names).await.remove(0);
    assert_eq!(client.answer(&end), [1, 2, 3]);
    assert!(end.latency.waves.iter().any(|wave| wave.width > wave.own_width), "{:?}", end.latency.waves);
    assert!(server.ended(&large[0]).is_none(), "the large job goes on");
    assert!(matches!(worker.stop().await, Err(WorkerError::HandedBack { jobs: 1, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_streams_and_refused_commits_repeat_no_work() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&vec![add(1); 200]);
    let messages: Vec<u64> = (0..100).map(|row| row % 4).collect();
    let names = server.assign([client.job(&program, &messages, false)]);
    server.refuse_commits(2);
    let worker = start(&server, options());
    let held = |server: &FakeServer| server.last_report().filter(|report| !report.leases.is_empty()).map(drop);
    server.until("a lease", held).await;
    server.cut_streams();
    server.until("another stream", |server| (server.streams() >= 2).then_some(())).await;
    let end = &server.ends(&names).await[0];
    assert_eq!(client.answer(end), messages.iter().map(|message| (message + 200) % 16).collect::<Vec<_>>());
    assert_eq!(end.latency.pbs_count, 20_000, "nothing was computed twice");

    // A server that stops answering for a while is used again afterwards.
    server.stall(true);
    let names = server.assign([client.job(&program, &[1], true)]);
    server.stall(false);
    assert_eq!(client.answer(&server.ends(&names).await[0]), [(1 + 200) % 16]);
    worker.stop().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_finishes_running_jobs_and_takes_no_new_ones() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&vec![add(1); 300]);
    let names = server.assign([client.job(&program, &[0; 64], false)]);
    let worker = start(&server, options());
    let held = |server: &FakeServer| server.last_report().filter(|report| !report.leases.is_empty()).map(drop);
    server.until("a lease", held).await;
    worker.stop.cancel();
    server.until("a draining report", |server| server.last_report().filter(|report| report.draining)).await;
    let late = server.assign([client.job(&program, &[0], true)]);
    assert_eq!(client.answer(&server.ends(&names).await[0]), [300 % 16; 64]);
    worker.stop().await.expect("a clean end");
    let last = server.last_report().expect("a report");
    assert_eq!((last.wanted_cost, last.leases.len()), (0, 0));
    server.withdraw(&late[0]);

    // A job that does not end within the grace time is handed back.
    let endless = client.chain(&vec![add(1); 16_000]);
    server.assign([client.job(&endless, &[0; 50], false)]);
    let worker = start(&server, Options { grace: Duration::ZERO, arena_memory: 1 << 30, ..options() });
    server.until("a lease", held).await;
    assert!(matches!(worker.stop().await, Err(WorkerError::HandedBack { jobs: 1, .. })));
    assert!(server.last_report().expect("a report").leases.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_memory_narrows_waves_and_a_lost_wave_fails_only_its_jobs() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&[add(1)]);
    let device = Arc::new(Flaky::new(CpuDevice::new(2).expect("threads"), 4));
    let stop = CancellationToken::new();
    let worker = tokio::spawn(run_on(device.clone(), options(), server.serve(), stop.clone()));
    let messages: Vec<u64> = (0..100).map(|row| row % 4).collect();
    let names = server.assign([client.job(&program, &messages, false)]);
    let end = &server.ends(&names).await[0];
    assert_eq!(client.answer(end), messages.iter().map(|message| message + 1).collect::<Vec<_>>());
    assert!(end.latency.waves.iter().all(|wave| wave.width <= 4), "{:?}", end.latency.waves);

    device.lose_next();
    let names = server.assign([client.job(&program, &[1], true)]);
    let end = &server.ends(&names).await[0];
    let failure = end.result.as_ref().expect_err("a lost wave");
    assert_eq!((failure.reason.as_str(), failure.retryable), ("DEVICE_FAILED", true));
    let names = server.assign([client.job(&program, &[2], true)]);
    assert_eq!(client.answer(&server.ends(&names).await[0]), [3]);
    stop.cancel();
    worker.await.expect("no panic").expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_wave_engine_panics_exits_and_reports_no_result() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&[add(1)]);
    let device = Arc::new(Flaky::new(CpuDevice::new(2).expect("threads"), 4));
    let worker = tokio::spawn(run_on(device.clone(), options(), server.serve(), CancellationToken::new()));
    let names = server.assign([client.job(&program, &[1], true)]);
    assert_eq!(client.answer(&server.ends(&names).await[0]), [2]);

    device.panic_next();
    // Several jobs, so that some are in the engine when it ends, and others arrive later.
    let lost = server.assign((0..20).map(|message| client.job(&program, &[message % 4], true)));
    let ended = tokio::time::timeout(Duration::from_secs(60), worker).await.expect("it ends by itself");
    let error = ended.expect("no panic").expect_err("it has no engine");
    assert!(matches!(error, WorkerError::Panicked { thread: "the wave engine", .. }), "{error}");
    assert!(error.to_string().ends_with("as the test asked"), "{error}");
    assert_eq!(server.streams(), 1);
    for job in &lost {
        assert!(server.ended(job).is_none(), "a failure costs a job one of its attempts");
    }
}

/// A program that adds two integers of 64 bits, which are 32 blocks each.
fn addition() -> Bytes {
    let input = |name: &str| wire::program::Input {
        name: name.to_owned(),
        r#type: wire::Type::Uint.into(),
        bits: 64,
        ..Default::default()
    };
    let add = wire::operation::Kind::Add.into();
    let message = wire::Program {
        parameter_set: TOY.to_owned(),
        inputs: vec![input("x"), input("y")],
        operations: vec![wire::Operation { kind: add, arguments: vec![0, 1], ..Default::default() }],
        outputs: vec![2],
        ..Default::default()
    };
    message.encode_to_vec().into()
}

/// The server compares bits. Threads, other jobs in the waves and the choice of rows must change
/// none, and the form of the program is therefore part of a check.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_computed_a_second_time_have_the_same_bits() {
    const ROWS: u64 = 40;
    const BLOCKS: usize = 32;
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let (program, chain) = (addition(), client.chain(&[add(1), add(5)]));
    let messages = |factor: u64| (0..ROWS * BLOCKS as u64).map(|block| block * factor % 4).collect();
    let job = client.wide_job(&program, &[messages(1), messages(3)], ROWS);
    let first = start(&server, Options { threads: 1, ..options() });
    let whole = server.ends(&server.assign([job.clone()])).await.remove(0);
    first.stop().await.expect("an end");
    assert_eq!(whole.lowering, Lowering::Work, "many rows fill the waves");

    let other = start(&server, Options { threads: 3, ..options() });
    let check_rows = vec![0, 3, 4, 5, 17, ROWS - 1];
    let check = |lowering: Lowering| JobContent {
        check_rows: check_rows.clone(),
        lowering: lowering.into(),
        priority: i32::from(i8::MIN),
        ..job.clone()
    };
    let mut jobs = vec![check(Lowering::Work), check(Lowering::Depth)];
    jobs.extend((0..20).map(|message| client.job(&chain, &[message % 4], true)));
    jobs.push(JobContent { lowering: Lowering::Work.into(), ..job.clone() });
    let ends = server.ends(&server.assign(jobs)).await;
    other.stop().await.expect("an end");

    let (expected, [same, deep]) = (client.ciphertexts(&whole), [0, 1].map(|end| client.ciphertexts(&ends[end])));
    assert_eq!(client.ciphertexts(&ends[22]), expected, "all rows again");
    assert_eq!([ends[0].lowering, ends[1].lowering], [Lowering::Work, Lowering::Depth]);
    let mut other_bits = false;
    for (index, row) in check_rows.iter().enumerate() {
        for block in 0..BLOCKS {
            let (place, original) = (index * BLOCKS + block, *row as usize * BLOCKS + block);
            assert_eq!(same.list().get(place), expected.list().get(original), "row {row}, block {block}");
            assert_eq!(same.info()[place], expected.info()[original], "row {row}, block {block}");
            other_bits |= deep.list().get(place) != expected.list().get(original);
        }
    }
    assert_eq!(same.list().len(), check_rows.len() * BLOCKS);
    assert_eq!(client.keys.decrypt(deep.list()), client.keys.decrypt(same.list()));
    assert!(other_bits, "another form has other bits");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_to_check_must_be_among_the_rows_and_in_order() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, TOY, 1);
    let program = client.chain(&[add(1)]);
    let job = client.job(&program, &[0, 1, 2], true);
    let rows = [vec![3], vec![1, 1], vec![2, 0], vec![u64::MAX]];
    let names = server.assign(rows.map(|check_rows| JobContent { check_rows, ..job.clone() }));
    let worker = start(&server, options());
    for end in server.ends(&names).await {
        assert_eq!(end.result.expect_err("a failure").reason, "PROGRAM_INVALID");
    }
    worker.stop().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_on_processors_of_one_kind_are_of_one_class() {
    let mut classes = Vec::new();
    for threads in [1, 3] {
        let server = FakeServer::default();
        let worker = start(&server, Options { threads, ..options() });
        let report = server.until("a report", FakeServer::last_report).await;
        worker.stop().await.expect("an end");
        classes.push(report.result_class);
    }
    assert_eq!(classes[0], classes[1]);
    let build = classes[0].split(' ').next().expect("the build of the program");
    assert!(build.len() == 16 && build.bytes().all(|digit| digit.is_ascii_hexdigit()), "{}", classes[0]);
    assert!(classes[0].len() <= 64, "{}", classes[0]);
}
