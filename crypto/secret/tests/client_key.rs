//! The client key: one big key, several small ones, and no secret in its printed form.

use crate::common::*;
use cloakwork_params::{KeyId, table};
use cloakwork_secret::{ClientKey, GlweSecretKey, KeyGenerator, LweSecretKey, Randomness, SecretError};
use cloakwork_tfhe::LweList;

#[test]
fn sets_of_one_family_share_the_big_key() {
    let mut randomness = Randomness::insecure_for_tests(1);
    let mut client = ClientKey::generate(set(CLASSICAL_2_2), &mut randomness).unwrap();
    let others = [
        set(KS32_2_2),
        set_like(&["GROUP_3", "MESSAGE_2_CARRY_2", "TUNIFORM"]),
        set_like(&["GROUP_4", "MESSAGE_2_CARRY_2", "TUNIFORM"]),
        set_like(&["HPU", "KS32"]),
    ];
    for other in others {
        client.add(other, &mut randomness).unwrap();
        assert_eq!(client.small(other).unwrap().dimension(), other.lwe_dimension);
    }
    assert_eq!(client.sets().count(), 5);
    // A ciphertext made for one set decrypts under any other.
    let list: LweList<u64> = client.encrypt(set(CLASSICAL_2_2), &[7], &mut randomness).unwrap();
    assert_eq!(client.decrypt(set(KS32_2_2), &list).unwrap(), [7]);
    // The small keys are unrelated.
    let (one, two) = (client.small(set(CLASSICAL_2_2)).unwrap(), client.small(set(KS32_2_2)).unwrap());
    let same = one.bits().iter().zip(two.bits()).filter(|(one, two)| one == two).count();
    assert!((300..620).contains(&same), "{same} of 918 bits agree");
}

#[test]
fn another_family_is_refused_with_the_reason() {
    let mut randomness = Randomness::insecure_for_tests(2);
    let mut client = ClientKey::generate(set(CLASSICAL_2_2), &mut randomness).unwrap();
    for (name, what) in [
        ("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", "the GLWE noise"),
        ("V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", "the GLWE dimension"),
        ("V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128", "the polynomial size"),
        ("V1_8_PARAM_GPU_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", "the encoding"),
        ("DEFAULT_PARAMETERS", "the torus"),
    ] {
        let got = set(name).name;
        let refused = client.add(set(name), &mut randomness).unwrap_err();
        assert_eq!(refused, SecretError::OtherFamily { expected: CLASSICAL_2_2, got, what });
    }
    let again = client.add(set(CLASSICAL_2_2), &mut randomness).unwrap_err();
    assert_eq!(again, SecretError::SetAlreadyInKey { set: CLASSICAL_2_2 });
    let absent = KeyGenerator::new(&client, set(KS32_2_2)).err();
    assert_eq!(absent, Some(SecretError::SetNotInKey { set: set(KS32_2_2).name }));
    assert_eq!(client.sets().count(), 1);
}

/// The two sets differ only in the order. The ciphertexts of one set are under a key that the other
/// set does not have.
#[test]
fn a_set_with_ciphertexts_under_the_small_key_shares_no_big_key() {
    let sets = [set("DEFAULT_PARAMETERS"), set("DEFAULT_PARAMETERS_KS_PBS")];
    let shape = sets.map(|set| (set.torus, set.glwe_dimension, set.polynomial_size, set.glwe_noise));
    assert_eq!(shape[0], shape[1]);
    for [first, other] in [sets, [sets[1], sets[0]]] {
        let mut randomness = Randomness::insecure_for_tests(4);
        let mut client = ClientKey::generate(first, &mut randomness).unwrap();
        let what = "the key that ciphertexts live under";
        let refused = client.add(other, &mut randomness).unwrap_err();
        assert_eq!(refused, SecretError::OtherFamily { expected: first.name, got: other.name, what });
        let again = client.add(first, &mut randomness).unwrap_err();
        assert_eq!(again, SecretError::SetAlreadyInKey { set: first.name });
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let toy = set("TOY_MESSAGE_2_CARRY_2");
    let small = || LweSecretKey::from_bits(vec![1; toy.lwe_dimension]).unwrap();
    let big = |size| GlweSecretKey::from_bits(size, vec![0; toy.polynomial_size]).unwrap();
    assert!(ClientKey::from_parts(KeyId([1; 16]), toy, big(toy.polynomial_size), small()).is_ok());
    let nameless = ClientKey::from_parts(KeyId::NONE, toy, big(toy.polynomial_size), small()).err();
    assert_eq!(nameless, Some(SecretError::Nameless));
    assert!(ClientKey::from_parts(KeyId([1; 16]), toy, big(toy.polynomial_size / 2), small()).is_err());
    let short = LweSecretKey::from_bits(vec![1; toy.lwe_dimension - 1]).unwrap();
    assert!(ClientKey::from_parts(KeyId([1; 16]), toy, big(toy.polynomial_size), short).is_err());
    assert_eq!(LweSecretKey::from_bits(vec![0, 1, 2]).unwrap_err(), SecretError::NotABit { index: 2 });
    assert!(GlweSecretKey::from_bits(48, vec![0; 96]).is_err());
    assert!(GlweSecretKey::from_bits(64, vec![0; 96]).is_err());
    assert!(GlweSecretKey::from_bits(0, vec![]).is_err());
    assert!(GlweSecretKey::from_bits(1, vec![0, 1]).is_err());
    assert!(GlweSecretKey::from_bits(1 << 21, vec![0; 1 << 21]).is_err());
    assert!(GlweSecretKey::from_bits(64, vec![]).is_err());
}

#[test]
fn glwe_keys_are_limited_to_shapes_with_exact_products() {
    let mut randomness = Randomness::insecure_for_tests(5);
    for (glwe_dimension, size, good) in [
        (1, 2, true),
        (4, 1 << 16, true),
        (0, 1024, false),
        (5, 1024, false),
        (1 << 12, 2, false),
        (1, 0, false),
        (1, 1, false),
        (1, 48, false),
        (1, 1 << 17, false),
        (usize::MAX, usize::MAX, false),
    ] {
        let made = GlweSecretKey::generate(glwe_dimension, size, randomness.secret());
        assert_eq!(made.is_ok(), good, "{glwe_dimension} x {size}");
        if let Some(words) = glwe_dimension.checked_mul(size).filter(|words| *words < 1 << 20) {
            let moved = GlweSecretKey::from_bits(size, vec![1; words]);
            assert_eq!(moved.is_ok(), good, "{glwe_dimension} x {size}");
        }
    }
}

#[test]
fn too_large_messages_are_refused_and_not_disclosed() {
    let mut randomness = Randomness::insecure_for_tests(3);
    let client = ClientKey::generate(set("TOY_MESSAGE_2_CARRY_2"), &mut randomness).unwrap();
    let refused = client.encrypt::<u64>(set("TOY_MESSAGE_2_CARRY_2"), &[3, 12345], &mut randomness).unwrap_err();
    assert_eq!(refused.to_string(), "the message at index 1 is too large: TOY_MESSAGE_2_CARRY_2 encodes 0 to 15");
    assert!(client.encrypt::<u32>(set("TOY_MESSAGE_2_CARRY_2"), &[3], &mut randomness).is_err());
    let small = client.small(set("TOY_MESSAGE_2_CARRY_2")).unwrap();
    for words in [0, small.dimension(), small.dimension() + 2] {
        let refused = small.phase(&vec![0_u64; words]).unwrap_err();
        assert_eq!((refused.expected, refused.got), (small.dimension() + 1, words));
    }
    let words = 2 * client.big().bits().len();
    assert!(client.big().phases(&vec![0_u64; words]).is_ok());
    assert!(client.big().phases(&vec![0_u64; words + 1]).is_err());
    let foreign = LweList::<u64>::zeros(77, 1);
    assert!(client.decrypt(set("TOY_MESSAGE_2_CARRY_2"), &foreign).is_err());
}

/// The output for all keys is equal except for the public identifier.
#[test]
fn debug_output_has_no_secret() {
    let compression = table::compression_for(set(CLASSICAL_2_2)).unwrap();
    let print = |seed| {
        let mut randomness = Randomness::insecure_parts_for_tests(seed, 9);
        let mut client = ClientKey::generate(set(CLASSICAL_2_2), &mut randomness).unwrap();
        client.add_compression(compression, &mut randomness).unwrap();
        let small = client.small(set(CLASSICAL_2_2)).unwrap();
        let packing = client.packing(compression).unwrap();
        (format!("{client:?} {:?} {small:?} {packing:?}", client.big()), client.key_id(), small.bits().to_vec())
    };
    let ((first, key_id, bits), (second, _, other_bits)) = (print(1), print(2));
    assert_ne!(bits, other_bits);
    assert_eq!(first, second);
    let expected = format!("ClientKey({key_id}) GlweSecretKey(1 x 2048 bits) LweSecretKey(918 bits) ");
    assert_eq!(first, expected + "GlweSecretKey(4 x 256 bits)");
}
