use cloakwork_keystore::TenantId;
use cloakwork_proto::v1::{JobInput, JobState, LatencyRecord, job_input::Source};
use cloakwork_scheduler::JobId;
use cloakwork_storage::Survival;
use prost::Message as _;

use super::*;
use crate::{
    auth::{Principal, Scopes},
    error::QUOTA_EXCEEDED,
    jobs::End,
    resource::{JobName, OutputName},
    store::{Ended, Write, tests::new_job},
    tenant::Tenant,
    tenant_limits::TenantLimits,
    test_backend::TestBackend,
    test_objects::{KEY, key_parts, list, set},
};

const TENANT: &str = "tenant";
/// Ciphertexts in a row of an input of [`sum`].
const BLOCKS: u32 = 2;

/// Admission for a tenant with one key.
struct Fixture {
    admission: Admission,
    _directory: tempfile::TempDir,
}

impl Fixture {
    async fn new(limits: Limits) -> Self {
        let TestBackend { directory, time, limits, store, keystore, dispatcher, .. } = TestBackend::start(limits).await;
        let parts = key_parts();
        for part in &parts {
            keystore.put(&tenant(), part.clone(), None).await.unwrap();
        }
        let digests: Vec<Digest> = parts.iter().map(|part| Digest::of(part)).collect();
        keystore.register_key(&tenant(), &[1; 16], &digests).await.unwrap();
        let admission = Admission {
            quota: Quota::new(store.clone(), TenantLimits::default(), limits.tenant_inline_bytes),
            day_quota: DayQuota::new(
                store.clone(),
                time.clock(),
                TenantLimits::default(),
                limits.tenant_day_bootstraps,
            ),
            store,
            dispatcher,
            keystore,
            compiler: Compiler::new(&limits),
            keys: KeyUses::default(),
            memory: InputMemory::new(&limits),
            clock: time.clock(),
            limits,
            allow_weak_sets: true,
        };
        Self { admission, _directory: directory }
    }

    async fn admit(&self, spec: v1::JobSpec) -> Result<Admitted, ApiError> {
        let principal = Principal::without_token(Tenant::new(TENANT).unwrap(), Scopes::ALL);
        let caller = Caller { principal, tenant: tenant(), trace: None };
        let request = Request { id: [1; 16], digest: [2; 32] };
        let mut memory = self.admission.memory.of(&tenant());
        self.admission.admit(&caller, request, spec, Instant::now(), &mut memory).await
    }

    async fn refusal(&self, spec: v1::JobSpec) -> ApiError {
        self.admit(spec).await.expect_err("a refusal")
    }

    /// Stores a job that has ended with these outputs, and returns their names.
    async fn ended(&self, number: u8, outputs: &[&Bytes]) -> Vec<JobInput> {
        let job = new_job(TENANT, number);
        let id = JobId(number.into());
        let end = End {
            state: JobState::Succeeded,
            ended_micros: 0,
            outputs_expire_micros: Some(i64::MAX),
            error: None,
            outputs: outputs.iter().map(|output| Content::inline((*output).clone())).collect(),
            latency: LatencyRecord::default(),
            attestation: None,
        };
        let writes = [Write::Submitted(job), Write::Ended(Ended { job: id, end: Arc::new(end) })];
        self.admission.store.apply(Survival::Crash, &writes).await.unwrap();
        let job = JobName { tenant: Tenant::new(TENANT).unwrap(), job: uuid::Uuid::from_u128(number.into()) };
        let name = |index| OutputName { job: job.clone(), index }.to_string();
        (0..).take(outputs.len()).map(|index| JobInput { source: Some(Source::Name(name(index))) }).collect()
    }
}

fn tenant() -> TenantId {
    TenantId::new(TENANT).unwrap()
}

/// A program that adds two numbers of [`BLOCKS`] blocks.
fn sum() -> Bytes {
    let input = |name: &str| v1::program::Input {
        name: name.to_owned(),
        r#type: v1::Type::Uint.into(),
        bits: 2 * BLOCKS,
        ..Default::default()
    };
    let add = v1::Operation { kind: v1::operation::Kind::Add.into(), arguments: vec![0, 1], ..Default::default() };
    let program = v1::Program {
        parameter_set: set().name.to_owned(),
        inputs: vec![input("x"), input("y")],
        operations: vec![add],
        outputs: vec![2],
        ..Default::default()
    };
    program.encode_to_vec().into()
}

fn inline(list: &Bytes) -> JobInput {
    JobInput { source: Some(Source::Inline(list.clone())) }
}

/// A job that adds these inputs.
fn spec(inputs: impl Into<Vec<JobInput>>) -> v1::JobSpec {
    v1::JobSpec {
        program: Some(job_spec::Program::ProgramInline(sum())),
        key: KeyName { tenant: Tenant::new(TENANT).unwrap(), key_id: KEY.0 }.to_string(),
        inputs: inputs.into(),
        ..Default::default()
    }
}

/// A job of this many rows, with its inputs in the request.
fn spec_of_rows(rows: u32) -> v1::JobSpec {
    spec([1, 2].map(|salt| inline(&list(rows * BLOCKS, salt))))
}

#[tokio::test]
async fn a_job_has_the_properties_that_its_request_asks_for() {
    let fixture = Fixture::new(Limits::default()).await;
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let lists = [list(3 * BLOCKS, 1), list(3 * BLOCKS, 2)];
    let asked = v1::JobSpec {
        priority: -3,
        inline_outputs: true,
        keep_outputs: seconds(50),
        time_limit: seconds(70),
        ..spec(lists.each_ref().map(inline))
    };
    let job = fixture.admit(asked).await.unwrap();
    let program = fixture.admission.compiler.receive(TENANT, &sum()).await.unwrap();
    let Family::Blocks(blocks) = &program.family else { panic!("a program on blocks") };
    let pbs_count = 3 * blocks.cost(3).pbs_count;
    assert!(pbs_count > 0);
    let meta = &job.meta;
    assert_eq!((meta.request_id, meta.request_digest), ([1; 16], [2; 32]));
    assert_eq!((meta.program, meta.key_id, meta.set), (program.id, KEY, AnySet::Tfhe(set())));
    assert_eq!((meta.rows, meta.pbs_count), (3, pbs_count));
    assert_eq!(meta.cost, cost_of_blocks(set(), pbs_count, 3));
    assert_eq!((meta.priority, meta.inline_outputs, meta.keep_outputs_micros), (-3, true, 50_000_000));
    assert_eq!(meta.created_micros, fixture.admission.clock.unix_micros());
    assert_eq!(meta.deadline_micros - meta.created_micros, 70_000_000);
    assert_eq!(job.program, sum());
    assert_eq!(job.key_parts.len(), 2);
    let inputs: Vec<_> = job.inputs.iter().map(|input| input.bytes.clone()).collect();
    assert_eq!(inputs, lists.map(Some));
}

#[tokio::test]
async fn rows_bootstraps_and_bytes_of_a_job_have_limits() {
    let fixture = Fixture::new(Limits::default()).await;
    let pbs_count = fixture.admit(spec_of_rows(3)).await.unwrap().meta.pbs_count;
    // Two inputs and a result.
    let bytes = 3 * u64::from(3 * BLOCKS) * set().ciphertext_bytes();
    for (exact, over) in [
        (Limits { job_rows: 3, ..Limits::default() }, Limits { job_rows: 2, ..Limits::default() }),
        (
            Limits { job_bootstraps: pbs_count, ..Limits::default() },
            Limits { job_bootstraps: pbs_count - 1, ..Limits::default() },
        ),
        (Limits { job_bytes: bytes, ..Limits::default() }, Limits { job_bytes: bytes - 1, ..Limits::default() }),
    ] {
        Fixture::new(exact).await.admit(spec_of_rows(3)).await.unwrap();
        assert_eq!(Fixture::new(over).await.refusal(spec_of_rows(3)).await.reason(), REQUEST_TOO_LARGE);
    }
}

#[tokio::test]
async fn inputs_and_program_in_the_request_take_room_of_the_tenant() {
    let bytes = (sum().len() + 2 * list(BLOCKS, 1).len()) as u64;
    let limits = |tenant_inline_bytes| Limits { tenant_inline_bytes, ..Limits::default() };
    Fixture::new(limits(bytes)).await.admit(spec_of_rows(1)).await.unwrap();
    assert_eq!(Fixture::new(limits(bytes - 1)).await.refusal(spec_of_rows(1)).await.reason(), QUOTA_EXCEEDED);
}

#[tokio::test]
async fn inputs_must_fit_the_program_and_each_other() {
    let fixture = Fixture::new(Limits::default()).await;
    for (inputs, part_of_message) in [
        (vec![inline(&list(BLOCKS, 1))], "1 inputs: the program takes 2"),
        ([BLOCKS, 2 * BLOCKS].map(|count| inline(&list(count, 1))).into(), "has 2 rows, input 0 has 1"),
        ([BLOCKS, BLOCKS + 1].map(|count| inline(&list(count, 1))).into(), "has 3 ciphertexts: expected 2"),
        (key_parts().each_ref().map(inline).into(), "expected an LWE ciphertext list"),
    ] {
        let refusal = fixture.refusal(spec(inputs)).await;
        assert_eq!(refusal.reason(), INPUT_INVALID);
        assert!(refusal.message().contains(part_of_message), "{refusal}");
    }
}

#[tokio::test]
async fn inputs_in_the_request_have_a_limit_of_bytes() {
    let bytes = 2 * list(BLOCKS, 1).len() as u64;
    let limits = |inline_bytes| Limits { inline_bytes, ..Limits::default() };
    Fixture::new(limits(bytes)).await.admit(spec_of_rows(1)).await.unwrap();
    assert_eq!(Fixture::new(limits(bytes - 1)).await.refusal(spec_of_rows(1)).await.reason(), REQUEST_TOO_LARGE);
}

/// Outputs of other jobs stay in the database if they fit into the assignment, and become blobs
/// otherwise.
#[tokio::test]
async fn outputs_of_other_jobs_become_blobs_if_they_do_not_fit_into_the_assignment() {
    let lists = [list(BLOCKS, 1), list(BLOCKS, 2)];
    let bytes = lists.each_ref().map(Bytes::len).iter().sum::<usize>() as u64;
    for (inline_bytes, second_is_inline) in [(bytes, true), (bytes - 1, false)] {
        let fixture = Fixture::new(Limits { inline_bytes, ..Limits::default() }).await;
        let inputs = fixture.ended(9, &lists.each_ref()).await;
        let job = fixture.admit(spec(inputs)).await.unwrap();
        let [first, second] = &job.inputs[..] else { panic!("two inputs") };
        assert_eq!(first.bytes.as_ref(), Some(&lists[0]));
        assert_eq!(second.bytes.as_ref(), second_is_inline.then_some(&lists[1]));
        assert_eq!(second.digest, *blake3::hash(&lists[1]).as_bytes());
        let stored = fixture.admission.keystore.blob(&tenant(), &second.blob()).await;
        assert_eq!(stored.is_ok(), !second_is_inline);
    }
}

#[test]
fn priorities_go_from_minus_ten_to_ten() {
    for given in -10..=10 {
        assert_eq!(priority(given).map(i32::from).ok(), Some(given));
    }
    for given in [-11, 11, i32::MIN, i32::MAX, 256] {
        assert_eq!(priority(given).expect_err("out of range").reason(), INVALID_ARGUMENT);
    }
}

#[test]
fn a_duration_has_a_default_and_a_maximum() {
    let span = |seconds, nanos| span("time_limit", Some(prost_types::Duration { seconds, nanos }), 60, 3600);
    assert_eq!(super::span("time_limit", None, 60, 3600).ok(), Some(60_000_000));
    assert_eq!(span(1, 2_000).ok(), Some(1_000_002));
    assert_eq!(span(0, 0).ok(), Some(0));
    assert_eq!(span(i64::MAX, 0).ok(), Some(3_600_000_000));
    assert_eq!(span(-1, 0).expect_err("negative").reason(), INVALID_ARGUMENT);
    assert_eq!(super::span("time_limit", None, u64::MAX, u64::MAX).ok(), Some(i64::MAX));
}
