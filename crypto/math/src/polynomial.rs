//! Polynomials modulo X^N + 1, coefficients ascending.

use crate::{
    cache::LINE,
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
        for (index, out) in out.chunks_exact_mut(size).enumerate() {
            let from_here = &polynomials[index * size..];
            let (first, second) = out.split_at_mut(shift);
            add_signed(second, from_here, flip);
            add_signed(first, &from_here[size - shift..], !flip);
        }
    }
}

/// How far ahead words are fetched, in bytes: processors do so by themselves, but stop at the end of each page.
const PAGE: usize = 4096;
/// Words between two looks ahead.
const STEP: usize = 64;

/// Adds the first of `words`, or subtracts them. More of them will be needed next.
#[inline(always)]
fn add_signed<T: Torus>(out: &mut [T], words: &[T], negative: bool) {
    let ahead = PAGE / size_of::<T>();
    for (index, out) in out.chunks_mut(STEP).enumerate() {
        let words = &words[index * STEP..];
        for line in 0..STEP * size_of::<T>() / LINE {
            if let Some(word) = words.get(ahead + line * LINE / size_of::<T>()) {
                crate::simd::prefetch(word);
            }
        }
        if negative {
            for (out, word) in out.iter_mut().zip(words) {
                *out = out.wrapping_sub(*word);
            }
        } else {
            for (out, word) in out.iter_mut().zip(words) {
                *out = out.wrapping_add(*word);
            }
        }
    }
}
