//! Lists: seeded, and with shared masks, all of them word for word those of tfhe-rs.

#![allow(clippy::unwrap_used)]

mod common;

use cloakwork_tests_interop::{
    entity::{self, Word},
    seed,
};
use cloakwork_tfhe::{CompactList, CompactPublicKey, SeededLweList};
use common::*;
use tfhe::core_crypto::prelude::*;

#[test]
fn seeded_lists_expand_to_the_same_words() {
    let mut random = Random::new(50);
    for (dimension, count) in [(1, 1), (805, 13), (2048, 7)] {
        seeded_list_agrees::<u64>(dimension, count, &mut random);
        seeded_list_agrees::<u32>(dimension, count, &mut random);
    }
}

fn seeded_list_agrees<T: Word>(dimension: usize, count: usize, random: &mut Random) {
    let list = SeededLweList::<T>::new(dimension, random.seed(), random.words(count));
    let theirs = entity::seeded_lwe_list_into_tfhe(&list);
    assert_eq!(entity::seeded_lwe_list_from_tfhe(theirs.clone()).unwrap(), list);
    assert!(list.expand().words() == theirs.decompress_into_lwe_ciphertext_list().as_ref(), "{dimension} x {count}");
}

#[test]
fn compact_lists_expand_to_the_same_words() {
    let mut random = Random::new(51);
    for (dimension, count) in [(1_usize, 3_usize), (16, 1), (16, 16), (16, 35), (2048, 3)] {
        let masks = random.words::<u64>(count.next_multiple_of(dimension));
        let bodies = random.words::<u64>(count);
        let ours = CompactList::new(dimension, masks.clone(), bodies.clone()).unwrap();
        let size = LweDimension(dimension).to_lwe_size();
        let theirs = LweCompactCiphertextList::from_container(
            [masks, bodies].concat(),
            size,
            LweCiphertextCount(count),
            CiphertextModulus::new_native(),
        );
        assert!(ours.expand().words() == theirs.expand_into_lwe_ciphertext_list().as_ref(), "{dimension} x {count}");
    }
}

#[test]
fn compact_public_keys_expand_to_the_same_words() {
    let mut random = Random::new(52);
    for dimension in [16, 2048] {
        let (mask_seed, body) = (random.seed(), random.words::<u64>(dimension));
        let ours = CompactPublicKey::new(mask_seed, body.clone()).unwrap();
        let theirs = SeededLweCompactPublicKey::from_container(
            body.clone(),
            seed::into_tfhe(&mask_seed),
            CiphertextModulus::new_native(),
        );
        assert!([ours.mask(), body].concat() == theirs.decompress_into_lwe_compact_public_key().into_container());
    }
}
