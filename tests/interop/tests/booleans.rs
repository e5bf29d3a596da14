//! Boolean gates under keys of either library, in both orders of key switch and bootstrap.

use crate::common::{Random, set};
use cloakwork_params::{KeyId, ParameterSet};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tests_interop::{EvaluationKeys, boolean, parameters};
use cloakwork_tfhe::{Gate, Gates, LweList, ServerKey, gates};
use tfhe::boolean::{
    ciphertext::Ciphertext,
    client_key::ClientKey as TheirClientKey,
    engine::BooleanEngine,
    server_key::{BinaryBooleanGates, CompressedServerKey, ServerKey as TheirServerKey},
};

const GATES: [Gate; 6] = [Gate::And, Gate::Nand, Gate::Nor, Gate::Or, Gate::Xnor, Gate::Xor];

/// A client key and a server key of one secret, in both libraries.
struct Pair {
    set: &'static ParameterSet,
    ours: ClientKey,
    our_server: ServerKey<u32, u32>,
    theirs: TheirClientKey,
    their_server: TheirServerKey,
}

impl Pair {
    fn made_by_tfhe(name: &str) -> Self {
        let set = set(name);
        let mut engine = BooleanEngine::new();
        let theirs = engine.create_client_key(parameters::boolean(set).unwrap());
        let server = engine.create_compressed_server_key(&theirs);
        let keys = EvaluationKeys::from_boolean(set, server.clone()).unwrap();
        assert!(keys.to_boolean().into_raw_parts() == server.clone().into_raw_parts(), "{name}: way back");
        let ours = boolean::client_key_from_tfhe(theirs.clone(), KeyId([7; 16])).unwrap();
        assert!(boolean::client_key_into_tfhe(&ours, set).unwrap() == theirs, "{name}: way back");
        Self::new(set, ours, &keys, theirs, &server)
    }

    fn made_by_us(name: &str) -> Self {
        let set = set(name);
        let mut randomness = Randomness::from_os().unwrap();
        let ours = ClientKey::generate(set, &mut randomness).unwrap();
        let generator = KeyGenerator::new(&ours, set).unwrap();
        let keys = EvaluationKeys {
            set,
            key_switch: generator.key_switch_key(&mut randomness).unwrap(),
            bootstrap: generator.bootstrap_key(&mut randomness).unwrap(),
        };
        let theirs = boolean::client_key_into_tfhe(&ours, set).unwrap();
        let server = keys.to_boolean();
        Self::new(set, ours, &keys, theirs, &server)
    }

    fn new(
        set: &'static ParameterSet,
        ours: ClientKey,
        keys: &EvaluationKeys<u32, u32>,
        theirs: TheirClientKey,
        server: &CompressedServerKey,
    ) -> Self {
        Self { set, ours, our_server: keys.expand(2).unwrap(), theirs, their_server: server.decompress() }
    }

    fn check(&self) {
        self.truth_tables();
        self.circuit();
    }

    /// Evaluates every gate on every input. Our server gets inputs encrypted by either library, and
    /// tfhe-rs gets inputs that we encrypted.
    fn truth_tables(&self) {
        let cases: Vec<_> = GATES.iter().flat_map(|&gate| (0..4).map(move |bits| (gate, bits))).collect();
        let selected: Vec<_> = cases.iter().map(|&(gate, _)| gate).collect();
        let left: Vec<_> = cases.iter().map(|&(_, bits)| bits & 1 == 1).collect();
        let right: Vec<_> = cases.iter().map(|&(_, bits)| bits & 2 == 2).collect();
        let expected: Vec<_> = (0..cases.len()).map(|case| selected[case].evaluate(left[case], right[case])).collect();
        for encrypt in [Self::encrypted_by_us, Self::encrypted_by_tfhe] {
            let (left_bits, right_bits) = (encrypt(self, &left), encrypt(self, &right));
            self.expect(&left_bits, &left);
            self.expect(&self.our_gates(&selected, &left_bits, &right_bits), &expected);
            self.expect(&self.our_not(&left_bits), &left.iter().map(|bit| !bit).collect::<Vec<_>>());
            self.multiplexers(encrypt);
        }
        let (left_bits, right_bits) = (self.encrypted_by_us(&left), self.encrypted_by_us(&right));
        self.expect(&self.their_gates(&selected, &left_bits, &right_bits), &expected);
    }

    fn multiplexers(&self, encrypt: fn(&Self, &[bool]) -> Vec<Ciphertext>) {
        let input = |bit: usize| (0..8).map(|case| case >> bit & 1 == 1).collect::<Vec<bool>>();
        let (condition, yes, no) = (input(0), input(1), input(2));
        let expected: Vec<_> = (0..8).map(|case| if condition[case] { yes[case] } else { no[case] }).collect();
        let (condition, yes, no) = (encrypt(self, &condition), encrypt(self, &yes), encrypt(self, &no));
        self.expect(&self.our_mux(&condition, &yes, &no), &expected);
        let theirs: Vec<_> =
            (0..8).map(|case| self.their_server.mux(&condition[case], &yes[case], &no[case])).collect();
        self.expect(&theirs, &expected);
    }

    /// Evaluates layers of random gates on a row of bits, with the libraries alternating.
    fn circuit(&self) {
        let mut random = Random::new(40);
        let mut bits: Vec<_> = (0..8).map(|_| random.below(2) == 1).collect();
        let mut ciphertexts = self.encrypted_by_tfhe(&bits);
        for layer in 0..4 {
            let mut pick = |bound: u64| (0..8).map(|_| random.below(bound) as usize).collect::<Vec<_>>();
            let (selected, left, right, condition) = (pick(6), pick(8), pick(8), pick(8));
            let selected: Vec<_> = selected.into_iter().map(|gate| GATES[gate]).collect();
            let choose = |list: &[Ciphertext], places: &[usize]| {
                places.iter().map(|&place| list[place].clone()).collect::<Vec<_>>()
            };
            let (lefts, rights) = (choose(&ciphertexts, &left), choose(&ciphertexts, &right));
            let conditions = choose(&ciphertexts, &condition);
            let (results, inverted, chosen) = if layer % 2 == 0 {
                let results = self.our_gates(&selected, &lefts, &rights);
                let inverted = self.our_not(&results);
                let chosen = self.our_mux(&conditions, &results, &lefts);
                (results, inverted, chosen)
            } else {
                let results = self.their_gates(&selected, &lefts, &rights);
                let inverted = results.iter().map(|bit| self.their_server.not(bit)).collect();
                let mux = |place: usize| self.their_server.mux(&conditions[place], &results[place], &lefts[place]);
                let chosen = (0..8).map(mux).collect();
                (results, inverted, chosen)
            };
            let result_bits: Vec<_> =
                (0..8).map(|place| selected[place].evaluate(bits[left[place]], bits[right[place]])).collect();
            self.expect(&results, &result_bits);
            self.expect(&inverted, &result_bits.iter().map(|bit| !bit).collect::<Vec<_>>());
            bits = (0..8)
                .map(|place| if bits[condition[place]] { result_bits[place] } else { bits[left[place]] })
                .collect();
            self.expect(&chosen, &bits);
            // The next layer gets inverted bits after some layers, so that inputs are both
            // bootstrapped and negated.
            ciphertexts = if layer % 3 == 0 { self.our_not(&chosen) } else { chosen };
            bits.iter_mut().for_each(|bit| *bit ^= layer % 3 == 0);
        }
    }

    fn encrypted_by_us(&self, bits: &[bool]) -> Vec<Ciphertext> {
        let messages: Vec<_> = bits.iter().map(|&bit| u64::from(bit)).collect();
        let list = self.ours.encrypt(self.set, &messages, &mut Randomness::from_os().unwrap()).unwrap();
        boolean::ciphertexts_into_tfhe(self.set, &list).unwrap()
    }

    fn encrypted_by_tfhe(&self, bits: &[bool]) -> Vec<Ciphertext> {
        bits.iter().map(|&bit| self.theirs.encrypt(bit)).collect()
    }

    fn our_gates(&self, selected: &[Gate], left: &[Ciphertext], right: &[Ciphertext]) -> Vec<Ciphertext> {
        let (left, right) = (self.list(left), self.list(right));
        let mut outputs = LweList::zeros(self.set.input_dimension(), selected.len());
        let mut scratches = [self.our_server.scratch(), self.our_server.scratch()];
        Gates::new(&self.our_server).evaluate(selected, &left, &right, &mut outputs, &mut scratches).unwrap();
        boolean::ciphertexts_into_tfhe(self.set, &outputs).unwrap()
    }

    fn our_mux(&self, condition: &[Ciphertext], yes: &[Ciphertext], no: &[Ciphertext]) -> Vec<Ciphertext> {
        let (condition, yes, no) = (self.list(condition), self.list(yes), self.list(no));
        let mut outputs = LweList::zeros(self.set.input_dimension(), condition.len());
        let mut scratches = [self.our_server.scratch(), self.our_server.scratch()];
        Gates::new(&self.our_server).mux(&condition, &yes, &no, &mut outputs, &mut scratches).unwrap();
        boolean::ciphertexts_into_tfhe(self.set, &outputs).unwrap()
    }

    fn our_not(&self, bits: &[Ciphertext]) -> Vec<Ciphertext> {
        let mut list = self.list(bits);
        gates::not(&mut list);
        boolean::ciphertexts_into_tfhe(self.set, &list).unwrap()
    }

    fn their_gates(&self, selected: &[Gate], left: &[Ciphertext], right: &[Ciphertext]) -> Vec<Ciphertext> {
        let evaluate = |((gate, left), right): ((&Gate, &Ciphertext), &Ciphertext)| match gate {
            Gate::And => self.their_server.and(left, right),
            Gate::Nand => self.their_server.nand(left, right),
            Gate::Nor => self.their_server.nor(left, right),
            Gate::Or => self.their_server.or(left, right),
            Gate::Xnor => self.their_server.xnor(left, right),
            Gate::Xor => self.their_server.xor(left, right),
        };
        selected.iter().zip(left).zip(right).map(evaluate).collect()
    }

    fn list(&self, ciphertexts: &[Ciphertext]) -> LweList<u32> {
        boolean::ciphertexts_from_tfhe(self.set, ciphertexts).unwrap()
    }

    /// Checks that both libraries decrypt `ciphertexts` to `bits`.
    fn expect(&self, ciphertexts: &[Ciphertext], bits: &[bool]) {
        let theirs: Vec<_> = ciphertexts.iter().map(|ciphertext| self.theirs.decrypt(ciphertext)).collect();
        assert_eq!(theirs, bits, "{}, decrypted by tfhe-rs", self.set.name);
        let ours = self.ours.decrypt(self.set, &self.list(ciphertexts)).unwrap();
        let bits: Vec<_> = bits.iter().map(|&bit| u64::from(bit)).collect();
        assert_eq!(ours, bits, "{}, decrypted by us", self.set.name);
    }
}

#[test]
fn gates_agree_with_tfhe_rs_if_the_key_switch_comes_first() {
    for name in ["DEFAULT_PARAMETERS_KS_PBS", "PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS"] {
        Pair::made_by_tfhe(name).check();
        Pair::made_by_us(name).check();
    }
}

#[test]
fn gates_agree_with_tfhe_rs_if_the_bootstrap_comes_first() {
    for name in ["DEFAULT_PARAMETERS", "PARAMETERS_ERROR_PROB_2_POW_MINUS_165", "TFHE_LIB_PARAMETERS"] {
        Pair::made_by_tfhe(name).check();
        Pair::made_by_us(name).check();
    }
}

#[test]
fn trivial_bits_become_words_without_a_mask() {
    let pair = Pair::made_by_us("TOY_BOOLEAN_KS_PBS");
    let bits = [true, false, true];
    let trivial: Vec<_> = bits.iter().map(|&bit| pair.their_server.trivial_encrypt(bit)).collect();
    pair.expect(&trivial, &bits);
    let fresh = pair.encrypted_by_tfhe(&[true, true, false]);
    pair.expect(&pair.our_gates(&[Gate::And, Gate::Or, Gate::Xor], &trivial, &fresh), &[true, true, true]);
}
