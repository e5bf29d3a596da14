//! Products of polynomials by our transform equal those by another library's transform.

use cloakwork_math::{
    modulus::Modulus,
    ntt::Ntt,
    pointwise::Pointwise,
    random::{MaskSeed, MaskStream},
    simd::Level,
};
use cloakwork_params::ckks::CKKS_SETS;

#[test]
fn products_equal_those_of_another_library() {
    for set in CKKS_SETS {
        for prime in set.chain.iter().chain(set.special) {
            let modulus = Modulus::new(*prime).expect("a prime");
            let uniform = |key: u128| {
                let mut words = vec![0_u64; set.size()];
                MaskStream::new(&MaskSeed { key, block: 0, byte: 0 }).fill(64, &mut words);
                words.iter().map(|word| modulus.reduce(*word)).collect::<Vec<u64>>()
            };
            let (a, b) = (uniform(1), uniform(2));
            let theirs = tfhe_ntt::prime64::Plan::try_new(set.size(), *prime).expect("a plan");
            let (mut expected, mut other) = (a.clone(), b.clone());
            theirs.fwd(&mut expected);
            theirs.fwd(&mut other);
            theirs.mul_assign_normalize(&mut expected, &other);
            theirs.inv(&mut expected);
            for level in Level::available() {
                let ours = Ntt::with_level(modulus, set.size_log2, level).expect("a transform");
                let (mut product, mut other) = (a.clone(), b.clone());
                ours.forward(&mut [&mut product, &mut other]);
                Pointwise::with_level(modulus, level).multiply(&mut product, &other);
                ours.inverse(&mut [&mut product]);
                assert!(product == expected, "{prime:#x} on {}", ours.arithmetic_name());
            }
        }
    }
}
