//! Measures the worker's rate against the bare core's, in alternation, and the overhead of a single
//! bootstrap: `cargo run --release -p cloakwork-tests-device --example rate`.

#![forbid(unsafe_code)]

use std::{sync::Arc, time::Instant};

use cloakwork_device::SeededParts;
use cloakwork_tests_device::{jobs::Client, server::FakeServer};
use cloakwork_tfhe::{Lut, LweList, ServerKey};
use cloakwork_worker::{CancellationToken, Options, run};

const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
const THREADS: usize = 2;
const ROWS: usize = 512;
const ROUNDS: usize = 4;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}

async fn measure() {
    let server = Arc::new(FakeServer::default());
    let mut client = Client::new::<u64, u64>(&server, SET, 1);
    let parts = SeededParts::<u64, u64>::read(&client.keys).expect("parts");
    let set = client.keys.set;
    let key = ServerKey::expand(set, &parts.key_switch, &parts.bootstrap, THREADS).expect("a key");
    let mut scratches: Vec<_> = (0..THREADS).map(|_| key.scratch()).collect();
    let lut = Lut::from_fn(set, |x| (x + 1) % 16).expect("a table");
    let inputs = client.keys.encrypt::<u64>(&vec![1; ROWS]);
    let one = LweList::from_words(inputs.dimension(), inputs.get(0).to_vec()).expect("one");
    let mut bare = |inputs: &LweList<u64>, threads: usize| {
        let mut outputs = LweList::zeros(inputs.dimension(), inputs.len());
        let started = Instant::now();
        key.bootstrap(inputs, &vec![&lut; inputs.len()], &mut outputs, &mut scratches[..threads]).expect("it fits");
        started.elapsed().as_secs_f64()
    };

    let stop = CancellationToken::new();
    let worker = tokio::spawn(run(Options { threads: THREADS, ..Options::default() }, server.serve(), stop.clone()));
    let program = client.chain(&[(0..16).map(|x| (x + 1) % 16).collect()]);
    let warm = client.job(&program, &vec![1; ROWS], false);
    let names = server.assign([warm]);
    server.ends(&names).await;
    println!("| round | bare /s | worker /s | ratio | alone bare ms | alone worker ms | job end to end ms |");
    println!("|---|---|---|---|---|---|---|");
    for round in 0..ROUNDS {
        let core = ROWS as f64 / bare(&inputs, THREADS);
        let names = server.assign([client.job(&program, &vec![1; ROWS], false)]);
        let latency = server.ends(&names).await.remove(0).latency;
        let waves = latency.wave_wait_nanos
            + latency.key_switch_nanos
            + latency.blind_rotate_nanos
            + latency.other_compute_nanos;
        let rate = ROWS as f64 / (waves as f64 * 1e-9);
        let (mut alone, mut through, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..10 {
            alone.push(bare(&one, 1) * 1e3);
            let job = client.job(&program, &[1], true);
            let started = Instant::now();
            let names = server.assign([job]);
            let latency = server.ends(&names).await.remove(0).latency;
            whole.push(started.elapsed().as_secs_f64() * 1e3);
            through.push(latency.wall_nanos as f64 * 1e-6);
        }
        println!(
            "| {round} | {core:.1} | {rate:.1} | {:.3} | {:.2} | {:.2} | {:.2} |",
            rate / core,
            least(&alone),
            least(&through),
            least(&whole)
        );
    }
    stop.cancel();
    worker.await.expect("no panic").expect("a clean end");
}

/// The minimum of several values: disturbances only ever lengthen a measurement.
fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MAX, f64::min)
}
