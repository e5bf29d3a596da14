//! The memory charge of a plan matches the memory that running the plan takes. The test is a
//! process of its own, because the measurement would include the memory of other tests.

use cloakwork_circuit::{
    ckks::{LIMITS, Program},
    wire::{
        self, Operation,
        operation::{self, Kind, bootstrap::Size},
    },
};
use cloakwork_ckks::{Complex, KeyPlan};
use cloakwork_params::ckks::{by_name, layout::KeyShape};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use cloakwork_vectors::{Keys, Matrices, Part, ring, run};
use prost::Message as _;

const SLOTS_LOG2: u32 = 9;

fn operation(kind: Kind, arguments: &[u32]) -> Operation {
    Operation { kind: kind.into(), arguments: arguments.to_vec(), ..Default::default() }
}

/// A matrix with diagonals far from each other, so that the product takes many steps.
fn sparse(diagonals: u32) -> Operation {
    let offsets: Vec<u32> = (0..diagonals).map(|place| (place * (511 / diagonals)) | 1).collect();
    Operation { numbers: vec![0.25; offsets.len() << SLOTS_LOG2], offsets, ..operation(Kind::Matrix, &[0]) }
}

fn bootstrap(size: Size) -> Operation {
    let bootstrap = operation::Bootstrap { stages: 3, size: size.into(), kind: 0 };
    Operation { bootstrap: Some(bootstrap), ..operation(Kind::Bootstrap, &[0]) }
}

/// Bytes that a program is charged on so many threads, and bytes that it takes.
fn memory(set: &str, threads: usize, level: u32, operations: Vec<Operation>, outputs: Vec<u32>) -> [usize; 2] {
    let set = by_name(set).expect("a set");
    let input = wire::program::Input {
        name: "x".to_owned(),
        r#type: wire::Type::Vector.into(),
        slots_log2: SLOTS_LOG2,
        level,
        ..Default::default()
    };
    let parameter_set = set.name.to_owned();
    let message = wire::Program { parameter_set, inputs: vec![input], operations, outputs, ..Default::default() };
    let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program");
    let mut randomness = Randomness::insecure_for_tests(5);
    let ring = ring(set);
    let secret = SecretKey::generate(set, &mut randomness).expect("a key");
    let mut plan = KeyPlan::default();
    for need in program.keys() {
        plan.want(KeyShape { purpose: need.purpose.purposes(set)[0], level: need.level });
    }
    let generator = KeyGenerator::new(&secret, ring);
    let parts = generator.parts(&plan, &mut randomness).expect("keys");
    let parts = parts.map(|part| Part::expand(ring, part.expect("a key"), 1).expect("a key of the ring"));
    let keys = Keys::of_parts(parts).expect("keys of the ring");
    // Matrices of bootstraps are not part of the program's charge.
    let matrices = Matrices::new(usize::MAX, 1);
    for step in program.steps() {
        if let cloakwork_circuit::ckks::Action::Bootstrap(_, shape) = step.action {
            matrices.get(set, shape).expect("matrices");
        }
    }
    let before = ring.memory_use().now;
    let numbers = vec![Complex::from(0.5); 1 << SLOTS_LOG2];
    let input = secret.encrypt(ring, &numbers, level as usize, &mut randomness).expect("encryption").fitted();
    ring.memory_use();
    let run = run(&program, vec![input], &keys, &matrices, threads, || true).expect("a result");
    let most = ring.memory_use().most;
    drop(run);
    [program.cost().memory_bytes_on(threads) as usize, most - before]
}

#[test]
fn the_memory_charge_of_a_plan_matches_its_use() {
    let squares = |count: u32| (0..count).map(|_| operation(Kind::Multiply, &[0, 0])).collect::<Vec<_>>();
    for (what, level, operations, outputs) in [
        ("a product", 14, squares(1), vec![1]),
        ("products that stay", 1, squares(100), (1..=100).collect()),
        ("products that stay, high up", 14, squares(20), (1..=20).collect()),
        ("a total", 14, vec![operation(Kind::Total, &[0])], vec![1]),
        ("a total, further down", 11, vec![operation(Kind::Total, &[0])], vec![1]),
        ("a total of few primes", 5, vec![operation(Kind::Total, &[0])], vec![1]),
        ("two diagonals", 14, vec![sparse(2)], vec![1]),
        ("four diagonals", 14, vec![sparse(4)], vec![1]),
        ("sixteen diagonals", 14, vec![sparse(16)], vec![1]),
        ("sixty-four diagonals", 14, vec![sparse(64)], vec![1]),
        ("diagonals at level 1", 1, vec![sparse(32)], vec![1]),
        ("a bootstrap with few keys", 0, vec![bootstrap(Size::Small)], vec![1]),
        ("a bootstrap", 0, vec![bootstrap(Size::Medium)], vec![1]),
        ("a bootstrap with many keys", 0, vec![bootstrap(Size::Large)], vec![1]),
    ] {
        for threads in [1, 8, 40] {
            check(what, threads, memory("TOY_CKKS_45_60_50", threads, level, operations.clone(), outputs.clone()));
        }
    }
    // The real ring's rows are large: up to 16 threads transform one row at a time, and up to 32
    // threads two.
    for threads in [1, 16, 17, 40] {
        check("a real ring's diagonals", threads, memory("CKKS_45_60_50_H4096", threads, 6, vec![sparse(16)], vec![1]));
    }
}

fn check(what: &str, threads: usize, [charged, taken]: [usize; 2]) {
    assert!(taken <= charged, "{what} on {threads}: {taken} bytes, of which {charged} are charged");
    assert!(2 * charged <= 5 * taken, "{what} on {threads}: {charged} bytes are charged for {taken}");
}
