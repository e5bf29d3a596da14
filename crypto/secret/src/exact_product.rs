//! Products of public polynomials and the secret key modulo X^N + 1, exact modulo the word.
//!
//! Each word is split into balanced digits of w bits. A floating-point transform multiplies each
//! digit's polynomial, and every coefficient of the result is rounded to the nearest integer.
//!
//! The rounding is exact for the following reason. A digit is at most 2^(w-1) in size and a key
//! coefficient at most 1. The two sides thus have norms of at most 2^(w-1) sqrt(kN) and sqrt(kN).
//! The unit roundoff is e = 2^-53, the roots of unity are accurate to 2e, and the transform has
//! n = log2(N/2) levels. In each of the three transforms, the sum of a level adds at most e, and
//! its product with a root adds at most sqrt(5) e + 2e. Both bounds are from theorem 5.1 of
//! Percival, "Rapid multiplication modulo the sum and difference of highly composite numbers". The
//! twist is one more root in each transform, the product of the spectra adds sqrt(5) e, and the sum
//! over k adds at most 3e.
//!
//! To first order, the error of a coefficient is thus at most
//!     2^(w-1) k N e (3 n 5.24 + 3 4.24 + 2.24 + 3).
//! This is at most 0.41 for w = 32 (k = 1, N = 8192). For w = 22 (k = 4, N = 2^16, the largest key
//! allowed), this is at most 0.02. Both bounds are below 1/2.

use cloakwork_math::Torus;
use dyn_stack::{PodBuffer, PodStack};
use tfhe_fft::{c64, ordered::FftAlgo, unordered::Method, unordered::Plan};
use zeroize::Zeroize;

use crate::GlweSecretKey;

/// A secret key, transformed once for many products.
pub(crate) struct ExactProduct {
    plan: Plan,
    /// Powers of the 2N-th root of unity that turn the negacyclic product into a cyclic one.
    twist: Vec<c64>,
    /// Spectrum of each secret polynomial, divided by the transform's length.
    key: Spectra,
    digit_bits: u32,
    digits: usize,
}

/// Working memory of one thread.
pub(crate) struct Scratch {
    sums: Spectra,
    digit: Vec<c64>,
    stack: Stack,
}

/// Working memory of the transform, which keeps traces of its input. Wiped on drop.
struct Stack(PodBuffer);

/// Adjacent spectra that depend on the secret. Wiped on drop.
struct Spectra(Vec<c64>);

impl ExactProduct {
    /// Transforms `key` for products modulo T's word.
    pub(crate) fn new<T: Torus>(key: &GlweSecretKey) -> Self {
        let size = key.polynomial_size();
        let points = size / 2;
        let digit_bits = if key.bits().len() <= 8192 { 32 } else { 22 };
        let mut this = Self {
            plan: plan(points),
            twist: twist(points),
            key: Spectra(vec![c64::default(); key.bits().len() / 2]),
            digit_bits,
            digits: T::BITS.div_ceil(digit_bits) as usize,
        };
        let mut stack = Stack(PodBuffer::new(this.plan.fft_scratch()));
        let scale = 1.0 / points as f64;
        for (spectrum, bits) in this.key.0.chunks_exact_mut(points).zip(key.bits().chunks_exact(size)) {
            let (low, high) = bits.split_at(points);
            for (((point, &re), &im), twist) in spectrum.iter_mut().zip(low).zip(high).zip(&this.twist) {
                *point = c64 { re: scale * f64::from(re), im: scale * f64::from(im) } * *twist;
            }
            this.plan.fwd(spectrum, PodStack::new(&mut stack.0));
        }
        this
    }

    /// Allocates working memory for one thread.
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch {
            sums: Spectra(vec![c64::default(); self.twist.len() * self.digits]),
            digit: vec![c64::default(); self.twist.len()],
            stack: Stack(PodBuffer::new(self.plan.fft_scratch())),
        }
    }

    /// Computes `out += sum of masks[i] * key[i]`. `masks` holds k polynomials, `out` holds one.
    pub(crate) fn add_product<T: Torus>(&self, masks: &[T], out: &mut [T], scratch: &mut Scratch) {
        let points = self.twist.len();
        debug_assert_eq!((masks.len(), out.len()), (2 * self.key.0.len(), 2 * points));
        let Scratch { sums, digit, stack } = scratch;
        for (index, sum) in sums.0.chunks_exact_mut(points).enumerate() {
            let shift = index as u32 * self.digit_bits;
            for (first, (mask, key)) in masks.chunks_exact(2 * points).zip(self.key.0.chunks_exact(points)).enumerate()
            {
                self.cut_and_twist(mask, shift, digit);
                self.plan.fwd(digit, PodStack::new(&mut stack.0));
                let products = digit.iter().zip(key).map(|(digit, key)| *digit * *key);
                if first == 0 {
                    sum.iter_mut().zip(products).for_each(|(sum, product)| *sum = product);
                } else {
                    sum.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
                }
            }
            self.plan.inv(sum, PodStack::new(&mut stack.0));
            self.untwist_and_add(sum, shift, out);
        }
    }

    /// Extracts the digit of each word at `shift` and twists it. The upper half of the coefficients
    /// become imaginary parts.
    fn cut_and_twist<T: Torus>(&self, mask: &[T], shift: u32, out: &mut [c64]) {
        // Half a digit is added in every lower place. The sum carries into this place exactly when
        // the balanced digits below it do.
        let carries = (0..shift)
            .step_by(self.digit_bits as usize)
            .fold(0_u64, |carries, place| carries | 1 << (place + self.digit_bits - 1));
        let unused = 64 - self.digit_bits;
        let cut = |word: T| (((word.to_u64().wrapping_add(carries) >> shift) << unused) as i64 >> unused) as i32;
        let (low, high) = mask.split_at(out.len());
        for (((out, &re), &im), twist) in out.iter_mut().zip(low).zip(high).zip(&self.twist) {
            *out = c64 { re: f64::from(cut(re)), im: f64::from(cut(im)) } * *twist;
        }
    }

    /// Undoes the twist and the folding, rounds, and adds the integers at `shift`.
    fn untwist_and_add<T: Torus>(&self, sum: &[c64], shift: u32, out: &mut [T]) {
        let (low, high) = out.split_at_mut(sum.len());
        for (((point, twist), low), high) in sum.iter().zip(&self.twist).zip(low).zip(high) {
            let point = *point * twist.conj();
            *low = low.wrapping_add(T::from_u64(to_word(point.re) << shift));
            *high = high.wrapping_add(T::from_u64(to_word(point.im) << shift));
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Drop for Spectra {
    fn drop(&mut self) {
        for point in &mut self.0 {
            point.re.zeroize();
            point.im.zeroize();
        }
    }
}

/// Rounds a value below 2^51 in size to the nearest integer modulo 2^64, which is in the low bits
/// of the sum.
fn to_word(value: f64) -> u64 {
    const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    (value + ROUND).to_bits().wrapping_sub(ROUND.to_bits())
}

/// Builds the transform with a fixed algorithm instead of one chosen by measurement. Equal keys and
/// seeds therefore give equal bits on every machine.
fn plan(points: usize) -> Plan {
    Plan::new(points, Method::UserProvided { base_algo: FftAlgo::Dif4, base_n: points.min(512) })
}

fn twist(points: usize) -> Vec<c64> {
    let sin_cos = |index: usize| (std::f64::consts::PI * index as f64 / (2 * points) as f64).sin_cos();
    let root = |index| {
        // Measure the angle from the nearer axis, since its error grows with the angle.
        if 2 * index <= points {
            let (im, re) = sin_cos(index);
            c64 { re, im }
        } else {
            let (re, im) = sin_cos(points - index);
            c64 { re, im }
        }
    };
    (0..points).map(root).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cloakwork_math::random::{MaskSeed, MaskStream, SecretRng};

    use super::*;

    /// Computes the product with one addition or subtraction of the mask for each key bit that is
    /// set.
    fn schoolbook<T: Torus>(masks: &[T], key: &GlweSecretKey) -> Vec<T> {
        let size = key.polynomial_size();
        let mut out = vec![T::default(); size];
        for (mask, bits) in masks.chunks_exact(size).zip(key.bits().chunks_exact(size)) {
            for (shift, _) in bits.iter().enumerate().filter(|(_, bit)| **bit == 1) {
                let (wrapped, plain) = out.split_at_mut(shift);
                let (stays, wraps) = mask.split_at(size - shift);
                plain.iter_mut().zip(stays).for_each(|(out, word)| *out = out.wrapping_add(*word));
                wrapped.iter_mut().zip(wraps).for_each(|(out, word)| *out = out.wrapping_sub(*word));
            }
        }
        out
    }

    fn product<T: Torus>(masks: &[T], key: &GlweSecretKey) -> Vec<T> {
        let product = ExactProduct::new::<T>(key);
        let mut out = vec![T::default(); key.polynomial_size()];
        product.add_product(masks, &mut out, &mut product.scratch());
        out
    }

    fn random_masks<T: Torus>(key: &GlweSecretKey, seed: u128) -> Vec<T> {
        let mut masks = vec![T::default(); key.bits().len()];
        MaskStream::new(&MaskSeed { key: seed, block: 0, byte: 0 }).fill(T::BITS, &mut masks);
        masks
    }

    fn check<T: Torus>(key: &GlweSecretKey, seed: u128) {
        let masks = random_masks::<T>(key, seed);
        assert!(product(&masks, key) == schoolbook(&masks, key), "N = {}", key.polynomial_size());
    }

    #[test]
    fn every_size_agrees_with_the_schoolbook() {
        let mut rng = SecretRng::insecure_for_tests(1);
        for log2 in 1..=14 {
            let key = GlweSecretKey::generate(1, 1 << log2, &mut rng).unwrap();
            check::<u64>(&key, log2);
            check::<u32>(&key, log2);
        }
        for (glwe_dimension, size) in [(4, 256), (4, 512), (3, 512), (2, 1024), (2, 2048)] {
            let key = GlweSecretKey::generate(glwe_dimension, size, &mut rng).unwrap();
            check::<u64>(&key, 7);
            check::<u32>(&key, 7);
        }
        // The schoolbook product takes too long on a full key of these sizes.
        for log2 in [15, 16] {
            let mut bits = vec![0; 1 << log2];
            rng.fill_binary(&mut bits[..300]);
            bits.rotate_right(150);
            check::<u64>(&GlweSecretKey::from_bits(1 << log2, bits).unwrap(), log2);
        }
    }

    /// Operands with the largest norms: every digit at an end of its range, every key bit set. With
    /// all key bits set the product is a running sum, which is cheap to check.
    #[test]
    fn the_worst_operands_are_exact() {
        for log2 in 8..=16 {
            let size = 1 << log2;
            let key = GlweSecretKey::from_bits(size, vec![1; size]).unwrap();
            let digit_ends = [0x8000_0000_8000_0000, 0x7fff_ffff_7fff_ffff, 0x8000_0800_0020_0000];
            let mut inputs: Vec<Vec<u64>> = digit_ends.iter().map(|&word| vec![word; size]).collect();
            inputs.push((0..size).map(|index| digit_ends[index & 1]).collect());
            inputs.push((0..size).map(|index| digit_ends[usize::from(2 * index >= size)]).collect());
            inputs.push(random_masks(&key, 3));
            for input in inputs {
                let total = input.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
                let mut running = 0_u64;
                let expected: Vec<u64> = input
                    .iter()
                    .map(|word| {
                        running = running.wrapping_add(*word);
                        running.wrapping_mul(2).wrapping_sub(total)
                    })
                    .collect();
                assert!(product(&input, &key) == expected, "N = {size}");
            }
        }
    }

    /// Compares the distance of the transform's results from integers with the bound in the module
    /// documentation. The sizes include the longest keys for either digit width.
    #[test]
    fn the_rounding_error_stays_below_its_bound() {
        for (glwe_dimension, log2) in [(1, 11), (1, 13), (4, 9), (4, 11), (1, 16), (4, 16)] {
            let size = 1 << log2;
            let key = GlweSecretKey::from_bits(size, vec![1; glwe_dimension * size]).unwrap();
            let product = ExactProduct::new::<u64>(&key);
            let Scratch { mut digit, mut stack, .. } = product.scratch();
            let masks = random_masks::<u64>(&key, 5);
            let mut sum = vec![c64::default(); size / 2];
            for (mask, key) in masks.chunks_exact(size).zip(product.key.0.chunks_exact(size / 2)) {
                product.cut_and_twist(mask, 0, &mut digit);
                product.plan.fwd(&mut digit, PodStack::new(&mut stack.0));
                sum.iter_mut().zip(&digit).zip(key).for_each(|((sum, digit), key)| *sum += *digit * *key);
            }
            product.plan.inv(&mut sum, PodStack::new(&mut stack.0));
            let worst = sum
                .iter()
                .zip(&product.twist)
                .map(|(point, twist)| *point * twist.conj())
                .flat_map(|point| [point.re, point.im])
                .fold(0.0, |worst: f64, value| worst.max((value - value.round()).abs()));
            let levels = f64::from(log2 - 1);
            let norms = 2_f64.powi(product.digit_bits as i32 - 1) * (glwe_dimension * size) as f64;
            let bound = norms * 2_f64.powi(-53) * (15.72 * levels + 18.0);
            assert!(bound < 0.5, "{bound}");
            assert!(0.0 < worst && worst < bound / 4.0, "{worst} of {bound} at {glwe_dimension} x {size}");
        }
    }
}
