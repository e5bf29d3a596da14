//! Results that are not what was asked for, or that no worker of the installation has signed.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::sync::LazyLock;

use cloakwork_attestation::{Certificate, Claim, InstallationKey, Statement, Subject, WorkerKey, digest_of_list};
use cloakwork_client::{
    Anchor, Asked, BlocksShape, Client, ClientError, Digest, Encrypted, EvaluationKey, Input, JobRequest, Part,
    ProgramBuilder, Shape, Source, Trust,
    params::{AnySet, KeyId, ObjectKind},
    proto::{self, Job, JobOutput, JobState},
    set_by_name,
};
use cloakwork_clock::Clock;
use common::{
    POLICY,
    jobs::{Jobs, job},
    pipe,
};
use proto::{
    capability_service_server::{CapabilityService, CapabilityServiceServer},
    job_service_server::JobServiceServer,
};
use tonic::{Request, Response, Status, transport::Server};

const HOUR: i64 = 3600 * 1_000_000;
const JOB: [u8; 16] = [0x0a; 16];
const NAME: &str = "tenants/t/jobs/0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a";
const OUTPUT: &[u8] = b"an output";
const PARTS: [&[u8]; 2] = [b"a part", b"another part"];

fn installation() -> InstallationKey {
    InstallationKey::from_seed(&[1; 32])
}

fn worker() -> WorkerKey {
    WorkerKey::from_seed(&[2; 32])
}

fn anchor(installation: &InstallationKey) -> Anchor {
    Anchor::new([installation.public()]).unwrap()
}

/// A client that knows its evaluation key.
async fn client(jobs: &Jobs, trust: Trust) -> Client {
    let client = without_key(jobs, trust);
    client.use_key(&Own).await.expect("digests of bytes");
    client
}

fn without_key(jobs: &Jobs, trust: Trust) -> Client {
    let router = Server::builder()
        .add_service(JobServiceServer::new(jobs.clone()))
        .add_service(CapabilityServiceServer::new(Named));
    pipe::trusting(router, vec![], POLICY, trust)
}

/// A server that names the tenant.
struct Named;

#[tonic::async_trait]
impl CapabilityService for Named {
    async fn get_capabilities(
        &self,
        _: Request<proto::GetCapabilitiesRequest>,
    ) -> Result<Response<proto::GetCapabilitiesResponse>, Status> {
        Ok(Response::new(proto::GetCapabilitiesResponse { tenant: "t".into(), ..Default::default() }))
    }
}

/// The client's own key.
struct Own;

impl EvaluationKey for Own {
    fn key_id(&self) -> KeyId {
        KeyId([7; 16])
    }

    fn parts(&self) -> &[Part] {
        static KEY: LazyLock<Vec<Part>> = LazyLock::new(|| {
            let set = AnySet::by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy");
            let part = |bytes: &'static [u8]| Part {
                kind: ObjectKind::SeededBootstrapKey,
                set,
                shape: None,
                source: Source::Bytes(bytes::Bytes::from_static(bytes)),
            };
            PARTS.map(part).into()
        });
        &KEY
    }
}

/// A request for two rows on an encrypted input.
fn request() -> JobRequest {
    let set = set_by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy");
    let mut program = ProgramBuilder::new(set);
    let x = program.input("x");
    program.output(x);
    let shape = Shape::Blocks(BlocksShape { set, degrees: [3].into(), rows: Some(2) });
    let list = Encrypted { envelope: bytes::Bytes::from_static(b"an input"), shape };
    JobRequest::new(program.build().expect("a program"), &format!("tenants/t/keys/{}", "07".repeat(16))).encrypted(list)
}

/// The statement of an honest worker about the request's job.
async fn honest(client: &Client, request: &JobRequest) -> Statement {
    let Asked { request: id, program, key, set, rows, inputs, .. } = client.asked(request).await.expect("known inputs");
    let subject = Subject {
        job: JOB,
        request: id,
        program,
        key,
        evaluation_key: digest_of_list(&PARTS.map(|part| Digest::of(part).blake3)),
        set,
        rows: rows.expect("stated by the input"),
        inputs,
        outputs: digest_of_list([&Digest::of(OUTPUT).blake3]),
    };
    Statement { worker: [3; 16], subject, signed_at_micros: Clock::system().unix_micros() }
}

fn claim() -> Claim {
    let now = Clock::system().unix_micros();
    Claim {
        installation: installation().public(),
        key: worker().public(),
        worker: [3; 16],
        not_before_micros: now - 20 * HOUR,
        not_after_micros: now + HOUR,
    }
}

fn attestation(signed: Vec<u8>) -> Option<proto::Attestation> {
    let key_parts = PARTS.map(|part| bytes::Bytes::copy_from_slice(&Digest::of(part).blake3));
    Some(proto::Attestation { signed: signed.into(), key_parts: key_parts.into() })
}

fn succeeded(attestation: Option<proto::Attestation>) -> Job {
    let Digest { blake3, size_bytes } = Digest::of(OUTPUT);
    let digest = Some(proto::Digest { blake3: bytes::Bytes::copy_from_slice(&blake3), size_bytes });
    let output = JobOutput { name: format!("{NAME}/outputs/0"), digest, inline: OUTPUT.into() };
    Job { name: NAME.into(), outputs: vec![output], attestation, ..job(JobState::Succeeded) }
}

/// Runs a request whose job ends as `change` leaves it, and returns the reason of the error.
async fn refusal(change: impl FnOnce(&mut Statement, &mut Claim, &mut Job)) -> Option<String> {
    let jobs = Jobs::default();
    let (client, request) = (client(&jobs, Trust::Anchor(anchor(&installation()))).await, request());
    let (mut statement, mut claim, mut job) =
        (honest(&client, &request).await, claim(), succeeded(attestation(Vec::new())));
    change(&mut statement, &mut claim, &mut job);
    let signed = statement.sign(&worker(), &Certificate::sign(&installation(), claim));
    job.attestation.as_mut().unwrap().signed = signed.into();
    jobs.script().runs.push_back(Ok(job));
    let error = client.run(&request).await.err()?;
    assert!(!error.is_retryable() && error.to_string().contains("not decrypted"), "{error}");
    Some(error.reason().expect("a stable code").to_owned())
}

#[tokio::test]
async fn the_result_that_was_asked_for_is_taken() {
    assert_eq!(refusal(|_, _, _| ()).await, None);
}

/// Some programs on vectors need no key, such as sums.
#[tokio::test]
async fn a_result_that_was_computed_without_a_key_is_taken() {
    let without_key = |statement: &mut Statement, job: &mut Job| {
        statement.subject.evaluation_key = digest_of_list([]);
        job.attestation.as_mut().unwrap().key_parts.clear();
    };
    assert_eq!(refusal(|statement, _, job| without_key(statement, job)).await, None);
}

#[tokio::test]
async fn a_lie_in_each_field_is_refused_by_its_reason() {
    type Lie = fn(&mut Statement, &mut Claim, &mut Job);
    let lies: [(&str, Lie, &str); 16] = [
        ("an older request", |it, _, _| it.subject.request[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("another job", |it, _, _| it.subject.job[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("another program", |it, _, _| it.subject.program[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("another key", |it, _, _| it.subject.key[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("another evaluation key", |it, _, _| it.subject.evaluation_key[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("a part that others made", |it, _, job| exchange_key(it, job), "ATTESTATION_MISMATCH"),
        ("another set", |it, _, _| it.subject.set ^= 1, "ATTESTATION_MISMATCH"),
        ("fewer rows", |it, _, _| it.subject.rows -= 1, "ATTESTATION_MISMATCH"),
        ("other inputs", |it, _, _| it.subject.inputs[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("other outputs", |it, _, _| it.subject.outputs[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("another worker's certificate", |_, claim, _| claim.worker[0] ^= 1, "ATTESTATION_MISMATCH"),
        ("the server swaps an output", |_, _, job| swap(job), "ATTESTATION_MISMATCH"),
        ("the server renames the job", |_, _, job| job.name = NAME.replace("0a0a", "0b0b"), "ATTESTATION_MISMATCH"),
        (
            "the certificate has expired",
            |it, claim, _| claim.not_after_micros = it.signed_at_micros - 1,
            "ATTESTATION_EXPIRED",
        ),
        ("signed before the request", |it, _, _| it.signed_at_micros -= HOUR, "ATTESTATION_EXPIRED"),
        ("signed in the future", |it, _, _| it.signed_at_micros += HOUR / 2, "ATTESTATION_EXPIRED"),
    ];
    for (name, lie, reason) in lies {
        assert_eq!(refusal(lie).await.as_deref(), Some(reason), "{name}");
    }
}

/// A tenant with a key of its own, under the same public id, has the same job computed.
fn exchange_key(statement: &mut Statement, job: &mut Job) {
    let parts = [PARTS[0], b"a part of another tenant"].map(|part| Digest::of(part).blake3);
    statement.subject.evaluation_key = digest_of_list(&parts);
    job.attestation.as_mut().unwrap().key_parts = parts.map(|part| bytes::Bytes::copy_from_slice(&part)).into();
}

fn swap(job: &mut Job) {
    let other = Digest::of(b"other bytes");
    job.outputs[0].digest =
        Some(proto::Digest { blake3: bytes::Bytes::copy_from_slice(&other.blake3), size_bytes: other.size_bytes });
    job.outputs[0].inline = b"other bytes".as_slice().into();
}

#[tokio::test]
async fn a_result_without_a_signature_or_of_another_installation_is_refused() {
    let (jobs, request) = (Jobs::default(), request());
    let trusting = client(&jobs, Trust::Anchor(anchor(&installation()))).await;
    let good = honest(&trusting, &request).await.sign(&worker(), &Certificate::sign(&installation(), claim()));
    let mut flipped = good.clone();
    flipped[200] ^= 1;
    for (signed, reason) in [
        (None, "ATTESTATION_MISSING"),
        (Some(Vec::new()), "ATTESTATION_INVALID"),
        (Some(vec![0; 10_000]), "ATTESTATION_INVALID"),
        (Some(flipped), "ATTESTATION_INVALID"),
    ] {
        jobs.script().runs.push_back(Ok(succeeded(signed.and_then(attestation))));
        let error = trusting.run(&request).await.unwrap_err();
        assert_eq!(error.reason(), Some(reason), "{error}");
    }
    let other = client(&jobs, Trust::Anchor(anchor(&InstallationKey::from_seed(&[9; 32])))).await;
    jobs.script().runs.push_back(Ok(succeeded(attestation(good.clone()))));
    let error = other.run(&request).await.unwrap_err();
    assert_eq!(error.reason(), Some("ATTESTATION_OTHER_INSTALLATION"), "{error}");
    // After a rotation, an anchor with both keys takes old and new results.
    let both = Anchor::new([InstallationKey::from_seed(&[9; 32]).public(), installation().public()]).unwrap();
    jobs.script().runs.push_back(Ok(succeeded(attestation(good))));
    client(&jobs, Trust::Anchor(both)).await.run(&request).await.expect("an old result");
}

#[tokio::test]
async fn a_client_that_could_not_verify_submits_nothing() {
    let jobs = Jobs::default();
    let client = client(&jobs, Trust::FirstUse).await;
    for error in [client.run(&request()).await.unwrap_err(), client.submit(&request()).await.unwrap_err()] {
        assert!(matches!(error, ClientError::NoAnchor { .. }), "{error}");
        assert_eq!(error.reason(), Some("ANCHOR_MISSING"));
    }
    // A client that knows no evaluation key could not tell with which one a result was computed.
    let keyless = without_key(&jobs, Trust::Anchor(anchor(&installation())));
    let error = keyless.run(&request()).await.unwrap_err();
    assert_eq!(error.reason(), Some("EVALUATION_KEY_UNKNOWN"));
    assert!(jobs.script().request_ids.is_empty(), "no call was made");
}

#[tokio::test]
async fn another_job_of_the_same_client_is_not_taken_for_the_one_that_was_named() {
    let jobs = Jobs::default();
    let client = client(&jobs, Trust::Anchor(anchor(&installation()))).await;
    let statement = honest(&client, &request()).await;
    let good = succeeded(attestation(statement.sign(&worker(), &Certificate::sign(&installation(), claim()))));
    jobs.script().answer = Some(good.clone());
    assert!(client.list_digest(&format!("{NAME}/outputs/0"), None).await.is_ok());
    // The server answers with an older job, and all of its statement is true.
    let other = "tenants/t/jobs/0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b";
    assert!(matches!(
        client.list_digest(&format!("{other}/outputs/0"), None).await,
        Err(ClientError::Malformed { .. })
    ));
    assert!(matches!(client.job(other).await, Err(ClientError::Malformed { .. })));
    jobs.script().watches.push_back(vec![Ok(good)]);
    assert!(matches!(client.wait(other).await, Err(ClientError::Malformed { .. })));
}

#[tokio::test]
async fn a_statement_about_a_check_is_no_result() {
    let jobs = Jobs::default();
    let client = client(&jobs, Trust::Anchor(anchor(&installation()))).await;
    let mut statement = honest(&client, &request()).await;
    statement.subject.request = Subject::NO_REQUEST;
    let signed = statement.sign(&worker(), &Certificate::sign(&installation(), claim()));
    jobs.script().answer = Some(succeeded(attestation(signed)));
    let error = client.list_digest(&format!("{NAME}/outputs/0"), None).await.unwrap_err();
    assert_eq!(error.reason(), Some("ATTESTATION_MISMATCH"), "{error}");
}

#[tokio::test]
async fn an_output_that_is_named_as_an_input_must_be_signed() {
    let jobs = Jobs::default();
    let client = client(&jobs, Trust::Anchor(anchor(&installation()))).await;
    let statement = honest(&client, &request()).await;
    let good = statement.sign(&worker(), &Certificate::sign(&installation(), claim()));
    jobs.script().jobs.push(succeeded(attestation(good)));
    let name = format!("{NAME}/outputs/0");
    assert_eq!(client.list_digest(&name, None).await, Ok(Digest::of(OUTPUT)));
    let asked = client.asked(&request()).await.unwrap();
    let error = client.list_digest(&name, Some(&asked)).await.unwrap_err();
    assert_eq!(error.reason(), Some("ATTESTATION_MISMATCH"), "another request: {error}");
    assert!(client.list_digest(&format!("{NAME}/outputs/1"), None).await.is_err());
    swap(&mut jobs.script().jobs[0]);
    let error = client.list_digest(&name, None).await.unwrap_err();
    assert_eq!(error.reason(), Some("ATTESTATION_MISMATCH"), "{error}");
    let request = request().input(Input::Name(name));
    assert!(client.asked(&request).await.is_err());
}
