//! One secret key in both libraries, and the properties that its ciphertexts must have.

use cloakwork_params::{Encoding, KeyId, ParameterSet};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tests_interop::{
    EvaluationKeys, parameters,
    shortint::{self, SmallWord},
};
use cloakwork_tfhe::{Lut, LweList, ServerKey};
use tfhe::shortint::{Ciphertext, ClientKey as TheirClientKey, CompressedServerKey, ServerKey as TheirServerKey};

use super::{Random, set};

/// A client key and a server key of one secret, in both libraries.
pub(crate) struct Pair<S: SmallWord> {
    pub(crate) set: &'static ParameterSet,
    pub(crate) ours: ClientKey,
    pub(crate) our_server: ServerKey<u64, S>,
    pub(crate) theirs: TheirClientKey,
    pub(crate) their_server: TheirServerKey,
    messages: u64,
    values: u64,
    max_noise_level: u64,
}

impl<S: SmallWord> Pair<S> {
    /// Generates the keys with tfhe-rs.
    pub(crate) fn made_by_tfhe(name: &str) -> Self {
        let set = set(name);
        let theirs = TheirClientKey::new(parameters::shortint(set).unwrap());
        let server = CompressedServerKey::new(&theirs);
        let keys = EvaluationKeys::from_shortint(set, server.clone()).unwrap();
        assert!(keys.to_shortint().unwrap() == server, "{name}: the way back changes the server key");
        let ours = shortint::client_key_from_tfhe(theirs.clone(), KeyId([7; 16])).unwrap();
        assert!(shortint::client_key_into_tfhe(&ours, set).unwrap() == theirs, "{name}: nor may the client key change");
        Self::new(set, ours, &keys, theirs, &server)
    }

    /// Generates the keys with our library.
    pub(crate) fn made_by_us(name: &str) -> Self {
        let set = set(name);
        let mut randomness = Randomness::from_os().unwrap();
        let ours = ClientKey::generate(set, &mut randomness).unwrap();
        let generator = KeyGenerator::new(&ours, set).unwrap();
        let keys = EvaluationKeys {
            set,
            key_switch: generator.key_switch_key::<S>(&mut randomness).unwrap(),
            bootstrap: generator.bootstrap_key(&mut randomness).unwrap(),
        };
        let server = keys.to_shortint().unwrap();
        let theirs = shortint::client_key_into_tfhe(&ours, set).unwrap();
        Self::new(set, ours, &keys, theirs, &server)
    }

    fn new(
        set: &'static ParameterSet,
        ours: ClientKey,
        keys: &EvaluationKeys<u64, S>,
        theirs: TheirClientKey,
        server: &CompressedServerKey,
    ) -> Self {
        let Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } = set.encoding else {
            panic!("{} is not a shortint set", set.name);
        };
        Self {
            set,
            ours,
            our_server: keys.expand(2).unwrap(),
            theirs,
            their_server: server.decompress(),
            messages: message_modulus,
            values: message_modulus * carry_modulus,
            max_noise_level,
        }
    }

    /// Runs all checks in turn.
    pub(crate) fn check(&self) {
        self.fresh_ciphertexts();
        self.sums_and_multiples();
        self.functions_of_two_inputs();
        self.many_functions();
        self.alternation();
    }

    /// Encrypts every value with either library, bootstraps it with either library and a table of
    /// its own, and checks that both decrypt the table's value.
    fn fresh_ciphertexts(&self) {
        let mut random = Random::new(30);
        let values: Vec<u64> = (0..4 * self.values).map(|index| index % self.values).collect();
        let encrypted_by_them: Vec<_> = values.iter().map(|&value| self.theirs.unchecked_encrypt(value)).collect();
        let list = self.ours.encrypt::<u64>(self.set, &values, &mut Randomness::from_os().unwrap()).unwrap();
        let encrypted_by_us = shortint::ciphertexts_into_tfhe(self.set, &list, self.values - 1).unwrap();
        for ciphertexts in [encrypted_by_them, encrypted_by_us] {
            self.expect(&ciphertexts, &values);
            self.bootstrap_on_both_sides(&ciphertexts, &values, &mut random);
        }
    }

    /// Checks sums and multiples of bootstrapped ciphertexts, up to the set's largest noise level
    /// and degree.
    fn sums_and_multiples(&self) {
        let mut random = Random::new(31);
        let (mut ciphertexts, mut values) = (vec![], vec![]);
        for round in 0..24 {
            // The first rounds take a single multiple, the worst case that the level allows.
            let weights = if round < 4 { vec![self.max_noise_level] } else { self.weights(&mut random) };
            let messages = random.list_below(self.messages, weights.len());
            let messages = if round < 4 { vec![round % self.messages] } else { messages };
            let terms = self.bootstrapped(&messages);
            ciphertexts.push(self.combination(&weights, &terms));
            values.push(weights.iter().zip(&messages).map(|(weight, message)| weight * message).sum());
        }
        assert!(ciphertexts.iter().all(|ciphertext| ciphertext.noise_level().get() == self.max_noise_level));
        self.expect(&ciphertexts, &values);
        self.bootstrap_on_both_sides(&ciphertexts, &values, &mut random);
    }

    /// Random weights whose sum is the largest noise level.
    fn weights(&self, random: &mut Random) -> Vec<u64> {
        let mut weights = vec![];
        let mut left = self.max_noise_level;
        while left > 0 {
            weights.push(1 + random.below(left));
            left -= weights[weights.len() - 1];
        }
        weights
    }

    fn combination(&self, weights: &[u64], terms: &[Ciphertext]) -> Ciphertext {
        let scaled = weights.iter().zip(terms).map(|(&weight, term)| match weight {
            1 => term.clone(),
            _ => self.their_server.unchecked_scalar_mul(term, weight as u8),
        });
        scaled.reduce(|sum, term| self.their_server.unchecked_add(&sum, &term)).unwrap()
    }

    /// Encryptions with the noise of a bootstrap's output.
    fn bootstrapped(&self, messages: &[u64]) -> Vec<Ciphertext> {
        let fresh: Vec<_> = messages.iter().map(|&message| self.theirs.encrypt(message)).collect();
        let identity = Lut::from_fn(self.set, |value| value % self.messages).unwrap();
        self.our_bootstrap(&fresh, &vec![&identity; fresh.len()], self.messages - 1)
    }

    /// Checks a table of two inputs, packed as `left * messages + right`.
    fn functions_of_two_inputs(&self) {
        let mut random = Random::new(32);
        let table = random.list_below(self.values, (self.messages * self.messages) as usize);
        let function = |left: u64, right: u64| table[(left * self.messages + right) as usize];
        let inputs: Vec<_> =
            (0..self.messages * self.messages).map(|i| (i / self.messages, i % self.messages)).collect();
        let (lefts, rights): (Vec<_>, Vec<_>) = inputs.iter().copied().unzip();
        let (lefts, rights) = (self.bootstrapped(&lefts), self.bootstrapped(&rights));
        let expected: Vec<_> = inputs.iter().map(|&(left, right)| function(left, right)).collect();

        let ours = Lut::bivariate(self.set, self.messages, function).unwrap();
        let pairs = lefts.iter().zip(&rights);
        let packed: Vec<_> =
            pairs.clone().map(|(l, r)| self.combination(&[self.messages, 1], &[l.clone(), r.clone()])).collect();
        let results = self.our_bootstrap(&packed, &vec![&ours; packed.len()], self.values - 1);
        self.expect(&results, &expected);

        let theirs = self.their_server.generate_lookup_table_bivariate(function);
        let results: Vec<_> =
            pairs.map(|(l, r)| self.their_server.unchecked_apply_lookup_table_bivariate(l, r, &theirs)).collect();
        self.expect(&results, &expected);
    }

    /// Checks tables of several functions, in one batch with tables of one function.
    fn many_functions(&self) {
        let mut random = Random::new(33);
        let counts: Vec<u64> =
            [1, 2, 3, self.values / 2].into_iter().filter(|&count| count <= self.values / 2).collect();
        let tables: Vec<Vec<_>> = counts
            .iter()
            .map(|&count| (0..count).map(|_| random.list_below(self.values, self.values as usize)).collect())
            .collect();
        let functions: Vec<Vec<_>> = tables
            .iter()
            .map(|tables| tables.iter().map(|table| move |value: u64| table[value as usize]).collect())
            .collect();
        let functions: Vec<Vec<&dyn Fn(u64) -> u64>> =
            functions.iter().map(|row| row.iter().map(|function| function as _).collect()).collect();
        let luts: Vec<_> = functions.iter().map(|functions| Lut::from_fns(self.set, functions).unwrap()).collect();

        let lanes: Vec<_> = (0..48)
            .map(|lane| {
                let kind = lane % counts.len();
                (kind, random.below(self.values / counts[kind]))
            })
            .collect();
        let inputs: Vec<_> = lanes.iter().map(|&(_, value)| self.theirs.unchecked_encrypt(value)).collect();
        let expected: Vec<_> = lanes
            .iter()
            .flat_map(|&(kind, value)| functions[kind].iter().map(move |function| function(value)))
            .collect();
        let lane_luts: Vec<_> = lanes.iter().map(|&(kind, _)| &luts[kind]).collect();
        self.expect(&self.our_bootstrap(&inputs, &lane_luts, self.values - 1), &expected);

        let results: Vec<_> = lanes
            .iter()
            .zip(&inputs)
            .take(16)
            .flat_map(|(&(kind, _), input)| {
                let lut = self.their_server.generate_many_lookup_table(&functions[kind]);
                self.their_server.apply_many_lookup_table(input, &lut)
            })
            .collect();
        self.expect(&results, &expected[..results.len()]);
    }

    /// Alternates between the libraries: the output of each is the input of the other.
    fn alternation(&self) {
        let mut random = Random::new(34);
        let mut values = random.list_below(self.values, 8);
        let mut ciphertexts: Vec<_> = values.iter().map(|&value| self.theirs.unchecked_encrypt(value)).collect();
        for round in 0..6 {
            let table = random.list_below(self.values, self.values as usize);
            let function = |value: u64| table[value as usize];
            ciphertexts = if round % 2 == 0 {
                let lut = Lut::from_fn(self.set, function).unwrap();
                self.our_bootstrap(&ciphertexts, &vec![&lut; ciphertexts.len()], self.values - 1)
            } else {
                let lut = self.their_server.generate_lookup_table(function);
                ciphertexts.iter().map(|input| self.their_server.apply_lookup_table(input, &lut)).collect()
            };
            values = values.into_iter().map(function).collect();
        }
        self.expect(&ciphertexts, &values);
    }

    /// Bootstraps with a random table for each lane: all lanes with our server, every third with
    /// tfhe-rs.
    fn bootstrap_on_both_sides(&self, ciphertexts: &[Ciphertext], values: &[u64], random: &mut Random) {
        let tables: Vec<_> = values.iter().map(|_| random.list_below(self.values, self.values as usize)).collect();
        let luts: Vec<_> =
            tables.iter().map(|table| Lut::from_fn(self.set, |value| table[value as usize]).unwrap()).collect();
        let expected: Vec<_> = values.iter().zip(&tables).map(|(&value, table)| table[value as usize]).collect();
        let results = self.our_bootstrap(ciphertexts, &luts.iter().collect::<Vec<_>>(), self.values - 1);
        self.expect(&results, &expected);
        for ((input, table), expected) in ciphertexts.iter().zip(&tables).zip(expected).step_by(3) {
            let lut = self.their_server.generate_lookup_table(|value| table[value as usize]);
            self.expect(&[self.their_server.apply_lookup_table(input, &lut)], &[expected]);
        }
    }

    fn our_bootstrap(&self, inputs: &[Ciphertext], luts: &[&Lut<u64>], degree: u64) -> Vec<Ciphertext> {
        let inputs = shortint::ciphertexts_from_tfhe(self.set, inputs).unwrap();
        let count = luts.iter().map(|lut| lut.outputs().len()).sum();
        let mut outputs = LweList::zeros(self.set.input_dimension(), count);
        let mut scratches = [self.our_server.scratch(), self.our_server.scratch()];
        self.our_server.bootstrap(&inputs, luts, &mut outputs, &mut scratches).unwrap();
        shortint::ciphertexts_into_tfhe(self.set, &outputs, degree).unwrap()
    }

    /// Checks that both libraries decrypt `ciphertexts` to `values`.
    fn expect(&self, ciphertexts: &[Ciphertext], values: &[u64]) {
        let theirs: Vec<_> =
            ciphertexts.iter().map(|ciphertext| self.theirs.decrypt_message_and_carry(ciphertext)).collect();
        assert_eq!(theirs, values, "{}, decrypted by tfhe-rs", self.set.name);
        let list = shortint::ciphertexts_from_tfhe(self.set, ciphertexts).unwrap();
        assert_eq!(self.ours.decrypt(self.set, &list).unwrap(), values, "{}, decrypted by us", self.set.name);
    }
}
