use std::{
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use cloakwork_circuit::wire::{
    self,
    operation::{Bootstrap, Kind, bootstrap::Size},
};
use cloakwork_storage::{Asker, Rows};
use prost::Message as _;

use super::*;
use crate::{database::SCHEMAS, error::OVERLOADED};

const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

/// A timeout far beyond the duration of each test.
const DEADLINE: Duration = Duration::from_secs(60);

fn program(name: &str, kind: Kind, operations: u32, bits: u32) -> Bytes {
    let input = |name: &str| wire::program::Input {
        name: name.to_owned(),
        r#type: wire::Type::Uint.into(),
        bits,
        ..Default::default()
    };
    let operation = |index| wire::Operation { kind: kind.into(), arguments: vec![0, 1 + index], ..Default::default() };
    let message = wire::Program {
        parameter_set: SET.to_owned(),
        inputs: vec![input("key"), input(name)],
        operations: (0..operations).map(operation).collect(),
        outputs: vec![1 + operations],
        ..Default::default()
    };
    message.encode_to_vec().into()
}

/// A program with the maximum number of AES blocks.
fn largest(name: &str) -> Bytes {
    program(name, Kind::Aes128Encrypt, 14, 128)
}

fn expensive(name: &str) -> Bytes {
    program(name, Kind::Aes128Encrypt, 1, 128)
}

fn cheap(name: &str) -> Bytes {
    program(name, Kind::Add, 1, 8)
}

/// A compiler that signals when it starts to price an expensive program, and waits for the test to
/// let it finish.
struct Held {
    compiler: Compiler,
    priced: Arc<AtomicUsize>,
    began: tokio::sync::mpsc::UnboundedReceiver<()>,
    go_on: mpsc::Sender<()>,
}

fn held(limits: Limits) -> Held {
    let (began_sender, began) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, wait) = mpsc::channel();
    let (priced, wait) = (Arc::<AtomicUsize>::default(), Mutex::new(wait));
    let counted = priced.clone();
    let price = move |program: &Program| {
        counted.fetch_add(1, SeqCst);
        if program.bootstraps_max() > CHEAP_BOOTSTRAPS {
            let _ = began_sender.send(());
            wait.lock().unwrap().recv().expect("the test goes on");
        }
        let costs = Default::default();
        Blocks {
            set: program.set(),
            operation: program.operation(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            work: costs,
            depth: costs,
        }
    };
    let compiler = Compiler::with(&limits, Steps { decode: AnyProgram::decode, price: Box::new(price) });
    Held { compiler, priced, began, go_on }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it does not wait for an expensive program")
}

fn spawned(compiler: &Compiler, tenant: &'static str, bytes: Bytes) -> tokio::task::JoinHandle<Outcome> {
    let compiler = compiler.clone();
    tokio::spawn(async move { compiler.receive(tenant, &bytes).await })
}

#[tokio::test]
async fn small_programs_of_others_do_not_wait_for_expensive_ones() {
    let mut held = held(Limits::default());
    let waiting: Vec<_> = ["x0", "x1", "x2"].map(|name| spawned(&held.compiler, "a", largest(name))).into();
    soon(held.began.recv()).await.expect("an expensive program is being compiled");
    for name in ["y0", "y1", "y2"] {
        soon(held.compiler.receive("b", &cheap(name))).await.unwrap();
        soon(held.compiler.receive("a", &cheap(name))).await.unwrap();
    }
    assert!(held.began.try_recv().is_err(), "a tenant has one expensive program compiled at a time");
    for waiting in waiting {
        held.go_on.send(()).unwrap();
        soon(waiting).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_compile_limit_refuses_tenants_but_not_acknowledged_jobs() {
    let mut held = held(Limits { tenant_compile_bootstraps: 10_000, ..Limits::default() });
    let first = spawned(&held.compiler, "a", expensive("x"));
    soon(held.began.recv()).await.unwrap();
    let refused = soon(held.compiler.receive("a", &expensive("y"))).await.unwrap_err();
    assert_eq!(refused.reason(), OVERLOADED);
    assert!(refused.retry_delay().is_some());
    let of_job = tokio::spawn({
        let compiler = held.compiler.clone();
        async move { compiler.of_job("a", &expensive("z")).await }
    });
    held.go_on.send(()).unwrap();
    soon(first).await.unwrap().unwrap();
    held.go_on.send(()).unwrap();
    soon(of_job).await.unwrap().unwrap();
    held.go_on.send(()).unwrap();
    soon(held.compiler.receive("a", &expensive("y"))).await.expect("a refusal is not remembered");
}

#[tokio::test]
async fn the_same_bytes_are_compiled_once() {
    let mut held = held(Limits::default());
    let calls: Vec<_> = (0..8).map(|_| spawned(&held.compiler, "a", expensive("x"))).collect();
    soon(held.began.recv()).await.unwrap();
    held.go_on.send(()).unwrap();
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    soon(held.compiler.receive("b", &expensive("x"))).await.unwrap();
    assert_eq!(held.priced.load(SeqCst), 1);
    assert!(held.compiler.0.flights().is_empty());
}

#[tokio::test]
async fn a_program_of_a_gone_caller_is_remembered_if_its_compile_had_begun() {
    let mut held = held(Limits::default());
    let begun = spawned(&held.compiler, "a", expensive("begun"));
    soon(held.began.recv()).await.unwrap();
    let waiting = spawned(&held.compiler, "a", expensive("waiting"));
    while held.compiler.0.flights().len() < 2 {
        tokio::task::yield_now().await;
    }
    begun.abort();
    waiting.abort();
    assert!(begun.await.unwrap_err().is_cancelled() && waiting.await.unwrap_err().is_cancelled());
    assert!(held.compiler.0.flights().is_empty());
    held.go_on.send(()).unwrap();
    soon(held.compiler.receive("a", &expensive("begun"))).await.unwrap();
    assert_eq!(held.priced.load(SeqCst), 1);
}

/// If the work kept the request, requests of callers that have gone would take memory without a
/// limit.
#[tokio::test]
async fn work_that_has_begun_keeps_the_program_and_not_the_request() {
    struct Request {
        bytes: Bytes,
        _in_memory: Arc<()>,
    }
    impl AsRef<[u8]> for Request {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    let mut held = held(Limits::default());
    let in_memory = Arc::new(());
    let request = Request { bytes: expensive("x"), _in_memory: in_memory.clone() };
    let call = spawned(&held.compiler, "a", Bytes::from_owner(request));
    soon(held.began.recv()).await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&in_memory), 1, "the work has not ended, and the request is gone");
    held.go_on.send(()).unwrap();
}

#[tokio::test]
async fn the_bytes_of_a_stored_program_are_read_once_for_all_calls() {
    const CALLS: usize = 5;
    let directory = tempfile::tempdir().unwrap();
    let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
    let (store, bytes) = (Store::new(database.clone()), expensive("x"));
    let (id, mut held) = (id_of(&bytes), held(Limits::default()));
    assert!(held.compiler.stored(&store, "a", id).await.unwrap().is_none());
    store.put_program("a", id, &bytes, 0).await.unwrap();
    assert!(held.compiler.stored(&store, "b", id).await.unwrap().is_none(), "the program of another tenant");
    let call = || {
        let (compiler, store) = (held.compiler.clone(), store.clone());
        tokio::spawn(async move { compiler.stored(&store, "a", id).await })
    };
    let mut calls = vec![call()];
    soon(held.began.recv()).await.unwrap();
    // From here on, a call that reads the bytes fails.
    let mut write = database.write(Asker::Server, Rows::All).await.unwrap();
    write.script("UPDATE programs SET bytes = digest".to_owned()).await.unwrap();
    write.commit().await.unwrap();
    calls.extend((1..CALLS).map(|_| call()));
    let waiting = || held.compiler.0.flights().values().map(|awaited| awaited.calls).sum::<usize>();
    let all_wait = async {
        while waiting() < CALLS {
            tokio::task::yield_now().await;
        }
    };
    soon(all_wait).await;
    held.go_on.send(()).unwrap();
    for call in calls {
        let compiled = soon(call).await.unwrap().unwrap().expect("a stored program");
        assert_eq!(compiled.bytes, bytes);
    }
    assert!(held.compiler.stored(&store, "a", id).await.unwrap().is_some(), "the outcome is remembered");
    let read = Compiler::new(&Limits::default()).stored(&store, "a", id).await;
    assert_eq!(read.unwrap_err().reason(), INTERNAL, "other bytes do not pass for the program");
}

#[tokio::test]
async fn the_error_for_invalid_bytes_is_remembered() {
    static DECODED: AtomicUsize = AtomicUsize::new(0);
    let decode = |bytes: &[u8]| {
        DECODED.fetch_add(1, SeqCst);
        AnyProgram::decode(bytes)
    };
    let compiler = Compiler::with(&Limits::default(), Steps { decode, price: Box::new(Blocks::of) });
    // The first program is short enough to be decoded at once, and the second is not.
    for (index, operations) in [15, 4000].into_iter().enumerate() {
        let too_much = program("x", Kind::Aes128Encrypt, operations, 128);
        assert_eq!(too_much.len() > SHORT_BYTES, operations == 4000);
        for _ in 0..3 {
            let error = compiler.receive("a", &too_much).await.unwrap_err();
            assert_eq!(error.reason(), PROGRAM_INVALID);
        }
        assert_eq!(DECODED.load(SeqCst), index + 1);
    }
}

#[tokio::test]
async fn a_panic_is_an_error_and_gives_the_slot_back() {
    static PANICS: AtomicUsize = AtomicUsize::new(1);
    let price = |program: &Program| {
        assert!(PANICS.swap(0, SeqCst) == 0, "once");
        Blocks::of(program)
    };
    let steps = Steps { decode: AnyProgram::decode, price: Box::new(price) };
    let compiler = Compiler::with(&Limits::default(), steps);
    assert_eq!(compiler.receive("a", &expensive("x")).await.unwrap_err().reason(), INTERNAL);
    assert!(soon(compiler.receive("a", &expensive("x"))).await.is_ok());
}

/// A program of 193 bytes whose compiling once took 2.7 seconds.
#[tokio::test]
async fn the_largest_program_is_known_to_be_expensive_before_it_is_compiled() {
    let bytes = program("block", Kind::Aes128Encrypt, 14, 128);
    assert_eq!(bytes.len(), 193);
    let AnyProgram::Blocks(program) = AnyProgram::decode(&bytes).unwrap() else { panic!("a program on blocks") };
    assert!(program.bootstraps_max() > CHEAP_BOOTSTRAPS);
    let compiled = Compiler::new(&Limits::default()).receive("a", &bytes).await.unwrap();
    let Family::Blocks(blocks) = &compiled.family else { panic!("a program on blocks") };
    assert!(blocks.work.pbs_count <= program.bootstraps_max());
}

#[tokio::test]
async fn a_waiting_long_program_is_not_decoded() {
    static DECODED: AtomicUsize = AtomicUsize::new(0);
    let mut held = held(Limits::default());
    let running = spawned(&held.compiler, "a", expensive("x"));
    soon(held.began.recv()).await.unwrap();
    // A compiler with the same queue, whose decode steps are counted.
    let decode = |bytes: &[u8]| {
        DECODED.fetch_add(1, SeqCst);
        AnyProgram::decode(bytes)
    };
    let counted = Compiler(Arc::new(Shared {
        known: Known::default(),
        queue: held.compiler.0.queue.clone(),
        flights: Mutex::default(),
        steps: Steps { decode, price: Box::new(Blocks::of) },
        bytes_max: u64::MAX,
    }));
    let long = program("long", Kind::Add, 1500, 8);
    assert!(long.len() > SHORT_BYTES);
    let waiting = spawned(&counted, "a", long);
    while counted.0.flights().is_empty() {
        tokio::task::yield_now().await;
    }
    // A program of another tenant begins and ends meanwhile.
    soon(counted.receive("b", &cheap("y"))).await.unwrap();
    assert_eq!(DECODED.load(SeqCst), 2, "once to tell its cost and once to compile it");
    held.go_on.send(()).unwrap();
    soon(running).await.unwrap().unwrap();
    soon(waiting).await.unwrap().unwrap();
    assert_eq!(DECODED.load(SeqCst), 3);
}

/// A tenant whose limit allows only one program at a time sends one after the other.
#[tokio::test]
async fn a_result_comes_after_its_place_is_free() {
    let limits = Limits { tenant_compile_bootstraps: 1, ..Limits::default() };
    let price = |program: &Program| {
        let costs = Default::default();
        Blocks {
            set: program.set(),
            operation: program.operation(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            work: costs,
            depth: costs,
        }
    };
    let compiler = Compiler::with(&limits, Steps { decode: AnyProgram::decode, price: Box::new(price) });
    for number in 0..2000 {
        soon(compiler.receive("a", &cheap(&number.to_string()))).await.expect("nothing else is held");
    }
}

#[test]
fn concurrent_calls_that_end_together_leave_no_entry() {
    const CALLS: usize = 4;
    const ROUNDS: usize = 20_000;
    let compiler = Compiler::new(&Limits::default());
    let barrier = std::sync::Barrier::new(CALLS);
    std::thread::scope(|scope| {
        for _ in 0..CALLS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let mut id = [0; 32];
                    id[..8].copy_from_slice(&round.to_le_bytes());
                    let flight = compiler.flight("a", ProgramId(id));
                    barrier.wait();
                    drop(flight);
                }
            });
        }
    });
    assert_eq!(compiler.0.flights().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn finished_calls_for_equal_bytes_leave_no_entry() {
    let compiler = Compiler::new(&Limits::default());
    for round in 0..300 {
        let bytes = cheap(&round.to_string());
        let calls: Vec<_> = (0..8).map(|_| spawned(&compiler, "a", bytes.clone())).collect();
        for call in calls {
            soon(call).await.unwrap().unwrap();
        }
    }
    assert_eq!(compiler.0.flights().len(), 0);
}

/// A program on vectors with `kinds` kinds of bootstraps.
fn vectors(kinds: u32) -> Bytes {
    let input = |slots_log2| wire::program::Input {
        name: "x".to_owned(),
        r#type: wire::Type::Vector.into(),
        slots_log2,
        level: 5,
        ..Default::default()
    };
    let sizes = [Size::Small, Size::Medium, Size::Large];
    let bootstrap = |kind: u32| {
        let (stages, size) = (1 + kind / 3 % 5, sizes[kind as usize % 3].into());
        let bootstrap = Some(Bootstrap { stages, size, kind: 0 });
        wire::Operation { kind: Kind::Bootstrap.into(), arguments: vec![kind / 15], bootstrap, ..Default::default() }
    };
    let message = wire::Program {
        parameter_set: "TOY_CKKS_45_60_50".to_owned(),
        inputs: (0..kinds.div_ceil(15).max(1)).map(|index| input(9 - index)).collect(),
        operations: (0..kinds).map(bootstrap).collect(),
        outputs: vec![0],
        ..Default::default()
    };
    message.encode_to_vec().into()
}

#[tokio::test]
async fn kinds_of_bootstraps_of_vectors_are_paid_for() {
    let compiler = Compiler::new(&Limits::default());
    for (kinds, is_cheap) in [(0, true), (10, true), (60, false)] {
        let bytes = vectors(kinds);
        assert!(bytes.len() <= 1200, "{}", bytes.len());
        let cost = compiler.cost(&bytes).expect("a program");
        assert!(cost >= BOOTSTRAPS_OF_A_KIND * u64::from(kinds), "{kinds} kinds: {cost}");
        assert_eq!(cost <= CHEAP_BOOTSTRAPS, is_cheap, "{kinds} kinds: {cost}");
        compiler.receive("a", &bytes).await.expect("a program");
    }
}
