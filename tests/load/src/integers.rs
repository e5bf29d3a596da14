//! Small jobs on integers, few and many at once. The time of a bootstrap must not grow with the
//! number of jobs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_client::{Client, Encrypted, Integer, JobRequest, Kind, Program, ProgramBuilder, Type};
use cloakwork_tests_service::{Server, Tenant};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    Effort,
    core::Core,
    report::{Bound, Report, Row},
};

/// Width of the integers that every job adds. A thousand jobs on wider integers would take minutes
/// to complete once.
const BITS: u32 = 16;
const TYPE: Type = Type::Uint(BITS);
const VALUES: [u128; 2] = [0xd1e7, 0x6ca4];

/// Numbers of concurrent jobs.
const FEW: usize = 32;
const MANY: usize = 1000;
const CONNECTIONS: usize = 32;

struct Work {
    program: Program,
    key: String,
    inputs: Vec<Encrypted>,
}

impl Work {
    fn new(tenant: &Tenant) -> Arc<Self> {
        let mut program = ProgramBuilder::new(tenant.keys.set());
        let (x, y) = (program.fresh("x", TYPE), program.fresh("y", TYPE));
        let sum = program.apply(Kind::Add, &[x, y]);
        program.output(sum);
        let encrypt = |value| tenant.keys.encrypt_integers(&[Integer::from(value)], TYPE).expect("a number");
        let (program, inputs) = (program.build().expect("a program"), VALUES.map(encrypt).to_vec());
        Arc::new(Self { program, key: tenant.key.clone(), inputs })
    }

    /// Runs one addition. Returns the number of its bootstraps.
    async fn run(&self, client: &Client, tenant: &Tenant) -> u64 {
        let mut request = JobRequest::new(self.program.clone(), &self.key);
        for input in &self.inputs {
            request = request.encrypted(input.clone());
        }
        let finished = client.run(&request).await.expect("the job succeeds");
        let output = client.output(&finished.output(0).expect("an output")).await.expect("its bytes");
        let sum = tenant.keys.decrypt_integers(&output, TYPE).expect("a readable output");
        let expected = Integer::from((VALUES[0] + VALUES[1]) % (1 << BITS));
        assert_eq!(sum[0].display(TYPE), expected.display(TYPE), "a wrong result");
        finished.job.latency.map_or(0, |record| record.pbs_count)
    }
}

/// Measures one job at a time, 32 and 1,000, alternating with the core's batches.
pub(crate) fn measure(
    runtime: &Runtime,
    server: &Server,
    tenant: &Arc<Tenant>,
    core: &mut Core,
    effort: Effort,
    report: &mut Report,
) {
    let work = Work::new(tenant);
    let clients = runtime.block_on(async {
        let mut clients = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            clients.push(tenant.share_key(server.client().await).await);
        }
        clients
    });
    let (mut served, mut growth, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let mut micros: [Vec<f64>; 3] = Default::default();
    for _ in 0..effort.rounds {
        let core_rate = core.batch(effort.slice);
        let rate = |jobs: usize| runtime.block_on(run(&clients, &work, tenant, jobs, effort.slice));
        let rates = [rate(1), rate(FEW), rate(MANY)];
        for (micros, rate) in micros.iter_mut().zip(rates) {
            micros.push(1e6 / rate);
        }
        served.push(rates[1] / core_rate);
        growth.push(rates[1] / rates[2]);
        alone.push(rates[0] / rates[2]);
    }
    for (jobs, micros) in [1, FEW, MANY].into_iter().zip(&micros) {
        report.add(Row::of(&format!("additions of u{BITS}, {jobs} at once, a bootstrap"), "us", micros));
    }
    report.add(Row::of(&format!("{FEW} at once over the core"), "ratio", &served).required(Bound::Least(0.9)));
    report
        .add(Row::of(&format!("a bootstrap, {MANY} at once over {FEW}"), "ratio", &growth).required(Bound::Most(1.1)));
    report.add(Row::of(&format!("a bootstrap, {MANY} at once over one"), "ratio", &alone).required(Bound::Most(1.0)));
}

/// Keeps this number of jobs running, each followed by the next. Returns bootstraps per second.
async fn run(clients: &[Client], work: &Arc<Work>, tenant: &Arc<Tenant>, jobs: usize, time: Duration) -> f64 {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for job in 0..jobs {
        let (client, work, tenant) = (clients[job % clients.len()].clone(), work.clone(), tenant.clone());
        tasks.spawn(async move {
            let mut bootstraps = 0;
            while bootstraps == 0 || begun.elapsed() < time {
                bootstraps += work.run(&client, &tenant).await;
            }
            bootstraps
        });
    }
    let bootstraps: u64 = tasks.join_all().await.into_iter().sum();
    bootstraps as f64 / begun.elapsed().as_secs_f64()
}
