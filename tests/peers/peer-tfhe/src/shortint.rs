//! Integer sets: key switch and bootstrap with a lookup table.

use tfhe::{
    core_crypto::prelude::{LweCiphertextOwned, ThreadCount},
    shortint::{
        CiphertextModulus, ClientKey, CompressedServerKey, ServerKey,
        atomic_pattern::{
            AtomicPatternServerKey,
            compressed::CompressedAtomicPatternServerKey::{KeySwitch32, Standard},
        },
        ciphertext::{Ciphertext, NoiseLevel},
        client_key::atomic_pattern::AtomicPatternClientKey,
        parameters::{AtomicPatternParameters, v1_8},
        server_key::{LookupTableOwned, ShortintBootstrappingKey, ShortintCompressedBootstrappingKey},
    },
};

use crate::{Peer, SecretKey, SeededKey, SeededPart, Words, aes_key, bits};

pub(crate) struct Subject {
    client: ClientKey,
    compressed: Option<CompressedServerKey>,
    server: ServerKey,
    lookup: LookupTableOwned,
    inputs: Vec<Ciphertext>,
    expected: Vec<u64>,
}

impl Subject {
    pub(crate) fn new(set: &str, table: &[u64], count: usize) -> Option<Self> {
        let client = ClientKey::new(parameters(set)?);
        let compressed = CompressedServerKey::new(&client);
        let server = compressed.decompress();
        Some(Self::with_keys(client, Some(compressed), server, table, count))
    }

    pub(crate) fn without_seeded_key(set: &str, table: &[u64], count: usize) -> Option<Self> {
        let client = ClientKey::new(parameters(set)?);
        let server = ServerKey::new(&client);
        Some(Self::with_keys(client, None, server, table, count))
    }

    fn with_keys(
        client: ClientKey,
        compressed: Option<CompressedServerKey>,
        mut server: ServerKey,
        table: &[u64],
        count: usize,
    ) -> Self {
        if let AtomicPatternServerKey::Standard(key) = &mut server.atomic_pattern
            && let ShortintBootstrappingKey::MultiBit { thread_count, .. } = &mut key.bootstrapping_key
        {
            // One thread prepares steps beside the caller's, which waits for each step. Together
            // they use one core.
            *thread_count = ThreadCount(1);
        }
        let values = table.len() as u64;
        let lookup = server.generate_lookup_table(|value| table[value as usize]);
        // The whole range of message and carry, in an unsorted order.
        let clear = (0..count as u64).map(|index| index * 7 % values);
        let inputs = clear.clone().map(|value| client.unchecked_encrypt(value)).collect();
        let expected = clear.map(|value| table[value as usize]).collect();
        Self { client, compressed, server, lookup, inputs, expected }
    }

    fn compressed(&self) -> &CompressedServerKey {
        self.compressed.as_ref().expect("this peer was made with a seeded key")
    }
}

impl Peer for Subject {
    fn secret_key(&self) -> SecretKey {
        match self.client.atomic_pattern.clone() {
            AtomicPatternClientKey::Standard(key) => {
                let (big, small, _, _) = key.into_raw_parts();
                SecretKey { big: bits(big.as_ref()), small: bits(small.as_ref()) }
            }
            AtomicPatternClientKey::KeySwitch32(key) => {
                let (big, small, _) = key.into_raw_parts();
                SecretKey { big: bits(big.as_ref()), small: bits(small.as_ref()) }
            }
        }
    }

    fn key(&self) -> SeededKey {
        match &self.compressed().compressed_ap_server_key {
            Standard(key) => {
                let key_switch = key.key_switching_key();
                SeededKey {
                    key_switch: SeededPart {
                        seed: aes_key(key_switch.compression_seed()),
                        bodies: Words::U64(key_switch.as_ref().to_vec()),
                    },
                    bootstrap: bootstrap(key.bootstrapping_key()),
                }
            }
            KeySwitch32(key) => {
                let key_switch = key.key_switching_key();
                SeededKey {
                    key_switch: SeededPart {
                        seed: aes_key(key_switch.compression_seed()),
                        bodies: Words::U32(key_switch.as_ref().to_vec()),
                    },
                    bootstrap: bootstrap(key.bootstrapping_key()),
                }
            }
        }
    }

    fn operands(&self) -> Vec<Words> {
        vec![words(&self.inputs)]
    }

    fn expected(&self) -> Vec<u64> {
        self.expected.clone()
    }

    fn compute(&self, index: usize) {
        drop(std::hint::black_box(self.server.apply_lookup_table(&self.inputs[index], &self.lookup)));
    }

    fn results(&self) -> Words {
        let apply = |input| self.server.apply_lookup_table(input, &self.lookup);
        words(&self.inputs.iter().map(apply).collect::<Vec<_>>())
    }

    fn decrypt(&self, results: &Words) -> Vec<u64> {
        let Words::U64(results) = results else { panic!("integers live in 64-bit words") };
        let like = &self.inputs[0];
        let decrypt = |words: &[u64]| {
            let words = LweCiphertextOwned::from_container(words.to_vec(), CiphertextModulus::new_native());
            let (message, carry) = (like.message_modulus, like.carry_modulus);
            let ciphertext =
                Ciphertext::new(words, like.degree, NoiseLevel::NOMINAL, message, carry, like.atomic_pattern);
            self.client.decrypt_message_and_carry(&ciphertext)
        };
        results.chunks_exact(like.ct.lwe_size().0).map(decrypt).collect()
    }

    fn generate_key(&self) -> Box<dyn std::any::Any> {
        Box::new(CompressedServerKey::new(&self.client))
    }

    fn expand_key(&self) -> Box<dyn std::any::Any> {
        Box::new(self.compressed().decompress())
    }
}

pub(crate) fn parameters(set: &str) -> Option<AtomicPatternParameters> {
    fn find<P: Copy + Into<AtomicPatternParameters>>(
        sets: &[(&P, &str)],
        set: &str,
    ) -> Option<AtomicPatternParameters> {
        sets.iter().find(|(_, name)| *name == set).map(|(parameters, _)| (**parameters).into())
    }
    find(&v1_8::VEC_ALL_CLASSIC_PBS_PARAMETERS, set)
        .or_else(|| find(&v1_8::VEC_ALL_MULTI_BIT_PBS_PARAMETERS, set))
        .or_else(|| find(&v1_8::VEC_ALL_KS32_PARAMETERS, set))
}

fn bootstrap<S: tfhe::core_crypto::prelude::UnsignedInteger>(
    key: &ShortintCompressedBootstrappingKey<S>,
) -> SeededPart {
    let (seed, bodies) = match key {
        ShortintCompressedBootstrappingKey::Classic { bsk, .. } => (bsk.compression_seed(), bsk.as_ref().to_vec()),
        ShortintCompressedBootstrappingKey::MultiBit { seeded_bsk, .. } => {
            (seeded_bsk.compression_seed(), seeded_bsk.as_ref().to_vec())
        }
    };
    SeededPart { seed: aes_key(seed), bodies: Words::U64(bodies) }
}

fn words(ciphertexts: &[Ciphertext]) -> Words {
    Words::U64(ciphertexts.iter().flat_map(|ciphertext| ciphertext.ct.as_ref()).copied().collect())
}
