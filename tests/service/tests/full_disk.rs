//! A server whose disk is full, and then has room again.

use cloakwork_client::{Client, ClientError, Keys, Output, Progress, Refusal, RetryPolicy, set_by_name};
use cloakwork_tests_service::{Server, Setup, SmallDisk, TOY, Tenant, Worker, eventually};

/// Room for the databases, a few toy keys and some jobs.
const DISK_BYTES: u64 = 24 << 20;

/// Upper bound for the jobs that still fit into existing pages and logs of a full disk.
const LAST_JOBS_MAX: usize = 2000;

fn refusal(error: ClientError) -> Refusal {
    match error {
        ClientError::Refused(refusal) => *refusal,
        other => panic!("not the server's answer: {other:?}"),
    }
}

fn is_documented(refusal: &Refusal) {
    assert_eq!(refusal.reason, "STORAGE_FULL", "{refusal}");
    let page = format!("{}/../../docs/errors/{}.md", env!("CARGO_MANIFEST_DIR"), refusal.reason);
    assert!(std::path::Path::new(&page).exists(), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_full_disk_refuses_calls_and_loses_no_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    let disk = match SmallDisk::mount(&data, DISK_BYTES) {
        Ok(disk) => disk,
        Err(problem) => {
            assert!(std::env::var_os("CI").is_none(), "where CI is set, this test must be able to mount: {problem}");
            eprintln!("SKIPPED: a full disk cannot be tested, as this user may mount nothing: {problem}");
            return;
        }
    };
    let setup = Setup::default().without_worker().within(disk.within());
    let mut server = Server::start_in(directory, setup).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    let mut acknowledged = Vec::new();
    for value in 0..4 {
        let job = tenant.client.submit(&tenant.squares(&[value])).await.expect("there is room");
        acknowledged.push((job.name, value));
    }

    disk.fill();
    // Free pages may still take some jobs. The server must not lose those either.
    let impatient = server.client().await.retry_policy(RetryPolicy::NEVER);
    impatient.use_key(&tenant.keys).await.expect("the digests of the key");
    let mut refused = None;
    for index in 0..LAST_JOBS_MAX {
        let value = index as u64 % 16;
        match impatient.submit(&tenant.squares(&[value])).await {
            Ok(job) => acknowledged.push((job.name, value)),
            Err(error) => {
                refused = Some(refusal(error));
                break;
            }
        }
    }
    is_documented(&refused.expect("the disk has no room for another job"));
    is_documented(&push_new_key(&impatient).await.expect_err("no room for a key"));
    // Stored objects can still be read, and the server is healthy otherwise.
    let (name, _) = &acknowledged[0];
    assert_eq!(tenant.client.job(name).await.expect("it can be read").name, *name);
    assert_eq!(server.probe("/livez").await, Some(200));

    // A worker cannot deliver its results while the disk is full, and no result is lost.
    let mut worker = Worker::start(&server, "first", &token);
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert!(worker.process().is_running(), "a full disk does not end a worker");
    assert!(server.process().is_running(), "a full disk does not end the server");
    // The server answers other calls, although it cannot store the worker's results.
    let (name, _) = acknowledged.last().expect("some");
    let answer = tokio::time::timeout(std::time::Duration::from_secs(10), tenant.client.job(name)).await;
    assert_eq!(answer.expect("at once").expect("it can be read").name, *name);

    disk.free();
    push_new_key(&impatient).await.expect("there is room again");
    for (name, value) in &acknowledged {
        eventually("an acknowledged job ends", || async {
            tenant.client.job(name).await.is_ok_and(|job| cloakwork_client::has_ended(&job))
        })
        .await;
        let job = tenant.client.job(name).await.expect("it has ended");
        assert!(job.error.is_none(), "{job:?}");
        tenant.client.verify(&job, None).await.expect("a worker has signed it");
        let message = job.outputs.first().cloned().expect("an output");
        let output = Output { message, shape: tenant.squares(&[*value]).output_shapes().remove(0) };
        let output = tenant.client.output(&output).await.expect("its bytes");
        assert_eq!(*tenant.keys.decrypt(&output).expect("our key"), [value * value % 16]);
    }
    tenant.check_squares(&[5]).await;

    // All jobs are on disk: a server that is killed and started again knows every one.
    server.kill();
    server.restart().await;
    for (name, _) in &acknowledged {
        let job = tenant.client.job(name).await.expect("it is remembered");
        assert!(cloakwork_client::has_ended(&job) && job.error.is_none(), "{job:?}");
    }
}

async fn push_new_key(client: &Client) -> Result<(), Refusal> {
    let keys = Keys::generate(set_by_name(TOY).expect("a set"), Progress::none()).await.expect("keys");
    client.push_key(&keys, &Progress::none()).await.map(drop).map_err(refusal)
}
