//! Boolean sets: NAND of two bits.

use tfhe::{
    boolean::{
        ciphertext::Ciphertext,
        client_key::ClientKey,
        parameters,
        server_key::{BinaryBooleanGates, CompressedServerKey, ServerKey},
    },
    core_crypto::prelude::{CiphertextModulus, LweCiphertextOwned},
};

use crate::{Peer, SecretKey, SeededKey, SeededPart, Words, aes_key, bits};

pub(crate) struct Subject {
    client: ClientKey,
    compressed: CompressedServerKey,
    server: ServerKey,
    left: Vec<Ciphertext>,
    right: Vec<Ciphertext>,
}

impl Subject {
    pub(crate) fn new(set: &str, count: usize) -> Option<Self> {
        let (_, parameters) = SETS.iter().find(|(name, _)| *name == set)?;
        let client = ClientKey::new(parameters);
        let compressed = CompressedServerKey::new(&client);
        let server = compressed.decompress();
        let encrypt = |operand| clear(count, operand).map(|bit| client.encrypt(bit)).collect();
        let (left, right) = (encrypt(0), encrypt(1));
        Some(Self { client, compressed, server, left, right })
    }
}

impl Peer for Subject {
    fn secret_key(&self) -> SecretKey {
        let (small, big, _) = self.client.clone().into_raw_parts();
        SecretKey { big: bits(big.as_ref()), small: bits(small.as_ref()) }
    }

    fn key(&self) -> SeededKey {
        let (bootstrap, key_switch, _) = self.compressed.clone().into_raw_parts();
        SeededKey {
            key_switch: SeededPart {
                seed: aes_key(key_switch.compression_seed()),
                bodies: Words::U32(key_switch.as_ref().to_vec()),
            },
            bootstrap: SeededPart {
                seed: aes_key(bootstrap.compression_seed()),
                bodies: Words::U32(bootstrap.as_ref().to_vec()),
            },
        }
    }

    fn operands(&self) -> Vec<Words> {
        vec![words(&self.left), words(&self.right)]
    }

    fn expected(&self) -> Vec<u64> {
        let count = self.left.len();
        clear(count, 0).zip(clear(count, 1)).map(|(left, right)| u64::from(!(left && right))).collect()
    }

    fn compute(&self, index: usize) {
        drop(std::hint::black_box(self.server.nand(&self.left[index], &self.right[index])));
    }

    fn results(&self) -> Words {
        let nand = |(left, right)| self.server.nand(left, right);
        words(&self.left.iter().zip(&self.right).map(nand).collect::<Vec<_>>())
    }

    fn decrypt(&self, results: &Words) -> Vec<u64> {
        let Words::U32(results) = results else { panic!("bits live in 32-bit words") };
        let decrypt = |words: &[u32]| {
            let words = LweCiphertextOwned::from_container(words.to_vec(), CiphertextModulus::new_native());
            u64::from(self.client.decrypt(&Ciphertext::Encrypted(words)))
        };
        results.chunks_exact(encrypted(&self.left[0]).lwe_size().0).map(decrypt).collect()
    }

    fn generate_key(&self) -> Box<dyn std::any::Any> {
        Box::new(CompressedServerKey::new(&self.client))
    }

    fn expand_key(&self) -> Box<dyn std::any::Any> {
        Box::new(self.compressed.decompress())
    }
}

/// Operands that take all four pairs of bits in turn.
fn clear(count: usize, operand: usize) -> impl Iterator<Item = bool> {
    (0..count).map(move |index| index >> operand & 1 == 1)
}

fn words(ciphertexts: &[Ciphertext]) -> Words {
    Words::U32(ciphertexts.iter().flat_map(|ciphertext| encrypted(ciphertext).as_ref()).copied().collect())
}

fn encrypted(ciphertext: &Ciphertext) -> &LweCiphertextOwned<u32> {
    let Ciphertext::Encrypted(ciphertext) = ciphertext else { panic!("a bit under a key is never trivial") };
    ciphertext
}

const SETS: [(&str, parameters::BooleanParameters); 5] = [
    ("DEFAULT_PARAMETERS", parameters::DEFAULT_PARAMETERS),
    ("DEFAULT_PARAMETERS_KS_PBS", parameters::DEFAULT_PARAMETERS_KS_PBS),
    ("PARAMETERS_ERROR_PROB_2_POW_MINUS_165", parameters::PARAMETERS_ERROR_PROB_2_POW_MINUS_165),
    ("PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS", parameters::PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS),
    ("TFHE_LIB_PARAMETERS", parameters::TFHE_LIB_PARAMETERS),
];
