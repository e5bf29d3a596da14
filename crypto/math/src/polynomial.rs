//! Polynomials modulo X^N + 1, with coefficients in ascending order.

use crate::{
    cache::LINE,
    simd::{Kernel, Level, Simd, dispatch, prefetch},
    torus::Torus,
};

/// `out = X^exponent * polynomial`, for an exponent below 2N.
pub fn rotate<T: Torus>(polynomial: &[T], exponent: usize, out: &mut [T]) {
    let size = polynomial.len();
    let (shift, flip) = (exponent % size, exponent >= size);
    // The last `shift` coefficients wrap around and change sign.
    let (stays, wraps) = polynomial.split_at(size - shift);
    for (out, word) in out[..shift].iter_mut().zip(wraps) {
        *out = if flip { *word } else { word.wrapping_neg() };
    }
    for (out, word) in out[shift..].iter_mut().zip(stays) {
        *out = if flip { word.wrapping_neg() } else { *word };
    }
}

/// `out += X^exponent * polynomial` for each pair of chunks of `size` coefficients. `next` is the
/// data that is read after these polynomials. Up to as many words of `next` are prefetched
/// meanwhile.
pub fn add_rotated<T: Torus>(level: Level, size: usize, polynomials: &[T], next: &[T], exponent: usize, out: &mut [T]) {
    dispatch(level, AddRotated { size, polynomials, next, exponent, out });
}

struct AddRotated<'a, T> {
    size: usize,
    polynomials: &'a [T],
    next: &'a [T],
    exponent: usize,
    out: &'a mut [T],
}

impl<T: Torus> Kernel for AddRotated<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { size, polynomials, next, exponent, out } = self;
        let (shift, flip) = (exponent % size, exponent >= size);
        let mut next = next.chunks(PREFETCH_STEP_WORDS);
        for (out, polynomial) in out.chunks_exact_mut(size).zip(polynomials.chunks_exact(size)) {
            let (first, second) = out.split_at_mut(shift);
            let (stays, wraps) = polynomial.split_at(size - shift);
            add_signed(second, stays, flip, &mut next);
            add_signed(first, wraps, !flip, &mut next);
        }
    }
}

/// Words between two prefetches.
const PREFETCH_STEP_WORDS: usize = 64;

/// Adds words, or subtracts them if `negative`.
#[inline(always)]
fn add_signed<T: Torus>(out: &mut [T], words: &[T], negative: bool, next: &mut std::slice::Chunks<'_, T>) {
    for (out, words) in out.chunks_mut(PREFETCH_STEP_WORDS).zip(words.chunks(PREFETCH_STEP_WORDS)) {
        fetch(next.next().unwrap_or_default());
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

/// Prefetches words line by line. An inlined loop would issue many prefetches at once, which would
/// wait for each other and delay all other loads.
#[inline(never)]
fn fetch<T>(words: &[T]) {
    let mut rest = words;
    while let Some(word) = rest.first() {
        prefetch(word);
        rest = rest.get(LINE / size_of::<T>()..).unwrap_or_default();
    }
}
