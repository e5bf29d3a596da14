//! Packing and list compression: both libraries compute the same words, and keys of either read the
//! lists.

use crate::common::*;
use cloakwork_params::{CompressionSet, ParameterSet, table};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tests_interop::{compression, parameters, shortint};
use cloakwork_tfhe::{
    CompressedList, CompressionKey, DecompressionKey, LweList, SeededDecompressionKey, SeededPackingKey,
    packing::{self, pack},
};
use tfhe::{
    core_crypto::prelude::{compressed_modulus_switched_glwe_ciphertext::CompressedModulusSwitchedGlweCiphertext, *},
    shortint::{
        ClientKey as TheirClientKey,
        list_compression::{CompressionKey as TheirCompressionKey, DecompressionKey as TheirDecompressionKey},
        parameters::v1_8,
    },
};

/// A secret with its compression keys, in both libraries.
struct Pair {
    set: &'static CompressionSet,
    parameter_set: &'static ParameterSet,
    client: TheirClientKey,
    ours: CompressionKey,
    our_decompression: DecompressionKey,
    theirs: TheirCompressionKey,
    their_decompression: TheirDecompressionKey,
}

impl Pair {
    fn made_by_tfhe(set: &'static CompressionSet, parameter_set: &'static ParameterSet) -> Self {
        let client = TheirClientKey::new(parameters::shortint(parameter_set).unwrap());
        let secret = client.new_compression_private_key(compression::parameters(set));
        let back = compression::secret_into_tfhe(set, &compression::secret_from_tfhe(set, &secret).unwrap());
        assert!(back.post_packing_ks_key == secret.post_packing_ks_key, "{}: the way back", set.name);
        let (packing, decompression) = client.new_compressed_compression_decompression_keys(&secret);
        let our_packing = compression::packing_key_from_tfhe(set, packing.clone()).unwrap();
        let back = compression::packing_key_into_tfhe(set, &our_packing).packing_key_switching_key;
        assert!(back == packing.packing_key_switching_key, "{}: the way back", set.name);
        let our_decompression = compression::decompression_key_from_tfhe(set, decompression.clone()).unwrap();
        let back = compression::decompression_key_into_tfhe(set, &our_decompression).into_raw_parts();
        assert!(back == decompression.into_raw_parts(), "{}: the way back", set.name);
        Self::new(set, parameter_set, client, &our_packing, &our_decompression)
    }

    fn made_by_us(set: &'static CompressionSet, parameter_set: &'static ParameterSet) -> Self {
        let mut randomness = Randomness::from_os().unwrap();
        let mut client = ClientKey::generate(parameter_set, &mut randomness).unwrap();
        client.add_compression(set, &mut randomness).unwrap();
        let generator = KeyGenerator::new(&client, parameter_set).unwrap();
        let packing = generator.packing_key(set, &mut randomness).unwrap();
        let decompression = generator.decompression_key(set, &mut randomness).unwrap();
        let theirs = shortint::client_key_into_tfhe(&client, parameter_set).unwrap();
        Self::new(set, parameter_set, theirs, &packing, &decompression)
    }

    fn new(
        set: &'static CompressionSet,
        parameter_set: &'static ParameterSet,
        client: TheirClientKey,
        packing: &SeededPackingKey<u64>,
        decompression: &SeededDecompressionKey,
    ) -> Self {
        let pair = Self {
            set,
            parameter_set,
            client,
            ours: CompressionKey::expand(set, parameter_set, packing, 2).unwrap(),
            our_decompression: DecompressionKey::expand(set, parameter_set, decompression, 2).unwrap(),
            theirs: compression::packing_key_into_tfhe(set, packing).decompress(),
            their_decompression: compression::decompression_key_into_tfhe(set, decompression).decompress(),
        };
        let (ours, theirs) = (pair.ours.packing_key().matrix(), &pair.theirs.packing_key_switching_key);
        assert!(same_words(ours, theirs.as_ref()), "{}: expanded keys differ", set.name);
        pair
    }

    /// Compares packs of random words, and of words that are all ties of the decomposition.
    fn packs_agree(&self) {
        let mut random = Random::new(60);
        let words = self.parameter_set.big_dimension() + 1;
        let edges: Vec<u64> = gadget_edges(self.set.packing);
        for count in [1, 2, self.set.lwe_per_glwe / 8] {
            let mut inputs = random.words::<u64>(count * words);
            for word in &mut inputs[..words] {
                *word = edges[random.below(edges.len() as u64) as usize];
            }
            let mut ours = vec![0; self.ours.packing_key().glwe_words()];
            pack(self.ours.packing_key(), &inputs, &mut ours, &mut packing::Scratch::default()).unwrap();
            assert!(ours == self.their_pack(&inputs).as_ref(), "{}, {count} ciphertexts", self.set.name);
        }
    }

    fn their_pack(&self, ciphertexts: &[u64]) -> GlweCiphertextOwned<u64> {
        let key = &self.theirs.packing_key_switching_key;
        let (size, modulus) = (key.input_key_lwe_dimension().to_lwe_size(), CiphertextModulus::new_native());
        let list = LweCiphertextList::from_container(ciphertexts, size, modulus);
        let mut glwe = GlweCiphertext::new(0, key.output_glwe_size(), key.output_polynomial_size(), modulus);
        par_keyswitch_lwe_ciphertext_list_and_pack_in_glwe_ciphertext(key, &list, &mut glwe);
        glwe
    }

    /// Compares a full pack with a part of another: both libraries store the same words, and both
    /// read them back.
    fn lists_agree(&self) {
        let mut random = Random::new(61);
        let modulus = self.client.parameters().message_modulus().0;
        let messages = random.list_below(modulus, self.set.lwe_per_glwe + 19);
        let ciphertexts: Vec<_> = messages.iter().map(|&message| self.client.encrypt(message)).collect();
        let list = shortint::ciphertexts_from_tfhe(self.parameter_set, &ciphertexts).unwrap();
        let ours = self.ours.compress(&list, &mut packing::Scratch::default()).unwrap();
        assert!(ours == self.their_list(&list, modulus), "{}", self.set.name);

        let last = messages.len() - 1;
        let indices: Vec<_> = (0..messages.len()).step_by(11).chain([last, self.set.lwe_per_glwe, 0]).collect();
        let expected: Vec<_> = indices.iter().map(|&index| messages[index]).collect();
        let mut outputs = LweList::zeros(self.parameter_set.big_dimension(), indices.len());
        let mut scratches = [self.our_decompression.scratch(), self.our_decompression.scratch()];
        self.our_decompression.decompress(&ours, &indices, &mut outputs, &mut scratches).unwrap();
        let outputs = shortint::ciphertexts_into_tfhe(self.parameter_set, &outputs, modulus - 1).unwrap();
        self.expect(&outputs, &expected);

        let theirs = self.theirs.compress_ciphertexts_into_list(&ciphertexts);
        let outputs: Vec<_> =
            indices.iter().map(|&index| self.their_decompression.unpack(&theirs, index).unwrap()).collect();
        self.expect(&outputs, &expected);
    }

    /// Builds the list that tfhe-rs stores from its parts, because the list type itself hides its
    /// words.
    fn their_list(&self, list: &LweList<u64>, modulus: u64) -> CompressedList {
        let raised: Vec<_> = list.words().iter().map(|word| word.wrapping_mul(modulus)).collect();
        let words = list.dimension() + 1;
        let packs = raised.chunks(self.set.lwe_per_glwe * words).flat_map(|ciphertexts| {
            let log2 = CiphertextModulusLog(self.set.storage_modulus_log2 as usize);
            let count = LweCiphertextCount(ciphertexts.len() / words);
            let pack = CompressedModulusSwitchedGlweCiphertext::compress(&self.their_pack(ciphertexts), log2, count);
            pack.packed_integers().packed_coeffs().to_vec()
        });
        CompressedList::from_words(self.set, list.len(), packs.collect()).unwrap()
    }

    fn expect(&self, ciphertexts: &[tfhe::shortint::Ciphertext], messages: &[u64]) {
        let got: Vec<_> =
            ciphertexts.iter().map(|ciphertext| self.client.decrypt_message_and_carry(ciphertext)).collect();
        assert_eq!(got, messages, "{}", self.set.name);
    }
}

/// The published sets, each with the first parameter set that it serves.
fn sets() -> impl Iterator<Item = (&'static CompressionSet, &'static ParameterSet)> {
    let published = table::COMPRESSION_SETS.iter().filter(|set| set.name.starts_with("V1_8"));
    published.map(|set| (set, table::find(set.parameter_sets[0]).unwrap()))
}

#[test]
fn packs_and_lists_agree_under_keys_of_tfhe_rs() {
    for (set, parameter_set) in sets() {
        let pair = Pair::made_by_tfhe(set, parameter_set);
        pair.packs_agree();
        pair.lists_agree();
    }
}

#[test]
fn lists_agree_under_keys_of_our_library() {
    for (set, parameter_set) in sets() {
        Pair::made_by_us(set, parameter_set).lists_agree();
    }
}

#[test]
fn compression_sets_equal_those_of_tfhe_rs() {
    for (theirs, name) in v1_8::VEC_ALL_COMPRESSION_PARAMETERS {
        if let Some(set) = table::COMPRESSION_SETS.iter().find(|set| set.name == name) {
            assert_eq!(compression::parameters(set), *theirs, "{name}");
        } else {
            assert!(name.contains("MULTI_BIT"), "{name} is missing");
        }
    }
    assert_eq!(sets().count(), 2);
}
