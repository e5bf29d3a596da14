//! Every boolean set computes every gate, in both key orders.

use cloakwork_params::{Encoding, table::SETS};
use cloakwork_tests_core::Pair;
use cloakwork_tfhe::{Gate, Gates, Lut, LweList, gates};

const GATES: [Gate; 6] = [Gate::And, Gate::Nand, Gate::Nor, Gate::Or, Gate::Xnor, Gate::Xor];

#[test]
fn every_boolean_set_computes_gates() {
    for set in SETS.iter().filter(|set| set.encoding == Encoding::Boolean) {
        computes_gates(set.name);
    }
}

#[test]
fn tables_of_several_outputs_work_with_the_bootstrap_first() {
    let mut pair = Pair::<u32, u32>::generate("TOY_BOOLEAN");
    let bits: Vec<u64> = (0..100).map(|lane| lane / 3 % 2).collect();
    let inputs = pair.client.encrypt(pair.set, &bits, &mut pair.randomness).expect("ciphertexts");
    // The second output lies a quarter of the torus further on, where both bits are positive.
    let size = pair.set.polynomial_size;
    let lut = Lut::from_parts(vec![1 << 29; size], vec![0, size / 2]).expect("a table");
    let expected: Vec<u64> = bits.iter().flat_map(|bit| [*bit, 1]).collect();
    // With one thread, a part has more results than one call of the key switch takes.
    for threads in [pair.scratches.len(), 1] {
        let mut outputs = LweList::zeros(inputs.dimension(), 200);
        let scratches = &mut pair.scratches[..threads];
        pair.server.bootstrap(&inputs, &[&lut; 100], &mut outputs, scratches).expect("shapes that fit");
        assert_eq!(pair.client.decrypt(pair.set, &outputs).expect("bits"), expected);
    }
}

fn computes_gates(name: &str) {
    let mut pair = Pair::<u32, u32>::generate(name);
    let cases: Vec<(Gate, bool, bool)> = GATES
        .iter()
        .flat_map(|gate| [(false, false), (false, true), (true, false), (true, true)].map(|(l, r)| (*gate, l, r)))
        .collect();
    let circuit: Vec<Gate> = cases.iter().map(|case| case.0).collect();
    let bits = |bit: fn(&(Gate, bool, bool)) -> bool| cases.iter().map(|case| u64::from(bit(case))).collect::<Vec<_>>();
    let left = pair.client.encrypt(pair.set, &bits(|case| case.1), &mut pair.randomness).expect("ciphertexts");
    let right = pair.client.encrypt(pair.set, &bits(|case| case.2), &mut pair.randomness).expect("ciphertexts");
    let evaluator = Gates::new(&pair.server);
    let mut outputs = LweList::zeros(left.dimension(), left.len());
    evaluator.evaluate(&circuit, &left, &right, &mut outputs, &mut pair.scratches).expect("shapes that fit");
    let expected: Vec<u64> = cases.iter().map(|(gate, left, right)| u64::from(gate.evaluate(*left, *right))).collect();
    assert_eq!(pair.client.decrypt(pair.set, &outputs).expect("bits"), expected, "{name}: gates on fresh bits");

    // The outputs choose between the inputs, and the chosen bits are negated.
    let mut chosen = LweList::zeros(left.dimension(), left.len());
    evaluator.mux(&outputs, &left, &right, &mut chosen, &mut pair.scratches).expect("shapes that fit");
    gates::not(&mut chosen);
    let expected: Vec<u64> = cases
        .iter()
        .map(|(gate, left, right)| u64::from(!if gate.evaluate(*left, *right) { *left } else { *right }))
        .collect();
    assert_eq!(pair.client.decrypt(pair.set, &chosen).expect("bits"), expected, "{name}: mux and not");

    // The output of a mux carries the noise of two bootstraps. That noise must still fit into the
    // gate with the tightest bound.
    let xors = vec![Gate::Xor; cases.len()];
    evaluator.evaluate(&xors, &chosen, &chosen.clone(), &mut outputs, &mut pair.scratches).expect("shapes that fit");
    assert_eq!(pair.client.decrypt(pair.set, &outputs).expect("bits"), vec![0; cases.len()], "{name}: xor of a mux");
}
