//! One trial of each quick fault, and two shards.

#![forbid(unsafe_code)]

mod shards;

use std::time::Duration;

use cloakwork_client::RetryPolicy;
use cloakwork_tests_cluster::{Fault, Size, ledger, run};

/// Faults whose trials are short. The other ones wait for a database that is away for long.
const QUICK: [u8; 13] = [1, 2, 3, 4, 7, 8, 9, 10, 12, 13, 14, 17, 18];

/// The default retries of the client library end after 6 to 11 s. A busy machine may take longer to
/// start all servers again. The ledger has trials with the default.
const PATIENT: RetryPolicy = RetryPolicy {
    attempts_max: 100,
    first_pause: Duration::from_millis(100),
    pause_max: Duration::from_secs(5),
    total_max: Duration::from_secs(120),
};

#[tokio::test(flavor = "multi_thread")]
async fn no_fault_loses_a_job() {
    let (faults, trials) = match std::env::var_os("CLOAKWORK_TEST_ALL") {
        Some(_) => (Fault::ALL.into_iter().filter(Fault::is_possible).collect(), 5),
        None => (QUICK.map(|number| Fault::numbered(number).expect("a fault")).to_vec(), 1),
    };
    let mut bad = Vec::new();
    for fault in faults.into_iter().flat_map(|fault| std::iter::repeat_n(fault, trials)) {
        let size = Size { servers: 3, workers: 1, fsync: false, retry: PATIENT, live_jobs: 0 };
        let Some((trial, errors)) = run(fault, size).await else { return };
        eprintln!("{}: {trial:?}", fault.name);
        // The times of a debug build on a busy machine are no figures: the ledger has those.
        let harm = trial.harm(&fault);
        if !harm.is_empty() {
            bad.push(format!("{}: {harm:?}, {errors:#?}", fault.name));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// With `CLOAKWORK_UPDATE_DOCS=1`, this writes the table instead.
#[test]
fn the_table_of_the_docs_is_that_of_the_ledger() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reliability.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let (start, end) = ("<!-- table of the ledger -->\n", "<!-- end of the table -->");
    let from = text.find(start).expect("a mark") + start.len();
    let to = text.find(end).expect("a mark");
    let table = ledger::table(&ledger::read(&ledger::path()).expect("the ledger"));
    let expected = format!("{}\n{table}\n{}", &text[..from], &text[to..]);
    match std::env::var_os("CLOAKWORK_UPDATE_DOCS") {
        Some(_) => std::fs::write(path, expected).expect("the page"),
        None => assert_eq!(text, expected, "run this test with CLOAKWORK_UPDATE_DOCS=1"),
    }
}
