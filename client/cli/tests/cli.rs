//! The program as users call it: exit codes, documents, files.

use std::{
    net::SocketAddr,
    process::{Command, Output},
};

use cloakwork_client::proto as v1;
use serde_json::Value;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};
use v1::{Job, JobError, JobState, LatencyRecord, capability_service_server as capability, job_service_server as job};

/// A server that lists two jobs, and refuses all other calls with different codes.
#[derive(Clone)]
struct Fake;

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl capability::CapabilityService for Fake {
    async fn get_capabilities(
        &self,
        request: Request<v1::GetCapabilitiesRequest>,
    ) -> Answer<v1::GetCapabilitiesResponse> {
        if request.metadata().get("authorization").is_none_or(|token| token != "Bearer good") {
            return Err(Status::unauthenticated("no such token"));
        }
        let set = v1::ParameterSet { name: "SET".into(), security_log2: 132.5, ..Default::default() };
        Ok(Response::new(v1::GetCapabilitiesResponse {
            tenant: "t".into(),
            parameter_sets: vec![set],
            installation_keys: vec![format!("ed25519:{}", "11".repeat(32))],
            ..Default::default()
        }))
    }
}

#[tonic::async_trait]
impl job::JobService for Fake {
    async fn submit_job(&self, _: Request<v1::SubmitJobRequest>) -> Answer<v1::SubmitJobResponse> {
        Err(Status::resource_exhausted("full"))
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Answer<v1::GetJobResponse> {
        match request.into_inner().name.as_str() {
            "tenants/t/jobs/1" => Ok(Response::new(v1::GetJobResponse { job: Some(failed_job()) })),
            _ => Err(Status::not_found("no such job")),
        }
    }

    async fn list_jobs(&self, _: Request<v1::ListJobsRequest>) -> Answer<v1::ListJobsResponse> {
        Ok(Response::new(v1::ListJobsResponse { jobs: vec![failed_job(); 2], next_page_token: String::new() }))
    }

    async fn cancel_job(&self, _: Request<v1::CancelJobRequest>) -> Answer<v1::CancelJobResponse> {
        Err(Status::failed_precondition("it has ended"))
    }

    type WatchJobStream = tokio_stream::Once<Result<v1::WatchJobResponse, Status>>;

    async fn watch_job(&self, _: Request<v1::WatchJobRequest>) -> Answer<Self::WatchJobStream> {
        Ok(Response::new(tokio_stream::once(Ok(v1::WatchJobResponse { job: Some(failed_job()) }))))
    }

    async fn run_job(&self, _: Request<v1::RunJobRequest>) -> Answer<v1::RunJobResponse> {
        Err(Status::resource_exhausted("full"))
    }
}

fn failed_job() -> Job {
    Job {
        name: "tenants/t/jobs/1".into(),
        state: JobState::Failed.into(),
        error: Some(JobError { reason: "JOB_POISON".into(), message: "it killed its worker".into() }),
        latency: Some(LatencyRecord { queue_nanos: 7, wall_nanos: 7, ..Default::default() }),
        ..Default::default()
    }
}

async fn serve() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::builder()
        .add_service(capability::CapabilityServiceServer::new(Fake))
        .add_service(job::JobServiceServer::new(Fake));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

/// Runs the program with no environment beyond these settings.
fn cloakwork(server: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloakwork"));
    command.env_clear().env("CLOAKWORK_SERVER", server).env("CLOAKWORK_TOKEN", "good").args(arguments);
    command.output().expect("it runs")
}

fn document(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_what_is_wrong() {
    let url = format!("http://{}", serve().await);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys");
    let keys = keys.to_str().expect("a path");
    let code = |arguments: &[&str]| cloakwork(&url, arguments).status.code();
    assert_eq!(code(&["jobs", "ls"]), Some(0));
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["keygen", "--set", "NONE", "--out", keys]), Some(2));
    assert_eq!(code(&["jobs", "show", "2"]), Some(3));
    assert_eq!(code(&["jobs", "cancel", "1"]), Some(4));
    assert_eq!(code(&["--token", "bad", "sets"]), Some(4));
    assert_eq!(cloakwork(&format!("http://{free}"), &["sets"]).status.code(), Some(5));
    assert_eq!(code(&["jobs", "watch", "1"]), Some(7));
    assert_eq!(code(&["--keys", keys, "keys", "push"]), Some(8));
    // Two families of sets, or a set named twice: no key is made, and nothing blocks another
    // attempt.
    for second in ["TOY_BOOLEAN", "TOY_MESSAGE_2_CARRY_2"] {
        let sets = ["keygen", "--set", "TOY_MESSAGE_2_CARRY_2", "--set", second, "--out", keys];
        assert_eq!(code(&sets), Some(8), "with {second}");
        assert!(!std::path::Path::new(keys).exists(), "with {second}");
    }
    // The set has no companion.
    assert_eq!(code(&["keygen", "--companion", "--set", "TOY_MESSAGE_2_CARRY_2", "--out", keys]), Some(2));
    assert!(!std::path::Path::new(keys).exists());
    assert_eq!(code(&["keygen", "--set", "TOY_MESSAGE_2_CARRY_2", "--out", keys]), Some(0));
    let add = ["keygen", "--add", "--set", "TOY_MESSAGE_2_CARRY_2_KS32", "--set", "TOY_BOOLEAN", "--out", keys];
    assert_eq!(code(&add), Some(8));
    assert_eq!(code(&[&add[..4], &add[6..]].concat()), Some(0), "the first of the two was not added");
    assert_eq!(code(&["keygen", "--set", "TOY_MESSAGE_2_CARRY_2", "--out", keys]), Some(8));
    assert_eq!(code(&["--keys", keys, "pbs", "--fn", "square", "--values", "1"]), Some(6));
    assert_eq!(code(&["--keys", keys, "pbs", "--fn", "square", "--values", "16"]), Some(2));
    assert_eq!(code(&["--keys", keys, "gate", "AND", "--left", "1", "--right", "1"]), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_companion_is_made_with_its_set_or_added() {
    let url = format!("http://{}", serve().await);
    let directory = tempfile::tempdir().expect("a directory");
    let sets = ["TOY_MESSAGE_2_CARRY_2_N2048", "TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_N2048"];
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let made = |arguments: &[&str]| document(&cloakwork(&url, &[&["--json", "keygen"], arguments].concat()).stdout);
    let (both, later) = (path("both"), path("later"));
    let of_both = made(&["--companion", "--set", sets[0], "--out", &both]);
    assert_eq!(of_both["parameter_sets"], serde_json::json!(sets));
    made(&["--set", sets[0], "--out", &later]);
    assert_eq!(made(&["--add", "--companion", "--out", &later])["parameter_sets"], serde_json::json!(sets));
    // A companion can be added only once.
    let again = cloakwork(&url, &["keygen", "--add", "--companion", "--out", &later]);
    assert_eq!(again.status.code(), Some(8));
    let none = cloakwork(&url, &["keygen", "--companion", "--set", "TOY_BOOLEAN", "--out", &path("none")]);
    let message = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(message.contains("TOY_BOOLEAN has no companion") && message.contains("GAUSSIAN"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_keep_their_shape() {
    let url = format!("http://{}", serve().await);
    let jobs = document(&cloakwork(&url, &["--json", "jobs", "ls"]).stdout);
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(2));
    let job = &jobs["jobs"][0];
    assert_eq!(job["name"], "tenants/t/jobs/1");
    assert_eq!(job["state"], "failed");
    assert_eq!(job["error"]["reason"], "JOB_POISON");
    assert_eq!(job["latency"]["stages"]["queue_nanos"], 7);
    let limited = document(&cloakwork(&url, &["--json", "jobs", "ls", "--limit", "1"]).stdout);
    assert_eq!(limited["jobs"].as_array().map(Vec::len), Some(1));
    let sets = document(&cloakwork(&url, &["sets", "--json"]).stdout);
    assert_eq!(sets["parameter_sets"][0]["security_log2"], 132.5);
    let error = document(&cloakwork(&url, &["--json", "jobs", "show", "2"]).stderr);
    assert_eq!((&error["error"]["exit_code"], &error["error"]["code"]), (&3.into(), &"NotFound".into()));

    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys");
    let arguments = ["--json", "--keys", keys.to_str().expect("a path"), "keygen", "--set", "TOY_BOOLEAN"];
    let made = document(&cloakwork(&url, &arguments).stdout);
    assert_eq!(made["parameter_set"], "TOY_BOOLEAN");
    assert_eq!(made["key_id"].as_str().map(str::len), Some(32));
    let size = made["evaluation_key_bytes"].as_u64().expect("a number");
    let files = ["TOY_BOOLEAN.key-switch", "TOY_BOOLEAN.bootstrap"].map(|name| keys.join(name));
    assert_eq!(size, files.iter().map(|file| file.metadata().expect("a file").len()).sum::<u64>());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_printed() {
    let url = format!("http://{}", serve().await);
    let help = cloakwork(&url, &["--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(text.contains("CLOAKWORK_TOKEN") && !text.contains("good"), "{text}");
    let directory = tempfile::tempdir().expect("a directory");
    let passphrase = directory.path().join("passphrase");
    std::fs::write(&passphrase, "open sesame\n").expect("a file");
    let keys = directory.path().join("keys");
    let [passphrase, keys] = [&passphrase, &keys].map(|path| path.to_str().expect("a path"));
    let sealed = ["--passphrase-file", passphrase, "--keys", keys];
    let made = cloakwork(&url, &[&sealed[..], &["keygen", "--set", "TOY_BOOLEAN"]].concat());
    assert_eq!(made.status.code(), Some(0));
    let gate = ["gate", "AND", "--left", "1", "--right", "0"];
    let run = cloakwork(&url, &[&sealed[..], &gate].concat());
    assert_eq!(run.status.code(), Some(6), "{}", String::from_utf8_lossy(&run.stderr));
    let without = cloakwork(&url, &[&sealed[2..], &gate].concat());
    assert_eq!(without.status.code(), Some(8));
    assert!(String::from_utf8_lossy(&without.stderr).contains("--passphrase-file"), "{without:?}");
    for output in [made, run] {
        let text = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&text).contains("sesame"));
    }
}

/// Errors about keys name their file, and the command that makes keys of the right scheme.
#[test]
fn errors_about_unusable_keys_name_the_file_and_the_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (bits, numbers, none, x) = (path("bits"), path("numbers"), path("none"), path("x"));
    let run = |arguments: &[&str]| cloakwork("http://none.invalid", arguments);
    let ckks = ["ckks", "keygen", "--set", "TOY_CKKS_45_60_50", "--level", "0", "--out", &numbers];
    assert!(run(&["keygen", "--set", "TOY_BOOLEAN", "--out", &bits]).status.success() && run(&ckks).status.success());
    let encrypt = ["ckks", "encrypt", "0.5", "--level", "0", "--out", &x];
    let gate = ["gate", "AND", "--left", "1", "--right", "0"];
    let made_by = [format!("`cloakwork ckks keygen --out {none}`"), format!("`cloakwork keygen --out {none}`")];
    for (keys, command, expected) in [
        (&none, &encrypt[..], &made_by[..1]),
        (&none, &gate, &made_by[1..]),
        (&none, &["keys", "push"], &made_by),
        (&bits, &encrypt, &[format!("{bits}/client.key: "), "`cloakwork ckks keygen`".into()]),
        (&numbers, &gate, &[format!("{numbers}/client.key: "), "`cloakwork keygen`".into()]),
    ] {
        let output = run(&[&["--keys", keys], command].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(8), "{command:?}: {message}");
        assert!(expected.iter().all(|part| message.contains(part)), "{command:?}: {message}");
    }
    let rotate = run(&["ckks", "keygen", "--set", "TOY_CKKS_45_60_50", "--rotate", "1,512", "--out", &none]);
    assert!(rotate.status.code() == Some(2) && !std::path::Path::new(&none).exists(), "{rotate:?}");
    let encrypt = [&["--keys", &numbers], &encrypt[..]].concat();
    assert!(run(&encrypt).status.success());
    let again = String::from_utf8_lossy(&run(&encrypt).stderr).into_owned();
    assert!(again.contains("it is there already, and is not overwritten"), "{again}");
}

/// Numbers that cannot be printed do not count as decrypted.
#[test]
fn results_that_cannot_be_printed_are_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (keys, x) = (path("keys"), path("x"));
    let run = |arguments: &[&str]| cloakwork("http://none.invalid", &[&["--keys", &keys], arguments].concat());
    assert!(run(&["ckks", "keygen", "--set", "TOY_CKKS_45_60_50", "--level", "0"]).status.success());
    assert!(run(&["ckks", "encrypt", "0.5", "--level", "0", "--out", &x]).status.success());
    for json in [&[][..], &["--json"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloakwork"));
        command.env_clear().args(["--keys", &keys, "ckks", "decrypt", &x, "--digits", "2"]).args(json);
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full disk");
        let output = command.stdout(full).output().expect("it runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && message.contains("nothing can be printed"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_token_is_a_mistake() {
    let url = format!("http://{}", serve().await);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloakwork"));
    command.env_clear().env("CLOAKWORK_SERVER", url).env("CLOAKWORK_TOKEN", "").arg("sets");
    let output = command.output().expect("it runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && message.contains("the token is empty"), "{message}");
}

#[test]
fn completions_name_every_command() {
    let script = cloakwork("http://none.invalid", &["completions", "bash"]);
    let script = String::from_utf8(script.stdout).expect("text");
    for command in ["keygen", "keys", "pbs", "gate", "jobs", "sets", "bench", "top", "demo"] {
        assert!(
            script.contains(&format!("cloakwork__{command}")) || script.contains(&format!("__subcmd__{command}")),
            "{command}"
        );
    }
}
