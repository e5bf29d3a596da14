//! Tests of the transform kernel against exact integer arithmetic.

use cloakwork_math::{
    ExternalProduct, GgswShape, Torus,
    external_product::accumulator,
    polynomial,
    random::{MaskSeed, MaskStream},
    simd::Level,
};
use cloakwork_params::{
    Decomposition, TorusWidth,
    table::{COMPRESSION_SETS, SETS},
};

fn uniform<T: Torus>(seed: u128, len: usize) -> Vec<T> {
    let mut words = vec![T::default(); len];
    MaskStream::new(&MaskSeed { key: seed, block: 0, byte: 0 }).fill(T::BITS, &mut words);
    words
}

/// `ggsw * glwe` by schoolbook multiplication of the digits, exact modulo the word.
///
/// `halves` is the rounding of words that lie halfway between two words that the gadget can
/// represent.
fn exact<T: Torus>(shape: GgswShape, ggsw: &[T], glwe: &[T], halves: Halves) -> Vec<T> {
    let size = shape.polynomial_size;
    let mut out = vec![T::default(); shape.glwe_words()];
    let mut rows = ggsw.chunks_exact(shape.glwe_words());
    let kept = shape.gadget.base_log * shape.gadget.levels as u32;
    let round = |word: &T| {
        let odd = word.to_u64() >> (T::BITS - kept) & 1;
        let down = if halves == Halves::ToEven { 1 - odd } else { 0 };
        word.wrapping_sub(T::from_u64(down)).round_to_modulus(kept) as i64
    };
    let mut states: Vec<i64> = glwe.iter().map(round).collect();
    for _ in 0..shape.gadget.levels {
        for polynomial in states.chunks_exact_mut(size) {
            let row = rows.next().expect("a row for each level and polynomial");
            for (degree, state) in polynomial.iter_mut().enumerate() {
                let digit = T::from_i64(next_digit(shape.gadget.base_log, state));
                if digit == T::default() {
                    continue;
                }
                for (key, out) in row.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
                    for (index, word) in key.iter().enumerate() {
                        let product = digit.wrapping_mul(*word);
                        let at = (index + degree) % size;
                        let wraps = index + degree >= size;
                        out[at] = if wraps { out[at].wrapping_sub(product) } else { out[at].wrapping_add(product) };
                    }
                }
            }
        }
    }
    out
}

/// Rounding of ties.
#[derive(Clone, Copy, PartialEq)]
enum Halves {
    Up,
    ToEven,
}

/// Takes the digit in [-B/2, B/2) off the low end of `state`.
fn next_digit(base_log: u32, state: &mut i64) -> i64 {
    let half = 1 << (base_log - 1);
    let digit = (*state + half).rem_euclid(2 * half) - half;
    *state = (*state - digit) / (2 * half);
    digit
}

/// Converts a GLWE ciphertext to the layout of the kernels.
fn load<T: Torus>(shape: GgswShape, glwe: &[T]) -> Vec<T> {
    let (size, mut loaded) = (shape.polynomial_size, vec![T::default(); shape.accumulator_words::<T>()]);
    accumulator::set(size, &mut loaded, |index, to| to.copy_from_slice(&glwe[index * size..][..size]));
    loaded
}

fn unload<T: Torus>(shape: GgswShape, accumulator: &[T]) -> Vec<T> {
    accumulator::polynomials(shape.polynomial_size, accumulator).flatten().copied().collect()
}

/// Root mean square of the kernel's error, as a fraction of the torus.
fn error<T: Torus>(shape: GgswShape, level: Level) -> f64 {
    error_on(shape, level, &uniform::<T>(2, shape.glwe_words()))
}

fn error_on<T: Torus>(shape: GgswShape, level: Level, glwe: &[T]) -> f64 {
    let kernel = ExternalProduct::<T>::with_level(shape, level);
    let mut scratch = kernel.scratch();
    let ggsw = uniform::<T>(1, shape.words());
    let mut spectrum = vec![0.0; kernel.spectrum_len()];
    kernel.transform(&ggsw, &mut spectrum, &mut scratch);

    let mut replaced = load(shape, glwe);
    kernel.replace(&spectrum, &[], &mut replaced, &mut scratch);
    let mut square = mean_square(&exact(shape, &ggsw, glwe, Halves::ToEven), &unload(shape, &replaced));

    let size = shape.polynomial_size;
    // Rotations across all blocks of the circle: at the ends of blocks, one and two words beyond,
    // and inside a block.
    let ends = (0..16).map(|block| block * size / 8 + block % 3);
    for rotation in ends.chain([1, 8, size / 16 + 5, size - 1, size, 2 * size - 1]) {
        let mut difference = vec![T::default(); glwe.len()];
        let pairs = glwe.chunks_exact(shape.polynomial_size).zip(difference.chunks_exact_mut(shape.polynomial_size));
        for (polynomial, out) in pairs {
            polynomial::rotate(polynomial, rotation, out);
            for (out, word) in out.iter_mut().zip(polynomial) {
                *out = out.wrapping_sub(*word);
            }
        }
        let product = exact(shape, &ggsw, &difference, Halves::Up);
        let expected: Vec<T> = glwe.iter().zip(product).map(|(word, product)| word.wrapping_add(product)).collect();
        let mut accumulated = load(shape, glwe);
        kernel.rotate_accumulate(&spectrum, &[], &mut accumulated, &[rotation as u32], &mut scratch);
        square = square.max(mean_square(&expected, &unload(shape, &accumulated)));
        // The margins must be correct as well, because the next step reads them.
        assert_eq!(load(shape, &unload(shape, &accumulated)), accumulated);
    }
    square.sqrt()
}

fn mean_square<T: Torus>(expected: &[T], got: &[T]) -> f64 {
    let scale = (-f64::from(T::BITS)).exp2();
    let squares = expected.iter().zip(got).map(|(e, g)| (g.wrapping_sub(*e).to_i64() as f64 * scale).powi(2));
    squares.sum::<f64>() / expected.len() as f64
}

const fn shape(glwe_dimension: usize, polynomial_size: usize, base_log: u32, levels: usize) -> GgswShape {
    GgswShape { glwe_dimension, polynomial_size, gadget: Decomposition { base_log, levels } }
}

#[test]
fn the_kernel_computes_the_product() {
    for level in Level::available() {
        for shape in [
            shape(1, 2048, 23, 1),
            shape(4, 512, 23, 1),
            shape(1, 1024, 15, 2),
            shape(1, 256, 11, 3),
            shape(2, 64, 14, 2),
            shape(3, 128, 10, 2),
            shape(1, 4096, 21, 1),
        ] {
            let (error, bound) = (error::<u64>(shape, level), bound(shape, shape.polynomial_size));
            assert!(error < bound, "{shape:?} on {}: error {error:e}, bound {bound:e}", level.name());
        }
    }
}

/// Upper bound of the error of products with this number of digits in each row.
fn bound(shape: GgswShape, digits: usize) -> f64 {
    // One digit times one word has a rounding error of 2^-53 of their product. All errors add up
    // like a random walk.
    let terms = (digits * shape.rows()) as f64;
    let product = f64::from(shape.gadget.base_log).exp2() / 12f64.sqrt() / 12f64.sqrt();
    (-53f64).exp2() * product * terms.sqrt() * f64::from(shape.polynomial_size.ilog2())
}

/// Covers sizes whose exact product would take minutes, with only a few nonzero words.
#[test]
fn the_kernel_computes_the_product_at_every_size() {
    for level in Level::available() {
        for log2 in 6..=17 {
            let shape = shape(1, 1 << log2, 15, 2);
            let mut glwe = vec![0; shape.glwe_words()];
            for (index, word) in uniform::<u64>(2, 8).into_iter().enumerate() {
                // The ends of both polynomials, and indices that no radix divides.
                let at = [0, 1, shape.polynomial_size / 3, shape.polynomial_size - 1][index % 4];
                glwe[index / 4 * shape.polynomial_size + at] = word;
            }
            // A rotated difference has twice as many nonzero words.
            let (error, bound) = (error_on::<u64>(shape, level, &glwe), bound(shape, 8));
            assert!(error < bound, "{shape:?} on {}: error {error:e}, bound {bound:e}", level.name());
        }
    }
}

#[test]
fn there_is_a_kernel_for_every_set() {
    for set in SETS {
        let shape = GgswShape::of_set(set, set.bootstrap);
        let supported = match set.torus {
            TorusWidth::U32 => ExternalProduct::<u32>::supports(shape),
            TorusWidth::U64 => ExternalProduct::<u64>::supports(shape),
        };
        assert!(supported, "{}", set.name);
        for packed in COMPRESSION_SETS.iter().filter(|packed| packed.parameter_sets.contains(&set.id)) {
            assert!(ExternalProduct::<u64>::supports(GgswShape::of_set(set, packed.bootstrap)), "{}", packed.name);
        }
    }
}

#[test]
fn there_is_no_kernel_for_digits_that_do_not_fit() {
    assert!(
        ExternalProduct::<u64>::supports(shape(1, 2048, 31, 1))
            && ExternalProduct::<u64>::supports(shape(1, 64, 21, 3))
    );
    for (base_log, levels) in [(0, 1), (32, 1), (63, 1), (31, 3), (u32::MAX, 2)] {
        assert!(!ExternalProduct::<u64>::supports(shape(1, 2048, base_log, levels)), "{base_log} {levels}");
    }
    assert!(!ExternalProduct::<u32>::supports(shape(1, 2048, 16, 2)));
}

#[test]
fn products_of_32_bit_words_are_exact() {
    for level in Level::available() {
        for shape in [shape(2, 512, 8, 1), shape(3, 512, 10, 2), shape(2, 1024, 10, 2), shape(1, 1024, 7, 3)] {
            let error = error::<u32>(shape, level);
            assert!(error == 0.0, "{shape:?} on {}: error {error:e}", level.name());
        }
    }
}

#[test]
fn a_tile_equals_single_products_bit_for_bit() {
    let shape = shape(1, 1024, 23, 1);
    let kernel = ExternalProduct::<u64>::new(shape);
    let mut scratch = kernel.scratch();
    let mut spectrum = vec![0.0; kernel.spectrum_len()];
    kernel.transform(&uniform(3, shape.words()), &mut spectrum, &mut scratch);
    let rotations = [5, 0, 1023, 1024, 2047];
    let lane = |lane: usize| -> Vec<u64> { load(shape, &uniform(4 + lane as u128, shape.glwe_words())) };
    let mut tile: Vec<u64> = (0..rotations.len()).flat_map(lane).collect();
    kernel.rotate_accumulate(&spectrum, &spectrum, &mut tile, &rotations, &mut scratch);
    let words = shape.accumulator_words::<u64>();
    for (index, rotation) in rotations.iter().enumerate() {
        let mut single = lane(index);
        kernel.rotate_accumulate(&spectrum, &[], &mut single, &[*rotation], &mut kernel.scratch());
        assert_eq!(single, tile[index * words..][..words], "lane {index}");
    }
}
