//! Seeded lists and lists with shared masks equal those of tfhe-rs word for word.

use crate::common::*;
use cloakwork_params::{KeyId, ParameterSet};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness, encrypt_compact};
use cloakwork_tests_interop::{
    entity::{self, Word},
    parameters, shortint,
};
use cloakwork_tfhe::{CompactList, CompactPublicKey, SeededLweList};
use tfhe::shortint::{
    ClientKey as TheirClientKey, CompressedCompactPublicKey,
    parameters::{CompactPublicKeyEncryptionParameters, ShortintCompactCiphertextListCastingMode},
};

#[test]
fn seeded_lists_expand_to_the_same_words() {
    let mut random = Random::new(50);
    for (dimension, count) in [(1, 1), (805, 13), (2048, 7)] {
        seeded_list_agrees::<u64>(dimension, count, &mut random);
        seeded_list_agrees::<u32>(dimension, count, &mut random);
    }
}

fn seeded_list_agrees<T: Word>(dimension: usize, count: usize, random: &mut Random) {
    let list = SeededLweList::<T>::new(dimension, random.seed(), random.words(count)).unwrap();
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
        let ours = CompactList::new(dimension, masks, bodies).unwrap();
        let theirs = entity::compact_list_into_tfhe(&ours);
        assert_eq!(entity::compact_list_from_tfhe(theirs.clone()).unwrap(), ours);
        assert!(ours.expand().words() == theirs.expand_into_lwe_ciphertext_list().as_ref(), "{dimension} x {count}");
    }
}

#[test]
fn compact_public_keys_expand_to_the_same_words() {
    let mut random = Random::new(52);
    for dimension in [16, 2048] {
        let (mask_seed, body) = (random.seed(), random.words::<u64>(dimension));
        let ours = CompactPublicKey::new(mask_seed, body.clone()).unwrap();
        let theirs = entity::compact_public_key_into_tfhe(&ours);
        assert_eq!(entity::compact_public_key_from_tfhe(theirs.clone()).unwrap(), ours);
        assert!([ours.mask(), body].concat() == theirs.decompress_into_lwe_compact_public_key().into_container());
    }
}

/// Each library encrypts with a public key from either library, and both decrypt.
#[test]
fn compact_public_keys_of_either_library_encrypt_for_both() {
    let set = set(CLASSICAL_2_2);
    let theirs = TheirClientKey::new(parameters::shortint(set).unwrap());
    let (their_public, parameters) = CompressedCompactPublicKey::new(&theirs).into_raw_parts();
    let ours = shortint::client_key_from_tfhe(theirs.clone(), KeyId([7; 16])).unwrap();
    let generator = KeyGenerator::new(&ours, set).unwrap();
    let our_public = generator.compact_public_key(&mut Randomness::from_os().unwrap()).unwrap();
    for public in [entity::compact_public_key_from_tfhe(their_public).unwrap(), our_public] {
        encrypt_both_ways(set, &public, &ours, &theirs, parameters);
    }
}

fn encrypt_both_ways(
    set: &'static ParameterSet,
    public: &CompactPublicKey<u64>,
    ours: &ClientKey,
    theirs: &TheirClientKey,
    parameters: CompactPublicKeyEncryptionParameters,
) {
    // More messages than one mask serves.
    let messages = Random::new(54).list_below(4, set.input_dimension() + 5);
    let list = encrypt_compact(set, public, &messages, &mut Randomness::from_os().unwrap()).unwrap();
    let head = shortint::ciphertexts_into_tfhe(set, &list.expand_range(0..9), 3).unwrap();
    let decrypted: Vec<_> = head.iter().map(|ciphertext| theirs.decrypt_message_and_carry(ciphertext)).collect();
    assert_eq!(decrypted, messages[..9]);
    assert_eq!(ours.decrypt(set, &list.expand()).unwrap(), messages);

    let public = entity::compact_public_key_into_tfhe(public);
    let public = CompressedCompactPublicKey::from_raw_parts(public, parameters).decompress();
    let list = public.encrypt_slice(&messages);
    let head = list.expand(ShortintCompactCiphertextListCastingMode::NoCasting).unwrap();
    assert_eq!(theirs.decrypt(&head[7]), messages[7]);
    let list = entity::compact_list_from_tfhe(list.into_raw_parts().0).unwrap();
    assert_eq!(ours.decrypt(set, &list.expand()).unwrap(), messages);
}
