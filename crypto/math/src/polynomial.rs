//! Polynomials modulo X^N + 1, coefficients ascending.

use crate::{
    simd::{Kernel, Level, Simd, dispatch},
    torus::Torus,
};

/// `out = X^exponent * polynomial`, for an exponent below 2N.
pub fn rotate<T: Torus>(polynomial: &[T], exponent: usize, out: &mut [T]) {
    let size = polynomial.len();
    let (shift, flip) = (exponent % size, exponent >= size);
    // The last `shift` coefficients wrap round and change sign.
    let (stays, wraps) = polynomial.split_at(size - shift);
    for (out, word) in out[..shift].iter_mut().zip(wraps) {
        *out = if flip { *word } else { word.wrapping_neg() };
    }
    for (out, word) in out[shift..].iter_mut().zip(stays) {
        *out = if flip { word.wrapping_neg() } else { *word };
    }
}

/// `out += X^exponent * polynomial` for each pair of chunks of `size` coefficients.
pub fn add_rotated<T: Torus>(level: Level, size: usize, polynomials: &[T], exponent: usize, out: &mut [T]) {
    dispatch(level, AddRotated { size, polynomials, exponent, out });
}

struct AddRotated<'a, T> {
    size: usize,
    polynomials: &'a [T],
    exponent: usize,
    out: &'a mut [T],
}

impl<T: Torus> Kernel for AddRotated<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { size, polynomials, exponent, out } = self;
        let (shift, flip) = (exponent % size, exponent >= size);
        for (polynomial, out) in polynomials.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
            let (stays, wraps) = polynomial.split_at(size - shift);
            let (first, second) = out.split_at_mut(shift);
            let (plus, plus_words, minus, minus_words) =
                if flip { (first, wraps, second, stays) } else { (second, stays, first, wraps) };
            for (out, word) in plus.iter_mut().zip(plus_words) {
                *out = out.wrapping_add(*word);
            }
            for (out, word) in minus.iter_mut().zip(minus_words) {
                *out = out.wrapping_sub(*word);
            }
        }
    }
}
