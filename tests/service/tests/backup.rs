//! A backup that was made while the server ran is an installation that continues.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command, time::Duration};

use cloakwork_client::proto::JobState;
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES};

const JOBS: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_has_every_job_from_before_it() {
    let server = Server::start(Setup::default()).await;
    let mut tenant = Tenant::new(server.client().await).await;
    let copy = tempfile::tempdir().expect("a directory");
    let data = copy.path().join("data");
    fs::create_dir(&data).expect("a directory");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("its mode");
    let out = data.join("server.db");
    let back_up = || {
        let mut command = server.command();
        command.args(["backup", "--out"]).arg(&out);
        command
    };
    let mut jobs = Vec::new();
    let mut backup = None;
    for number in 0..JOBS {
        if number == JOBS / 2 {
            backup = Some(back_up().spawn().expect("the command runs"));
        }
        let request = tenant.squares(&[number % VALUES]);
        let job = tenant.client.submit(&request).await.expect("accepted");
        jobs.push((job.name, request));
    }
    assert!(backup.expect("it began").wait().expect("a child").success());
    let again = back_up().output().expect("the command runs");
    assert!(!again.status.success(), "an existing file is kept");
    assert_eq!(fs::metadata(&out).expect("a file").permissions().mode() & 0o777, 0o600);
    for part in ["blobs", "installation"] {
        let from = server.directory().join("data").join(part);
        assert!(Command::new("cp").arg("-a").args([from, data.join(part)]).status().expect("cp runs").success());
    }
    drop(server);
    let restored = Server::start_in(copy, Setup::default()).await;
    tenant.continue_with(restored.client().await).await;
    for ((name, request), number) in jobs.iter().zip(0..JOBS) {
        let ended = match tenant.client.wait(name).await {
            Ok(ended) => ended,
            Err(error) => {
                assert!(number >= JOBS / 2, "a job from before the backup is missing: {error}");
                continue;
            }
        };
        assert_eq!(ended.state(), JobState::Succeeded, "{ended:?}");
        let finished = tenant.client.finish(ended, Duration::ZERO, request).await.expect("a signed result");
        assert_eq!(tenant.values(&finished).await.expect("an output"), [number * number % VALUES]);
    }
    tenant.check_squares(&[1, 2, 3]).await;
}
