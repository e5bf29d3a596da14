//! What the table of failure probabilities takes for the transform's error is enough on every instruction set, not only
//! on the best one of the machine at hand.

use cloakwork_math::{GgswShape, simd::Level};
use cloakwork_params::{Decomposition, noise::transform_loss};
use cloakwork_tests_noise::transform::{magnitude, product_error};

#[test]
fn no_level_loses_more_than_the_formula_says() {
    for level in Level::available() {
        for (polynomial_size, levels) in [(512, 1), (1024, 1), (2048, 1), (2048, 2), (4096, 1), (8192, 2)] {
            let gadget = Decomposition { base_log: 20 / levels as u32, levels };
            let shape = GgswShape { glwe_dimension: 1, polynomial_size, gadget };
            let products = WORDS / (shape.rows() * polynomial_size);
            let formula = transform_loss(polynomial_size, shape.rows());
            for classical in [true, false] {
                let measured = product_error::<u64>(shape, level, classical, products, SEED).phase / magnitude(shape);
                println!("{} N {polynomial_size} l {levels}: {measured:.2} of {formula:.2}", level.name());
                assert!(measured <= SPREAD * formula, "{}, {shape:?}: {measured}, not {formula}", level.name());
            }
        }
    }
}

const SEED: u64 = 0x1e7e15;
const WORDS: usize = 1 << 21;
/// What the mean of so many squares may be off.
const SPREAD: f64 = 1.05;
