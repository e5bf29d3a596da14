//! The transform's error in the table of failure probabilities is an upper bound on every
//! instruction set, not only on the best instruction set of the machine.

use cloakwork_math::{GgswShape, simd::Level};
use cloakwork_params::{Decomposition, noise::transform_loss};
use cloakwork_tests_noise::transform::{magnitude, product_error};

/// k, N, log2 of the base and gadget levels of sets on words of 64 bits, with every size in use.
const SHAPES: [(usize, usize, u32, usize); 10] = [
    (1, 256, 23, 1),
    (1, 512, 22, 1),
    (4, 512, 23, 1),
    (2, 1024, 22, 1),
    (1, 2048, 23, 1),
    (1, 2048, 14, 2),
    (1, 4096, 21, 1),
    (1, 8192, 15, 2),
    (1, 16384, 14, 2),
    (1, 65536, 11, 3),
];

#[test]
fn no_instruction_set_loses_more_precision_than_the_formula_predicts() {
    for level in Level::available() {
        for (glwe_dimension, polynomial_size, base_log, levels) in SHAPES {
            let gadget = Decomposition { base_log, levels };
            let shape = GgswShape { glwe_dimension, polynomial_size, gadget };
            let products = (WORDS / (shape.rows() * polynomial_size)).max(PRODUCTS_MIN);
            let formula = transform_loss(polynomial_size, shape.rows());
            let limit = formula * (1.0 + SPREAD / (products as f64).sqrt()).max(SPREAD_MIN);
            for classical in [true, false] {
                let measured = product_error::<u64>(shape, level, classical, products, SEED).phase / magnitude(shape);
                println!(
                    "{} k {glwe_dimension} N {polynomial_size} l {levels}: {measured:.2} of {formula:.2}",
                    level.name()
                );
                assert!(measured <= limit, "{}, {shape:?}: {measured}, not {formula}", level.name());
            }
        }
    }
}

const SEED: u64 = 0x1e7e15;
const WORDS: usize = 1 << 21;
const PRODUCTS_MIN: usize = 8;
/// Relative error of the mean square of one product. Much of it is the error of the lowest
/// frequency, which is a single number.
const SPREAD: f64 = 0.4;
/// Relative error of the mean of many products, as a factor.
const SPREAD_MIN: f64 = 1.05;
