//! Jobs from bytes to bytes. Jobs under several keys take turns, and a job that fails or is
//! cancelled does not affect the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use cloakwork_circuit::{
    ckks::{Input, LIMITS, Program},
    wire::{self, Operation, operation::Kind},
};
use cloakwork_ckks::{
    Ciphertext, CkksError, Complex, KeyPart,
    format::{FormatError, encode},
};
use cloakwork_device::{DeviceError, KeySlot, Row, RowError, VectorUnit};
use cloakwork_params::{EnvelopeError, KeyId, ckks::by_name};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use cloakwork_vectors::{Engine, Finished, InputError, Job, Processors, read_input, read_part, ring, write_output};

const SET: &str = "TOY_CKKS_45_60_50";
const KEY_ID: KeyId = KeyId([3; 16]);

fn square() -> Program {
    power(1)
}

/// A program that squares its input `squares` times in a row.
fn power(squares: u32) -> Program {
    let square = |of| Operation { kind: Kind::Multiply.into(), arguments: vec![of, of], ..Default::default() };
    let input = wire::program::Input {
        name: "x".to_owned(),
        r#type: wire::Type::Vector.into(),
        slots_log2: 4,
        level: 2,
        ..Default::default()
    };
    let message = wire::Program {
        parameter_set: SET.to_owned(),
        inputs: vec![input],
        operations: (0..squares).map(square).collect(),
        outputs: vec![squares],
        ..Default::default()
    };
    Program::decode(&prost::Message::encode_to_vec(&message), &LIMITS).expect("a program")
}

struct Client {
    secret: SecretKey,
    part: KeySlot,
    randomness: Randomness,
}

fn unit() -> Arc<Processors> {
    Arc::new(Processors::new(1, 0, 0))
}

impl Client {
    /// A client with a new key, whose only part is on the unit.
    fn new(number: u64, unit: &Processors) -> Self {
        let ring = ring(by_name(SET).expect("a set"));
        let mut randomness = Randomness::insecure_for_tests(number);
        let secret = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
        let key = KeyGenerator::new(&secret, ring).relinearization(5, &mut randomness).expect("a key");
        let part = KeyPart { purpose: cloakwork_params::ckks::layout::Purpose::Relinearization, key };
        let mut bytes = Vec::new();
        encode(&part, ring, KEY_ID, &mut bytes).expect("bytes");
        assert!(read_part(&bytes[..], ring, KeyId([4; 16])).is_err(), "of another key");
        let part = read_part(&bytes[..], ring, KEY_ID).expect("the same part");
        let part = unit.load_part(ring.set(), part).expect("a key of the ring");
        Self { secret, part, randomness }
    }

    fn encrypt(&mut self, number: f64, level: usize, slots: usize) -> Ciphertext {
        let ring = ring(by_name(SET).expect("a set"));
        self.secret.encrypt(ring, &vec![Complex::from(number); slots], level, &mut self.randomness).expect("encryption")
    }

    /// The bytes of a fresh input, as a client sends them to the server.
    fn send(&mut self, number: f64, level: usize, slots: usize) -> Vec<u8> {
        let ring = ring(by_name(SET).expect("a set"));
        write_output(&self.encrypt(number, level, slots), ring, KEY_ID).expect("bytes")
    }

    fn decrypt(&self, bytes: &[u8], declared: &Input) -> f64 {
        let ring = ring(by_name(SET).expect("a set"));
        let ciphertext = read_input(bytes, ring, KEY_ID, declared).expect("an output");
        self.secret.decrypt(ring, &ciphertext).expect("decryption")[3].re
    }
}

#[test]
fn failed_and_cancelled_jobs_do_not_affect_jobs_of_other_keys() {
    let ring = ring(by_name(SET).expect("a set"));
    let program = Arc::new(square());
    let declared = &program.inputs()[0];
    let returned = Input { name: "y".to_owned(), vector: program.outputs()[0].vector };
    let unit = unit();
    let mut clients = [Client::new(1, &unit), Client::new(2, &unit)];
    let (beat, beats) = mpsc::channel();
    let beat = move |is_busy| beat.send(is_busy).expect("the receiver exists");
    let engine = Engine::start(unit, 1, beat).expect("a thread");
    let (told, ends) = mpsc::channel();
    let mut expected = Vec::new();
    for number in 0..12_usize {
        let of = number % 2;
        let value = 0.05 * number as f64;
        let bytes = clients[of].send(value, 2, 16);
        let mut inputs = vec![read_input(&bytes, ring, KEY_ID, declared).expect("as it was declared")];
        let is_cancelled = Arc::new(AtomicBool::new(number == 4));
        if number == 7 {
            // An input that differs from the declaration, as if the caller had skipped the check.
            inputs[0] = clients[of].encrypt(value, 1, 16);
        }
        let told = told.clone();
        let job = Job {
            key: of,
            program: program.clone(),
            inputs,
            parts: vec![clients[of].part],
            is_cancelled: is_cancelled.clone(),
            progress: Box::new(|| ()),
            done: Box::new(move |finished: Finished| {
                assert!(finished.began <= finished.ended);
                told.send((number, finished.result)).expect("the receiver exists");
            }),
        };
        engine.submit(job);
        expected.push(value * value);
    }
    for _ in 0..12 {
        let (number, result) = ends.recv().expect("every job ends");
        match (number, result) {
            (4, result) => assert_eq!(result.err(), Some(RowError::GivenUp)),
            (7, result) => assert!(matches!(result, Err(RowError::OffPlan { .. }))),
            (number, result) => {
                let bytes = write_output(&result.expect("a result").outputs[0], ring, KEY_ID).expect("bytes");
                let got = clients[number % 2].decrypt(&bytes, &returned);
                assert!((got - expected[number]).abs() < 1e-6, "{number}: {got}");
            }
        }
    }
    // Each job sends one beat with false, at its end. A job sends beats with true before its steps.
    let beats: Vec<bool> = beats.try_iter().collect();
    assert!(beats.iter().filter(|is_busy| !**is_busy).count() == 12 && beats.contains(&true), "{beats:?}");
    assert_eq!(beats.last(), Some(&false), "it has nothing to do");
}

#[test]
fn a_job_that_is_cancelled_is_given_up_before_its_next_step() {
    let unit = unit();
    let mut client = Client::new(7, &unit);
    let engine = Engine::start(unit, 1, |_| ()).expect("a thread");
    let (told, ends) = mpsc::channel();
    let program = Arc::new(power(2));
    assert_eq!(program.steps().len(), 2);
    for (cancelled_at, expected) in [(1, 1), (2, 2), (3, 2)] {
        let (told, steps) = (told.clone(), Arc::new(AtomicUsize::new(0)));
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (seen, cancel) = (steps.clone(), is_cancelled.clone());
        engine.submit(Job {
            key: 0,
            program: program.clone(),
            inputs: vec![client.encrypt(0.5, 2, 16)],
            parts: vec![client.part],
            is_cancelled,
            progress: Box::new(move || {
                let begun = seen.fetch_add(1, Ordering::Relaxed) + 1;
                cancel.fetch_or(begun == cancelled_at, Ordering::Relaxed);
            }),
            done: Box::new(move |finished: Finished| told.send(finished.result.map(|_| ())).expect("a listener")),
        });
        let end = ends.recv().expect("it ends");
        assert_eq!(end.err(), (cancelled_at <= 2).then_some(RowError::GivenUp), "cancelled at {cancelled_at}");
        assert_eq!(steps.load(Ordering::Relaxed), expected);
    }
}

#[test]
fn a_row_whose_parts_are_missing_unknown_or_double_is_refused() {
    let unit = unit();
    let mut client = Client::new(3, &unit);
    let (program, part) = (square(), client.part);
    let mut compute = |parts: &[KeySlot]| {
        let row = Row { program: &program, inputs: vec![client.encrypt(0.5, 2, 16)], parts, goes_on: &|| true };
        unit.compute(row).map(|_| ())
    };
    assert_eq!(compute(&[part]), Ok(()));
    assert!(matches!(compute(&[]), Err(RowError::Step { operation: 0, problem: CkksError::MissingKey { .. } })));
    assert!(matches!(compute(&[part, part]), Err(RowError::Keys(CkksError::DoubleKey { .. }))));
    unit.evict_part(part);
    let unknown = DeviceError::UnknownHandle { what: "part of a key" };
    assert_eq!(compute(&[part]), Err(RowError::Device(unknown)));
}

#[test]
fn an_engine_whose_thread_panics_has_died() {
    let unit = unit();
    let mut client = Client::new(5, &unit);
    let engine = Engine::start(unit, 1, |_| ()).expect("a thread");
    assert!(!engine.has_died());
    engine.submit(Job {
        key: 0,
        program: Arc::new(square()),
        inputs: vec![client.encrypt(0.5, 2, 16)],
        parts: vec![client.part],
        is_cancelled: Arc::default(),
        progress: Box::new(|| ()),
        // The engine's thread calls `done` outside of the code whose panics it catches.
        done: Box::new(|_| panic!("on purpose")),
    });
    let begun = Instant::now();
    while !engine.has_died() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the thread has not ended");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_dropped_engine_gives_up_running_and_waiting_jobs() {
    let program = Arc::new(square());
    let unit = unit();
    let mut client = Client::new(5, &unit);
    let engine = Engine::start(unit, 1, |_| ()).expect("a thread");
    let (told, ends) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let release = Arc::new(AtomicBool::new(false));
    for number in 0..3 {
        let (told, begun, release) = (told.clone(), begun.clone(), release.clone());
        let job = Job {
            key: 0,
            program: program.clone(),
            inputs: vec![client.encrypt(0.5, 2, 16)],
            parts: vec![client.part],
            is_cancelled: Arc::default(),
            progress: Box::new(move || {
                begun.send(()).expect("the receiver exists");
                while !release.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            }),
            done: Box::new(move |finished: Finished| {
                told.send((number, finished.result.map(|_| ()))).expect("the receiver exists");
            }),
        };
        engine.submit(job);
    }
    begins.recv().expect("the first one begins");
    let ending = std::thread::spawn(move || drop(engine));
    // The engine must be closed before the first job goes on.
    std::thread::sleep(Duration::from_millis(500));
    release.store(true, Ordering::Relaxed);
    ending.join().expect("it ends");
    let ends: Vec<_> = ends.try_iter().collect();
    assert_eq!(ends, (0..3).map(|number| (number, Err(RowError::GivenUp))).collect::<Vec<_>>());
}

#[test]
fn inputs_must_match_the_key_and_the_declaration() {
    let ring = ring(by_name(SET).expect("a set"));
    let program = square();
    let declared = &program.inputs()[0];
    let mut client = Client::new(9, &unit());
    for (level, slots, words) in [(1, 16, "level 1"), (3, 16, "level 3"), (2, 8, "8 numbers")] {
        let refused = read_input(&client.send(0.5, level, slots), ring, KEY_ID, declared).err();
        let Some(InputError::Undeclared(problem)) = refused else { panic!("{words}") };
        assert!(problem.contains(words), "{problem}");
    }
    let good = client.send(0.5, 2, 16);
    let other_key = read_input(&good, ring, KeyId([9; 16]), declared).err();
    let is_other = |error: &InputError| {
        matches!(error, InputError::Format(FormatError::Envelope(EnvelopeError::WrongKeyId { .. })))
    };
    assert!(other_key.as_ref().is_some_and(is_other), "{other_key:?}");
    let mut scaled = client.encrypt(0.5, 2, 16);
    scaled.scale *= 1.01;
    let scaled = write_output(&scaled, ring, KEY_ID).expect("bytes");
    assert!(matches!(read_input(&scaled, ring, KEY_ID, declared), Err(InputError::Undeclared(_))));
    let seeded = client.secret.encrypt_seeded(ring, &[Complex::from(0.25); 16], 2, &mut client.randomness);
    let mut bytes = Vec::new();
    encode(&seeded.expect("encryption"), ring, KEY_ID, &mut bytes).expect("bytes");
    let read = read_input(&bytes, ring, KEY_ID, declared).expect("a fresh one");
    assert!((client.secret.decrypt(ring, &read).expect("decryption")[0].re - 0.25).abs() < 1e-6);
    for cut in [0, 10, 200, good.len() - 1] {
        assert!(matches!(read_input(&good[..cut], ring, KEY_ID, declared), Err(InputError::Format(_))), "{cut}");
    }
}
