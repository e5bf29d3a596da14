//! Slow and obvious reference implementations for comparison with the library.

mod errors;
mod ggsw;

use cloakwork_math::{
    Torus, decomposition,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::{Decomposition, Noise, ParameterSet, table};
pub(crate) use errors::Errors;
pub(crate) use ggsw::check_ggsws;

pub(crate) fn set(name: &str) -> &'static ParameterSet {
    table::by_name(name).unwrap_or_else(|| panic!("no set named {name}"))
}

pub(crate) const CLASSICAL_2_2: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
pub(crate) const KS32_2_2: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128";

/// The first set whose name has all `parts`.
pub(crate) fn set_like(parts: &[&str]) -> &'static ParameterSet {
    table::SETS
        .iter()
        .find(|set| parts.iter().all(|part| set.name.contains(part)))
        .unwrap_or_else(|| panic!("no set with {parts:?} in its name"))
}

/// Largest error of a correct sampler. The bound is exact for TUniform. A normal value exceeds 9
/// standard deviations with probability 2^-62.
pub(crate) fn noise_limit<T: Torus>(noise: Noise, modulus_log2: u32) -> i64 {
    match noise {
        Noise::TUniform { bound_log2 } => 1 << (bound_log2 + T::BITS - modulus_log2),
        Noise::Gaussian { std_dev } => (9.0 * std_dev * 2_f64.powi(T::BITS as i32)) as i64 + 1,
    }
}

pub(crate) fn masks<T: Torus>(seed: &MaskSeed, modulus_log2: u32, count: usize) -> Vec<T> {
    let mut words = vec![T::default(); count];
    MaskStream::new(seed).fill(modulus_log2, &mut words);
    words
}

/// Computes `out += a * b` modulo X^N + 1.
pub(crate) fn add_negacyclic<T: Torus>(a: &[T], b: &[T], out: &mut [T]) {
    for (i, &a) in a.iter().enumerate() {
        if a == T::default() {
            continue;
        }
        let minus = a.wrapping_neg();
        let (wrapped, plain) = out.split_at_mut(i);
        let (stays, wraps) = b.split_at(b.len() - i);
        plain.iter_mut().zip(stays).for_each(|(out, &b)| *out = out.wrapping_add(a.wrapping_mul(b)));
        wrapped.iter_mut().zip(wraps).for_each(|(out, &b)| *out = out.wrapping_add(minus.wrapping_mul(b)));
    }
}

pub(crate) fn words<T: Torus>(bits: &[u8]) -> Vec<T> {
    bits.iter().map(|&bit| T::from_u64(u64::from(bit))).collect()
}

/// Computes `B - sum A_i S_i` with the schoolbook product.
pub(crate) fn glwe_phase<T: Torus>(bits: &[u8], size: usize, mask: &[T], body: &[T]) -> Vec<T> {
    let mut sum = vec![T::default(); size];
    for (secret, mask) in words::<T>(bits).chunks(size).zip(mask.chunks(size)) {
        add_negacyclic(secret, mask, &mut sum);
    }
    body.iter().zip(&sum).map(|(body, sum)| body.wrapping_sub(*sum)).collect()
}

/// Digits of `word`, the digit of the smallest weight first.
pub(crate) fn digits<T: Torus>(gadget: Decomposition, word: T) -> Vec<i64> {
    let mut state = decomposition::round(gadget, word);
    (0..gadget.levels).map(|_| decomposition::next_digit(gadget, &mut state)).collect()
}

pub(crate) fn assert_near<T: Torus>(got: T, expected: T, limit: i64, place: &dyn std::fmt::Debug) {
    let error = got.wrapping_sub(expected).to_i64();
    assert!(error.abs() <= limit, "{place:?}: off by {error}, at most {limit} allowed");
}
