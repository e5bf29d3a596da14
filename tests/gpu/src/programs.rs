//! Programs of integers, computed as jobs by a worker around the device. The worker lowers a
//! program and cuts it into waves. Jobs run one at a time, so a job's time is the sum of its waves.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cloakwork_circuit::{LIMITS, Program, Type};
use cloakwork_device::Device;
use cloakwork_params::ParameterSet;
use cloakwork_proto::v1::LatencyRecord;
use cloakwork_tests_device::{jobs::Client, server::FakeServer};
use cloakwork_worker::{CancellationToken, Options, run_on};

use crate::{
    Plan, ProgramReport,
    cases::{CASES, Case, digits, largest_digit, value},
    report::Spread,
};

/// Whether the set has blocks that integers are made of.
pub(crate) fn takes_integers(set: &ParameterSet) -> bool {
    Program::decode(&CASES[0].program(set.name), &LIMITS).is_ok()
}

/// Times every program, except those that the plan leaves no time for.
pub(crate) fn time(device: &Arc<dyn Device>, set: &'static ParameterSet, plan: &Plan) -> Vec<ProgramReport> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(time_in_worker(device.clone(), set, plan))
}

async fn time_in_worker(device: Arc<dyn Device>, set: &'static ParameterSet, plan: &Plan) -> Vec<ProgramReport> {
    let server = Arc::new(FakeServer::default());
    let options = Options { vector_memory: 0, pool: "gpu".to_owned(), ..Options::default() };
    let stop = CancellationToken::new();
    let mut worker = tokio::spawn(run_on(device, options, server.serve(), stop.clone()));
    let mut client = match set.small_word_bits() {
        64 => Client::new::<u64, u64>(&server, set.name, 1),
        _ => Client::new::<u64, u32>(&server, set.name, 1),
    };
    // All companions have small words of 64 bits.
    client.add_companion::<u64, u64>();
    let mut jobs = Jobs { server, client, draws: 0 };
    let timed = async {
        let mut reports = Vec::new();
        for case in CASES.iter().take_while(|_| Instant::now() < plan.ends) {
            reports.push(jobs.time(case, plan).await);
        }
        reports
    };
    let reports = tokio::select! {
        reports = timed => reports,
        ended = &mut worker => panic!("the worker ended before its jobs: {:?}", ended.map(|result| result.err())),
    };
    stop.cancel();
    worker.await.expect("no panic").expect("a clean end");
    reports
}

/// A client of the worker's server.
struct Jobs {
    server: Arc<FakeServer>,
    client: Client,
    draws: u64,
}

impl Jobs {
    async fn time(&mut self, case: &Case, plan: &Plan) -> ProgramReport {
        let program = case.program(self.client.keys.set.name);
        // The first job loads the key and lowers the program.
        let (_, mut wrong) = self.run(case, &program).await;
        let (began, mut records) = (Instant::now(), Vec::new());
        let lasts = |rounds: usize| {
            let now = Instant::now();
            rounds == 0 || now < plan.ends && (rounds < plan.rounds || now - began < plan.program_time)
        };
        while lasts(records.len()) {
            let (record, has_failed) = self.run(case, &program).await;
            wrong += has_failed;
            records.push(record);
        }
        report(case, &records, wrong)
    }

    /// Runs one job. Returns its worker's record, and 1 if its results are wrong.
    async fn run(&mut self, case: &Case, program: &Bytes) -> (LatencyRecord, u64) {
        let inputs = match case.fixed {
            [] => case.inputs.iter().map(|ty| self.draw(*ty)).collect(),
            fixed => fixed.to_vec(),
        };
        let encrypted: Vec<(u32, Vec<u64>)> = inputs
            .iter()
            .zip(case.inputs)
            .map(|(value, ty)| (largest_digit(*ty) as u32, digits(*value, *ty)))
            .collect();
        let job = self.client.fresh_job(program, &encrypted);
        let end = self.server.ends(&self.server.assign([job])).await.remove(0);
        let results: Vec<u128> = self.client.answers(&end).iter().map(|digits| value(digits)).collect();
        let is_wrong = results != (case.clear)(&inputs);
        (end.latency, u64::from(is_wrong))
    }

    /// Draws a bit, or a pseudorandom number of pseudorandom length.
    fn draw(&mut self, ty: Type) -> u128 {
        self.draws += 1;
        let word = self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match ty {
            Type::Bool => u128::from(word >> 63),
            _ => u128::from((word ^ word >> 32).wrapping_mul(0x2545_f491_4f6c_dd1d) >> (word >> 59)),
        }
    }
}

fn report(case: &Case, records: &[LatencyRecord], wrong: u64) -> ProgramReport {
    let of =
        |part: fn(&LatencyRecord) -> u64| Spread::of(records.iter().map(|record| part(record) as f64 * 1e-6).collect());
    let Spread { median: median_ms, p99: p99_ms, max: max_ms } = of(|record| record.wall_nanos);
    let last = records.last().expect("a round at least");
    ProgramReport {
        program: case.name.to_owned(),
        bootstraps: last.pbs_count,
        waves: last.wave_count,
        companion_waves: last.companion_waves,
        rounds: records.len(),
        median_ms,
        p99_ms,
        max_ms,
        key_switch_ms: of(|record| record.key_switch_nanos).median,
        blind_rotate_ms: of(|record| record.blind_rotate_nanos).median,
        other_compute_ms: of(|record| record.other_compute_nanos).median,
        wave_wait_ms: of(|record| record.wave_wait_nanos).median,
        fetch_ms: of(|record| record.fetch_nanos).median,
        store_ms: of(|record| record.store_nanos).median,
        wrong,
    }
}
