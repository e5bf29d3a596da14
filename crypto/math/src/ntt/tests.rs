use proptest::prelude::*;

use super::*;
use crate::random::{MaskSeed, MaskStream};

/// Primes of every width with an arithmetic of its own, 1 modulo 2^18.
fn moduli() -> Vec<Modulus> {
    [20_u32, 31, 40, 45, 47, 49, 50, 51, 54, 57, 59, 60]
        .into_iter()
        .map(|bits| (1..).map(|k| (1_u64 << bits) + 1 - (k << 18)).find_map(Modulus::new).expect("a prime"))
        .chain([Modulus::new(0x1000_0000_006e_0001).expect("a prime")])
        .collect()
}

fn uniform(modulus: Modulus, seed: u128, len: usize) -> Vec<u64> {
    let mut words = vec![0_u64; len];
    MaskStream::new(&MaskSeed { key: seed, block: 0, byte: 0 }).fill(64, &mut words);
    words.into_iter().map(|word| modulus.reduce(word)).collect()
}

fn transforms(modulus: Modulus, size_log2: u32) -> Vec<Ntt> {
    let mut found: Vec<Ntt> = Vec::new();
    for arithmetic in Level::available().into_iter().flat_map(|level| Arithmetic::all(level, modulus)) {
        if found.iter().all(|ntt| ntt.arithmetic != arithmetic) {
            found.push(Ntt::with_arithmetic(modulus, size_log2, arithmetic).expect("the prime has the roots"));
        }
    }
    found
}

/// Value i by its definition.
fn value_at(modulus: Modulus, size_log2: u32, polynomial: &[u64], index: usize) -> u64 {
    let root = modulus.least_root_of_unity(2 << size_log2).expect("the prime has the roots");
    let reversed = index.reverse_bits() >> (usize::BITS - size_log2);
    let point = modulus.pow(root, 2 * reversed as u64 + 1);
    polynomial.iter().rev().fold(0, |sum, word| modulus.add(modulus.mul(sum, point), *word))
}

#[test]
fn values_match_the_definition_on_every_arithmetic() {
    for modulus in moduli() {
        for size_log2 in [7, 8, 9, 10, 11, 12, 13, 16] {
            let polynomial = uniform(modulus, 1, 1 << size_log2);
            let mut seen: Option<Vec<u64>> = None;
            for ntt in transforms(modulus, size_log2) {
                let mut values = polynomial.clone();
                ntt.forward(&mut [&mut values]);
                assert!(values.iter().all(|value| *value < modulus.value()));
                let seen = seen.get_or_insert_with(|| values.clone());
                assert!(*seen == values, "{} of {} {size_log2}", ntt.arithmetic_name(), modulus.value());
                for index in [0, 1, 2, 63, 64, 77, (1 << size_log2) - 1] {
                    assert_eq!(values[index], value_at(modulus, size_log2, &polynomial, index), "value {index}");
                }
                ntt.inverse(&mut [&mut values]);
                assert!(values == polynomial, "{} of {} {size_log2}", ntt.arithmetic_name(), modulus.value());
            }
        }
    }
}

#[test]
fn the_greatest_residues_do_not_overflow() {
    for modulus in moduli() {
        for ntt in transforms(modulus, 12) {
            for polynomial in [vec![modulus.value() - 1; 4096], vec![0; 4096]] {
                let mut values = polynomial.clone();
                ntt.forward(&mut [&mut values]);
                assert_eq!(values[5], value_at(modulus, 12, &polynomial, 5));
                ntt.inverse(&mut [&mut values]);
                assert_eq!(values, polynomial);
            }
        }
    }
}

#[test]
fn products_of_values_are_negacyclic_products() {
    let modulus = moduli()[3];
    let ntt = Ntt::new(modulus, 7).expect("the prime has the roots");
    let [mut a, mut b] = [1, 2].map(|seed| uniform(modulus, seed, 128));
    let mut expected = vec![0; 128];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            let product = modulus.mul(*a, *b);
            let term = if i + j < 128 { product } else { modulus.neg(product) };
            expected[(i + j) % 128] = modulus.add(expected[(i + j) % 128], term);
        }
    }
    ntt.forward(&mut [&mut a, &mut b]);
    let mut product: Vec<u64> = a.iter().zip(&b).map(|(a, b)| modulus.mul(*a, *b)).collect();
    ntt.inverse(&mut [&mut product]);
    assert_eq!(product, expected);
}

#[test]
fn the_inverse_can_write_elsewhere_and_keep_the_values() {
    for (modulus, size_log2) in moduli().into_iter().zip([7, 10, 11].into_iter().cycle()) {
        for ntt in transforms(modulus, size_log2) {
            let all = [4, 5].map(|seed| uniform(modulus, seed, 1 << size_log2));
            let mut expected = all.clone();
            ntt.inverse(&mut expected.each_mut().map(|values| &mut values[..]));
            let mut elsewhere = [vec![1; 1 << size_log2], vec![2; 1 << size_log2]];
            let values = all.each_ref().map(|values| &values[..]);
            ntt.inverse_times_of(modulus.factor(1), &values, &mut elsewhere.each_mut().map(|words| &mut words[..]));
            assert!(elsewhere == expected, "{} of {}", ntt.arithmetic_name(), modulus.value());
        }
    }
}

#[test]
fn the_inverse_multiplies_by_a_factor() {
    let modulus = moduli()[8];
    for ntt in transforms(modulus, 9) {
        let polynomial = uniform(modulus, 3, 512);
        let factor = modulus.factor(12345);
        let mut values = polynomial.clone();
        ntt.forward(&mut [&mut values]);
        ntt.inverse_times(factor, &mut [&mut values]);
        let expected: Vec<u64> = polynomial.iter().map(|word| factor.times(*word)).collect();
        assert_eq!(values, expected);
    }
}

#[test]
fn automorphisms_of_values_match_those_of_coefficients() {
    let modulus = moduli()[4];
    for size_log2 in [7, 8, 11, 16] {
        let size = 1_usize << size_log2;
        let ntt = Ntt::new(modulus, size_log2).expect("the prime has the roots");
        let polynomial = uniform(modulus, 4, size);
        let mut values = polynomial.clone();
        ntt.forward(&mut [&mut values]);
        for power in [1, 3, 5, 25, 2 * size - 1, size + 1, 77] {
            let mut expected = vec![0; size];
            for (index, word) in polynomial.iter().enumerate() {
                let to = index * power % (2 * size);
                expected[to % size] = if to < size { *word } else { modulus.neg(*word) };
            }
            ntt.forward(&mut [&mut expected]);
            for level in Level::available() {
                let automorphism = Automorphism::with_level(power, size_log2, level);
                // Move the values in parts, each to its target, at once or half by half.
                for (count, steps) in [(1, 1), (1, 2), (4, 1), (8, 2)] {
                    let (mut moved, len) = (vec![0; size], size / count);
                    for first in (0..size).step_by(len).rev() {
                        let to = &mut moved[automorphism.target(first, len)..][..len];
                        for (step, values) in values[first..][..len].chunks(len / steps).enumerate() {
                            automorphism.apply_part(first + step * len / steps, values, to);
                        }
                    }
                    assert!(moved == expected, "X^{power} of 2^{size_log2} in {count} parts");
                }
            }
        }
    }
}

#[test]
fn primes_without_roots_and_unsupported_sizes_are_refused() {
    let modulus = Modulus::new(0x1fff_ffc2_0001).expect("a prime");
    assert!(Ntt::new(modulus, 16).is_some());
    assert!(Ntt::new(modulus, 6).is_none() && Ntt::new(modulus, 18).is_none());
    assert!(Ntt::new(Modulus::new(1_000_000_007).expect("a prime"), 10).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn batches_match_single_transforms(which in 0..13_usize, size_log2 in 7_u32..=14, count in 0..5_usize, seed: u128) {
        let modulus = moduli()[which];
        for ntt in transforms(modulus, size_log2) {
            let mut together: Vec<Vec<u64>> =
                (0..count).map(|at| uniform(modulus, seed ^ at as u128, 1 << size_log2)).collect();
            let mut apart = together.clone();
            ntt.forward(&mut together.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
            apart.iter_mut().for_each(|one| {
                ntt.start(&mut [one]);
                for (part, words) in one.chunks_mut(PART).enumerate() {
                    ntt.finish(part * PART, &mut [words]);
                }
            });
            prop_assert!(together == apart);
            ntt.inverse(&mut together.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
            apart.iter_mut().for_each(|one| ntt.inverse(&mut [one]));
            prop_assert!(together == apart);
        }
    }
}
