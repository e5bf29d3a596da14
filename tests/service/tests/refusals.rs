//! Requests that are incomplete, malformed, too large, for another tenant's objects, for unknown
//! objects, repeated or out of order get the documented code and reason. Refused requests leave
//! nothing behind.

use bytes::Bytes;
use cloakwork_client::{Input, JobRequest, Keys, ProgramBuilder, Progress, set_by_name};
use cloakwork_proto::v1::{
    self, BeginUploadRequest, Digest, FindMissingRequest, GetJobRequest, GetProgramRequest, JobInput, JobSpec,
    ListJobsRequest, RegisterKeyRequest, RegisterRequest, SubmitJobRequest, WriteRequest,
    blob_service_client::BlobServiceClient, job_input, job_service_client::JobServiceClient, job_spec,
    key_service_client::KeyServiceClient, program_service_client::ProgramServiceClient,
    worker_service_client::WorkerServiceClient,
};
use cloakwork_tests_service::{Server, Setup, TOY, Tenant, VALUES, binary, eventually};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

const REQUEST_ID: &str = "7b0c9a52-0a4f-4e3b-9f5e-3a8d5b1c2d4e";

pub(crate) async fn channel(server: &Server) -> Channel {
    Channel::from_shared(server.url()).expect("a URL").connect().await.expect("the server answers")
}

pub(crate) fn reason(status: &Status) -> (Code, String) {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    (status.code(), reason)
}

fn digest(bytes: &[u8]) -> Digest {
    let digest = cloakwork_client::Digest::of(bytes);
    Digest { blake3: Bytes::copy_from_slice(&digest.blake3), size_bytes: digest.size_bytes }
}

/// Uploads these bytes under this digest, and returns the server's answer.
async fn upload(channel: Channel, bytes: Vec<u8>, digest: Digest) -> Result<(), Status> {
    let mut blobs = BlobServiceClient::new(channel);
    let begin = BeginUploadRequest { request_id: fresh(), digest: Some(digest) };
    let upload = blobs.begin_upload(begin).await?.into_inner().upload.expect("an upload");
    let mut offset = 0;
    let mut messages = Vec::new();
    for chunk in bytes.chunks(10_000) {
        messages.push(WriteRequest {
            upload: upload.name.clone(),
            offset_bytes: offset,
            data: Bytes::copy_from_slice(chunk),
            finish: false,
        });
        offset += chunk.len() as u64;
    }
    if let Some(last) = messages.last_mut() {
        last.finish = true;
    }
    blobs.write(futures_util::stream::iter(messages)).await?;
    Ok(())
}

fn fresh() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("7b0c9a52-0a4f-4e3b-9f5e-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_uploads_store_nothing() {
    let server = Server::start(Setup::default()).await;
    let channel = channel(&server).await;
    let keys = Keys::generate(set_by_name(TOY).expect("a set"), Progress::none()).await.expect("keys");
    let list = keys.encrypt(&[1, 2, 3], 3).expect("values").envelope.to_vec();
    let directory = tempfile::tempdir().expect("a directory");
    let home = directory.path().join("keys");
    Keys::generate_in(home.clone(), set_by_name(TOY).expect("a set"), None, Progress::none()).await.expect("keys");
    let secret = std::fs::read(home.join(cloakwork_client::CLIENT_KEY_FILE)).expect("a client key");

    let mut flipped = list.clone();
    let middle = flipped.len() - 40;
    flipped[middle] ^= 1;
    let mut longer = list.clone();
    longer.extend_from_slice(b"more");
    let lying = Digest { size_bytes: 1 << 50, ..digest(&list) };
    for (what, bytes, digest, expected) in [
        ("a secret key", secret.clone(), digest(&secret), (Code::InvalidArgument, "SECRET_KEY_REJECTED")),
        (
            "a flipped bit, by its own digest",
            flipped.clone(),
            digest(&flipped),
            (Code::InvalidArgument, "ENVELOPE_INVALID"),
        ),
        ("a flipped bit, by the old digest", flipped, digest(&list), (Code::InvalidArgument, "DIGEST_MISMATCH")),
        ("bytes behind the end", longer.clone(), digest(&longer), (Code::InvalidArgument, "ENVELOPE_INVALID")),
        ("a text", b"hello".repeat(100), digest(&b"hello".repeat(100)), (Code::InvalidArgument, "ENVELOPE_INVALID")),
        ("a size beyond any object", list.clone(), lying, (Code::OutOfRange, "BLOB_TOO_LARGE")),
    ] {
        let status = upload(channel.clone(), bytes, digest.clone()).await.expect_err(what);
        assert_eq!(reason(&status), (expected.0, expected.1.to_owned()), "{what}: {status:?}");
        let missing = BlobServiceClient::new(channel.clone())
            .find_missing(FindMissingRequest { digests: vec![digest] })
            .await
            .expect("an answer");
        assert_eq!(missing.into_inner().missing.len(), 1, "{what} was kept");
    }
    // Neither the staging area nor the log contains any part of the secret key.
    let key_id = &secret[16..32];
    for file in files(server.directory()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let found = bytes.windows(64).any(|window| {
            secret[64..].windows(64).step_by(64).any(|part| part == window && part.iter().any(|byte| *byte != 0))
        });
        assert!(!found, "{} holds a part of the secret key {key_id:02x?}", file.display());
    }
}

fn files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_get_the_documented_reasons() {
    let server = Server::start(Setup::default()).await;
    let channel = channel(&server).await;
    let tenant = Tenant::new(server.client().await).await;
    let other = Keys::generate(tenant.keys.set(), Progress::none()).await.expect("other keys");
    let program = tenant.lookup(|x| x).bytes().clone();
    let list = |keys: &Keys, values: &[u64]| keys.encrypt(values, 15).expect("values").envelope;
    let good = list(&tenant.keys, &[1, 2]);
    let inline = |bytes: &Bytes| JobInput { source: Some(job_input::Source::Inline(bytes.clone())) };
    let named = |name: &str| JobInput { source: Some(job_input::Source::Name(name.into())) };
    let spec = |inputs: Vec<JobInput>| JobSpec {
        program: Some(job_spec::Program::ProgramInline(program.clone())),
        key: tenant.key.clone(),
        inputs,
        ..Default::default()
    };
    let request = |spec: JobSpec| SubmitJobRequest { request_id: fresh(), spec: Some(spec) };
    let foreign_key = tenant.key.replace("tenants/local", "tenants/somebody");
    let unknown_key = format!("tenants/local/keys/{}", "0".repeat(32));
    let unknown_list = format!("tenants/local/ciphertexts/{}", "0".repeat(64));
    let unknown_job = format!("tenants/local/jobs/{REQUEST_ID}/outputs/0");
    let mut truncated = good.to_vec();
    truncated.truncate(150);
    let mut wide = ProgramBuilder::new(tenant.keys.set());
    let x = wide.input("x");
    wide.output(x);
    let messages_only = wide.build().expect("a program").bytes().clone();

    let cases: Vec<(&str, SubmitJobRequest, Code, &str)> = vec![
        ("nothing", SubmitJobRequest::default(), Code::InvalidArgument, "REQUEST_ID_INVALID"),
        ("no spec", SubmitJobRequest { request_id: fresh(), spec: None }, Code::InvalidArgument, "FIELD_MISSING"),
        ("no program", request(JobSpec { program: None, ..spec(vec![]) }), Code::InvalidArgument, "FIELD_MISSING"),
        (
            "garbage for a program",
            request(JobSpec {
                program: Some(job_spec::Program::ProgramInline(Bytes::from_static(&[255; 40]))),
                ..spec(vec![])
            }),
            Code::InvalidArgument,
            "PROGRAM_INVALID",
        ),
        (
            "an unknown program",
            request(JobSpec {
                program: Some(job_spec::Program::ProgramName(format!("tenants/local/programs/{}", "0".repeat(64)))),
                ..spec(vec![])
            }),
            Code::NotFound,
            "PROGRAM_NOT_FOUND",
        ),
        (
            "a malformed name of a key",
            request(JobSpec { key: "keys/1".into(), ..spec(vec![]) }),
            Code::InvalidArgument,
            "NAME_INVALID",
        ),
        ("somebody else's key", request(JobSpec { key: foreign_key, ..spec(vec![]) }), Code::NotFound, "WRONG_TENANT"),
        ("an unknown key", request(JobSpec { key: unknown_key, ..spec(vec![]) }), Code::NotFound, "KEY_NOT_FOUND"),
        ("too few inputs", request(spec(vec![])), Code::InvalidArgument, "INPUT_INVALID"),
        ("an empty input", request(spec(vec![JobInput { source: None }])), Code::InvalidArgument, "FIELD_MISSING"),
        (
            "more inputs than any program has",
            request(spec(vec![JobInput { source: None }; 1025])),
            Code::ResourceExhausted,
            "REQUEST_TOO_LARGE",
        ),
        ("a truncated list", request(spec(vec![inline(&truncated.into())])), Code::InvalidArgument, "ENVELOPE_INVALID"),
        (
            "another key's list",
            request(spec(vec![inline(&list(&other, &[1]))])),
            Code::FailedPrecondition,
            "KEY_MISMATCH",
        ),
        (
            "an empty list",
            request(spec(vec![inline(&list(&tenant.keys, &[]))])),
            Code::InvalidArgument,
            "INPUT_INVALID",
        ),
        (
            "values above what the program declares",
            request(JobSpec {
                program: Some(job_spec::Program::ProgramInline(messages_only)),
                ..spec(vec![inline(&good)])
            }),
            Code::InvalidArgument,
            "INPUT_INVALID",
        ),
        ("an unknown list", request(spec(vec![named(&unknown_list)])), Code::NotFound, "CIPHERTEXT_NOT_FOUND"),
        ("an output of an unknown job", request(spec(vec![named(&unknown_job)])), Code::NotFound, "JOB_NOT_FOUND"),
        (
            "a priority out of range",
            request(JobSpec { priority: 11, ..spec(vec![inline(&good)]) }),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
    ];
    let mut jobs = JobServiceClient::new(channel.clone());
    for (what, message, code, expected) in cases {
        let status = jobs.submit_job(message).await.expect_err(what);
        assert_eq!(reason(&status), (code, expected.to_owned()), "{what}: {status:?}");
    }
    let listed = jobs.list_jobs(ListJobsRequest::default()).await.expect("an answer").into_inner().jobs;
    assert!(listed.is_empty(), "a refused request has left a job: {listed:?}");

    // A second request with a used request id is refused.
    let first = request(spec(vec![inline(&good)]));
    let second = SubmitJobRequest {
        request_id: first.request_id.clone(),
        spec: Some(JobSpec { priority: 1, ..spec(vec![inline(&good)]) }),
    };
    jobs.submit_job(first).await.expect("accepted");
    let status = jobs.submit_job(second).await.expect_err("another request");
    assert_eq!(reason(&status), (Code::AlreadyExists, "REQUEST_ID_REUSED".into()));

    for (page_size, page_token, expected) in
        [(-1, String::new(), "INVALID_ARGUMENT"), (0, "forged".to_owned(), "PAGE_TOKEN_INVALID")]
    {
        let status =
            jobs.list_jobs(ListJobsRequest { page_size, page_token, states: vec![] }).await.expect_err("wrong");
        assert_eq!(reason(&status).1, expected);
    }
    let status =
        jobs.get_job(GetJobRequest { name: format!("tenants/local/jobs/{REQUEST_ID}") }).await.expect_err("none");
    assert_eq!(reason(&status), (Code::NotFound, "JOB_NOT_FOUND".into()));

    let mut keys = KeyServiceClient::new(channel.clone());
    let part = digest(&good);
    let status = keys
        .register_key(RegisterKeyRequest { request_id: fresh(), parts: vec![part] })
        .await
        .expect_err("the blob was never uploaded");
    assert_eq!(reason(&status), (Code::NotFound, "BLOB_NOT_FOUND".into()));
    let status = keys
        .register_key(RegisterKeyRequest { request_id: fresh(), parts: vec![Digest::default(); 129] })
        .await
        .expect_err("more parts than a key may have");
    assert_eq!(reason(&status), (Code::ResourceExhausted, "QUOTA_EXCEEDED".into()));
    let status = BlobServiceClient::new(channel.clone())
        .find_missing(FindMissingRequest { digests: vec![Digest::default(); 1001] })
        .await
        .expect_err("more digests than one call may have");
    assert_eq!(reason(&status), (Code::ResourceExhausted, "REQUEST_TOO_LARGE".into()));
    let mut programs = ProgramServiceClient::new(channel.clone());
    let status =
        programs.register(RegisterRequest { program: Bytes::from_static(b"\xff") }).await.expect_err("no program");
    assert_eq!(reason(&status), (Code::InvalidArgument, "PROGRAM_INVALID".into()));
    let status = programs.get_program(GetProgramRequest { name: "x".into() }).await.expect_err("no name");
    assert_eq!(reason(&status), (Code::InvalidArgument, "NAME_INVALID".into()));

    // A caller without the worker right cannot call the worker service.
    let status = WorkerServiceClient::new(channel)
        .read_blob(v1::ReadBlobRequest::default())
        .await
        .expect_err("tenants are no workers");
    assert_eq!(reason(&status), (Code::PermissionDenied, "PERMISSION_DENIED".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_cannot_access_each_others_objects() {
    let server = Server::start(Setup::default()).await;
    let (mine, yours) = (server.token("mine", "jobs,keys,read"), server.token("yours", "jobs,keys,read"));
    let (mine, yours) = (server.client_with(&mine).await, server.client_with(&yours).await);
    let mine = Tenant::new(mine).await;
    let list = mine.keys.encrypt(&[1, 2], VALUES as u32 - 1).expect("values");
    let stored = mine.client.store(&list).await.expect("stored");
    let finished = mine.check_squares(&[1, 2, 3]).await;
    let output = finished.output(0).expect("an output").message.name;

    let reason = |result: Result<(), cloakwork_client::ClientError>| {
        result.expect_err("not yours").refusal().map(|refusal| refusal.reason.clone()).unwrap_or_default()
    };
    assert_eq!(reason(yours.job(&finished.job.name).await.map(drop)), "WRONG_TENANT");
    assert_eq!(reason(yours.cancel(&finished.job.name).await.map(drop)), "WRONG_TENANT");
    assert_eq!(reason(yours.describe(&stored).await.map(drop)), "WRONG_TENANT");
    // Deleting an absent object is no error, and deletes nothing of other tenants.
    let _ = yours.delete(&stored).await;
    assert_eq!(mine.client.describe(&stored).await.expect("still there").count, 2);
    assert_eq!(reason(yours.key(&mine.key).await.map(drop)), "WRONG_TENANT");
    // A tenant that uploads the same key does not learn which workers hold the other tenant's copy.
    let same = yours.push_key(&mine.keys, &Progress::none()).await.expect("any tenant may upload this key");
    eventually("the worker reports its resident key", || async {
        !mine.client.key(&mine.key).await.expect("a key").resident_workers.is_empty()
    })
    .await;
    assert!(yours.key(&same.name).await.expect("a key").resident_workers.is_empty());
    yours.delete_key(&same.name).await.expect("deleted");
    let job = JobRequest::new(mine.lookup(|x| x), &mine.key).input(Input::Name(output));
    assert_eq!(reason(yours.run(&job).await.map(drop)), "WRONG_TENANT");

    // The other tenant's name, moved under the tenant's own prefix, reveals nothing: the object
    // does not exist there.
    let renamed = |name: &str| name.replace("tenants/mine", "tenants/yours");
    assert_eq!(reason(yours.job(&renamed(&finished.job.name)).await.map(drop)), "JOB_NOT_FOUND");
    assert_eq!(reason(yours.describe(&renamed(&stored)).await.map(drop)), "CIPHERTEXT_NOT_FOUND");
    assert_eq!(reason(yours.key(&renamed(&mine.key)).await.map(drop)), "KEY_NOT_FOUND");
    let missing = yours.find_missing(&[list.digest()]).await.expect("an answer");
    assert_eq!(missing.len(), 1, "another tenant's blob counts as missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_worker_could_hold_is_refused() {
    let server = Server::start(Setup::default().with("limits.job_bytes", 1 << 20)).await;
    let tenant = Tenant::new(server.client().await).await;
    let ciphertext = tenant.keys.set().ciphertext_bytes();
    // Each row has one input and one output.
    let most = (1 << 20) / (2 * ciphertext);
    tenant.check_squares(&vec![1; most as usize]).await;
    let refused = tenant.client.run(&tenant.squares(&vec![1; most as usize + 1])).await.expect_err("too much");
    let refusal = refused.refusal().expect("the server's answer");
    assert_eq!(refusal.reason, "REQUEST_TOO_LARGE", "{refused}");
    assert!(refusal.message.contains("bytes of inputs and outputs"), "{refused}");
}

/// Results are stored even when a tenant's clients use up all uploads. If the tenant's storage has
/// no room for a result, the job ends with an error.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_need_no_upload_slot_and_fail_when_storage_is_full() {
    let setup = Setup::default().with("limits.tenant_uploads", 1).with("limits.uploads", 1);
    let setup = setup.with("limits.receiving", 1).with("limits.tenant_receiving", 1);
    let setup = setup.with("limits.inline_bytes", 64 << 10);
    let setup = setup.with("limits.blob_bytes", 3 << 20).with("limits.tenant_bytes", 3 << 20);
    let server = Server::start(setup).await;
    let tenant = Tenant::new(server.client().await).await;
    let mut blobs = BlobServiceClient::new(channel(&server).await);
    let digest = Some(v1::Digest { blake3: vec![7; 32].into(), size_bytes: 1000 });
    let begin = v1::BeginUploadRequest { request_id: fresh(), digest };
    blobs.begin_upload(begin).await.expect("the only place");
    // Each row takes about 2 KB. One result is within the tenant's quota, and a second exceeds it.
    let values = vec![3; 900];
    let finished = tenant.check_squares(&values).await;
    assert!(finished.output(0).expect("an output").message.inline.is_empty(), "too large to come inside the job");
    let other = vec![2; 900];
    let refused = tenant.client.run(&tenant.squares(&other)).await.expect_err("there is no room");
    assert!(refused.to_string().contains("QUOTA_EXCEEDED"), "{refused}");
    // Other jobs still succeed.
    tenant.check_squares(&[1, 2, 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_bytes_of_jobs_count_against_the_tenants_quota() {
    let setup = Setup::default().without_worker();
    let setup = setup.with("limits.inline_bytes", 512 << 10).with("limits.tenant_inline_bytes", 1 << 20);
    let server = Server::start(setup).await;
    let tenant = Tenant::new(server.client_with(&server.token("one", "jobs,keys,read")).await).await;
    let values = vec![1; 25_000];
    let bytes = tenant.keys.encrypt(&values, VALUES as u32 - 1).expect("values").envelope.len();
    assert!((350 << 10..512 << 10).contains(&bytes), "two fit, and three do not: {bytes}");
    let mut jobs = Vec::new();
    for _ in 0..2 {
        jobs.push(tenant.client.submit(&tenant.squares(&values)).await.expect("there is room"));
    }
    let refused = tenant.client.submit(&tenant.squares(&values)).await.expect_err("there is no more room");
    assert_eq!(refused.refusal().map(|refusal| &*refusal.reason), Some("QUOTA_EXCEEDED"), "{refused}");
    let other = Tenant::new(server.client_with(&server.token("two", "jobs,keys,read")).await).await;
    other.client.submit(&other.squares(&values)).await.expect("each tenant has its own room");
    tenant.client.cancel(&jobs[0].name).await.expect("cancelled");
    eventually("there is room again", || async { tenant.client.submit(&tenant.squares(&values)).await.is_ok() }).await;
}

/// A job of 1024 names takes about four times its bytes in memory until the dispatcher has the job.
#[tokio::test(flavor = "multi_thread")]
async fn inputs_count_in_memory_before_their_program_is_compiled() {
    let setup = Setup::default().without_worker();
    let setup = setup.with("limits.held_bytes", 1 << 20).with("limits.tenant_held_bytes", 1 << 20);
    let setup = setup.with("limits.message_bytes", 256 << 10).with("limits.inline_bytes", 128 << 10);
    let server = Server::start(setup.with("limits.chunk_bytes", 64 << 10)).await;
    let input = JobInput { source: Some(job_input::Source::Name("x".repeat(245))) };
    let submit = |count: usize| SubmitJobRequest {
        request_id: fresh(),
        spec: Some(JobSpec {
            program: Some(job_spec::Program::ProgramInline(Bytes::from_static(&[255; 40]))),
            inputs: vec![input.clone(); count],
            ..Default::default()
        }),
    };
    let mut jobs = JobServiceClient::new(channel(&server).await);
    let status = jobs.submit_job(submit(1024)).await.expect_err("too much memory");
    assert_eq!(reason(&status), (Code::ResourceExhausted, "OVERLOADED".into()), "{status}");
    assert!(status.message().contains("inputs of jobs that are being submitted"), "{status}");
    let status = jobs.submit_job(submit(512)).await.expect_err("no program");
    assert_eq!(reason(&status), (Code::InvalidArgument, "PROGRAM_INVALID".into()), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inline_program_counts_against_the_quota_once_registered() {
    let setup = Setup::default().without_worker().with("limits.tenant_programs", 1);
    let server = Server::start(setup).await;
    let tenant = Tenant::new(server.client_with(&server.token("one", "jobs,keys,read")).await).await;
    let programs = [tenant.lookup(|x| x), tenant.lookup(|x| x ^ 1)];
    for program in &programs {
        let list = tenant.keys.encrypt(&[1], VALUES as u32 - 1).expect("a value");
        let job = JobRequest::new(program.clone(), &tenant.key).encrypted(list);
        tenant.client.submit(&job).await.expect("a job may carry any program");
    }
    tenant.client.register_program(&programs[0]).await.expect("the first");
    tenant.client.register_program(&programs[0]).await.expect("a repeated registration changes nothing");
    let refused = tenant.client.register_program(&programs[1]).await.expect_err("the second");
    assert_eq!(refused.refusal().map(|refusal| &*refusal.reason), Some("QUOTA_EXCEEDED"), "{refused}");
}

/// A directory that holds no server data is most likely a mistake in the path, so commands create
/// nothing there.
#[test]
fn commands_on_a_missing_directory_create_nothing() {
    let parent = tempfile::tempdir().expect("a directory");
    let missing = parent.path().join("nothing");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(binary("tested-server"));
        command.args(arguments).arg("--data").arg(&missing).output().expect("the command runs")
    };
    let [list, tokens] = [["tenant", "list"], ["token", "list"]].map(|arguments| arguments.to_vec());
    let [revoke, create] = [["tenant", "revoke", "one"], ["token", "create", "--tenant=one"]].map(|it| it.to_vec());
    for arguments in [list, tokens, revoke, create] {
        let output = run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("--data names the server's"), "{arguments:?}: {said}");
        assert!(!missing.exists(), "{arguments:?}");
    }
    let output = run(&["tenant", "create", "one"]);
    assert!(output.status.success() && missing.exists(), "a tenant may come before the server's first start");
    assert!(String::from_utf8_lossy(&output.stderr).contains("A new data directory"));
    assert!(run(&["tenant", "list"]).status.success());
}
