//! Every metric that is declared is recorded by a service that is used.

use cloakwork_client::Input;
use cloakwork_server::metrics::never_recorded;
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES, Worker, eventually};

/// Metrics of faults that this test does not make.
const FAULTS: &[&str] = &["cloakwork_invariant_violations_total"];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_declared_that_is_never_recorded() {
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    // A worker that dies with a job, and one that does it.
    let mut first = Worker::start(&server, "first", &token);
    let values: Vec<u64> = (0..30_000).map(|row| row % VALUES).collect();
    let list = tenant.keys.encrypt(&values, VALUES as u32 - 1).expect("values");
    let stored = tenant.client.store(&list).await.expect("stored");
    let job = cloakwork_client::JobRequest::new(tenant.lookup(|x| x), &tenant.key).input(Input::Name(stored));
    let job = tenant.client.submit(&job).await.expect("accepted");
    eventually("the job runs", || async { tenant.client.job(&job.name).await.expect("a job").attempts > 0 }).await;
    first.process().kill();
    let mut second = Worker::start(&server, "second", &token);
    let ended = tenant.client.wait(&job.name).await.expect("an end");
    tenant.client.output(&ended.outputs[0]).await.expect("an output");
    tenant.check_squares(&[1, 2, 3]).await;
    // A refusal, and a worker that leaves in good order.
    tenant.client.job("tenants/local/jobs/none").await.expect_err("no such name");
    assert!(second.process().terminate(std::time::Duration::from_secs(20)), "{}", second.process().log());
    eventually("all that is declared is recorded", || async {
        let missing = never_recorded(&server.metrics().await);
        let missing: Vec<_> = missing.into_iter().filter(|name| !FAULTS.contains(name)).collect();
        eprintln!("not recorded: {missing:?}");
        missing.is_empty()
    })
    .await;
}
