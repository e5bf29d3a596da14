//! The cost of the whole life of a job at PostgreSQL, by the number of jobs in a transaction.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use cloakwork_client::proto::{JobState, LatencyRecord};
use cloakwork_params::{AnySet, KeyId, table};
use cloakwork_scheduler::JobId;
use cloakwork_server::{
    database::SCHEMAS,
    jobs::{Content, End, JobMeta},
    owner,
    store::{Attempt, Ended, NewJob, Store, Write},
};
use cloakwork_storage::{Database, Server, Survival};
use cloakwork_tests_postgres::Postgres;
use tokio::runtime::Runtime;

use crate::{
    Effort,
    processes::processes,
    report::{Bound, Report, Row},
};

/// Numbers of jobs in a transaction.
const SIZES: [usize; 4] = [1, 16, 128, 512];

/// Bytes of a job's only input, and of its only output.
const CONTENT_BYTES: usize = 1024;

/// Measures the processor time of PostgreSQL for a job that is stored, gets an attempt, and ends.
pub(crate) fn measure(runtime: &Runtime, effort: Effort, report: &mut Report) {
    let postgres = Postgres::start(&["fsync=on", "full_page_writes=on"]).expect("PostgreSQL is installed");
    let server = Server::new(&postgres.database(), None, None).expect("a URL");
    let schemas = [SCHEMAS[0], SCHEMAS[1], owner::SCHEMA];
    let database = runtime.block_on(Database::connect(server, &schemas, 1)).expect("it opens");
    let store = Store::new(database);
    let mut costs: [Vec<f64>; SIZES.len()] = Default::default();
    let mut number = 0;
    for _ in 0..effort.rounds {
        for (size, costs) in SIZES.into_iter().zip(&mut costs) {
            let count = (size * 16).max(512);
            let before = time_of(&postgres);
            for _ in 0..count / size {
                runtime.block_on(live(&store, number..number + size as u128));
                number += size as u128;
            }
            costs.push((time_of(&postgres) - before).as_secs_f64() * 1e6 / count as f64);
        }
    }
    for (size, costs) in SIZES.into_iter().zip(&costs) {
        let name = format!("processor time of PostgreSQL for a job, {size} jobs in a transaction");
        let row = Row::of(&name, "us", costs);
        report.add(if size == 128 { row.required(Bound::Most(100.0)) } else { row });
    }
}

/// Stores jobs in one transaction, and their ends in another one.
async fn live(store: &Store, numbers: std::ops::Range<u128>) {
    let content = || Content::inline(Bytes::from(vec![7; CONTENT_BYTES]));
    let begun = numbers.clone().flat_map(|number| {
        let job = JobId(number);
        let attempt = Attempt { job, epoch: 1, attempts: 0, worker: 1, suspect: None, solo_crashes: 0 };
        [Write::Submitted(new_job(number, content())), Write::Attempt(attempt)]
    });
    store.apply(Survival::Crash, &begun.collect::<Vec<_>>()).await.expect("committed");
    let ended = numbers.flat_map(|number| {
        let (job, latency) = (JobId(number), LatencyRecord::default());
        let end = End {
            state: JobState::Succeeded,
            ended_micros: 1,
            outputs_expire_micros: Some(i64::MAX),
            error: None,
            outputs: vec![content()],
            latency: latency.clone(),
            attestation: None,
        };
        [Write::Ended(Ended { job, end: Arc::new(end) }), Write::Closed(job, latency)]
    });
    store.apply(Survival::Crash, &ended.collect::<Vec<_>>()).await.expect("committed");
}

fn new_job(number: u128, input: Content) -> NewJob {
    let meta = JobMeta {
        id: JobId(number),
        tenant: "acme".into(),
        request_id: number.to_be_bytes(),
        request_digest: [0; 32],
        program: ProgramId([1; 32]),
        key_id: KeyId([7; 16]),
        set: AnySet::Tfhe(&table::SETS[0]),
        operation: "ADD",
        trace: None,
        rows: 1,
        pbs_count: 1,
        cost: 100,
        priority: 0,
        inline_outputs: true,
        keep_outputs_micros: 0,
        created_micros: 1,
        deadline_micros: i64::MAX,
    };
    NewJob {
        meta: Arc::new(meta),
        program: Bytes::from_static(&[1; 100]),
        inputs: [input].into(),
        key_parts: Vec::new(),
        promised: false,
    }
}

/// Time that the processes of PostgreSQL have computed.
pub(crate) fn time_of(postgres: &Postgres) -> Duration {
    let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    let checkpointer: u32 = postgres.sql("postgres", sql).parse().expect("a number");
    let processes = processes();
    let main = processes[&checkpointer].parent;
    let of_postgres = processes.iter().filter(|(pid, process)| **pid == main || process.parent == main);
    // The kernel adds the time of processes that have ended to their parent.
    of_postgres.map(|(_, process)| process.time + process.ended_time).sum()
}
