//! Measures the transform's rounding error. The first table, by polynomial size, gives the
//! constants of `crypto/params/src/noise/transform.rs`. The second compares the error with the
//! formula for every shape of the table.

#![forbid(unsafe_code)]

use cloakwork_math::{GgswShape, simd::Level};
use cloakwork_params::noise::{external_product_error as predicted, transform_loss};
use cloakwork_params::table::SETS;
use cloakwork_params::{Decomposition, ParameterSet, TorusWidth};
use cloakwork_tests_noise::transform::{ProductError, magnitude, product_error};

fn main() {
    println!("kernels: {}\n", Level::detect().name());
    println!("c by log2 N: of a coefficient, of the phase (classical, multi-bit); in the formula");
    for size_log2 in 6..=16 {
        let gadget = Decomposition { base_log: 20, levels: 1 };
        let shape = GgswShape { glwe_dimension: 1, polynomial_size: 1 << size_log2, gadget };
        let loss = |classical: bool| measure(shape, TorusWidth::U64, classical);
        let (step, product) = (loss(true), loss(false));
        let [coefficient, phase, multi_bit] =
            [step.coefficient, step.phase, product.phase].map(|error| error / magnitude(shape));
        let formula = transform_loss(shape.polynomial_size, shape.rows());
        println!("{size_log2:6} {coefficient:9.2} {phase:9.2} {multi_bit:9.2} {formula:9.2}");
    }
    println!("\nlog2 N   k   l  log2 B  step       | log2 std on the phase: measured, formula | measured/formula");
    let mut seen: Vec<(GgswShape, bool)> = Vec::new();
    for set in SETS {
        let kind = (GgswShape::of_set(set, set.bootstrap), set.grouping == 1);
        if !seen.contains(&kind) {
            seen.push(kind);
            print_row(set);
        }
    }
}

fn print_row(set: &ParameterSet) {
    let (shape, classical) = (GgswShape::of_set(set, set.bootstrap), set.grouping == 1);
    let (measured, formula) = (measure(shape, set.torus, classical).phase, predicted(set));
    println!(
        "{:6} {:3} {:3} {:7}  {} | {:18.3}, {:15.3} | {:7.3}",
        set.polynomial_size.ilog2(),
        set.glwe_dimension,
        set.bootstrap.levels,
        set.bootstrap.base_log,
        if classical { "classical" } else { "multi-bit" },
        measured.log2() / 2.0,
        formula.log2() / 2.0,
        if formula > 0.0 { measured / formula } else { 1.0 },
    );
}

/// Measures the error with about equal work for every shape.
fn measure(shape: GgswShape, torus: TorusWidth, classical: bool) -> ProductError {
    let products = WORDS / (shape.rows() * shape.polynomial_size) + 8;
    let level = Level::detect();
    match torus {
        TorusWidth::U32 => product_error::<u32>(shape, level, classical, products, SEED),
        TorusWidth::U64 => product_error::<u64>(shape, level, classical, products, SEED),
    }
}

const SEED: u64 = 0x6e6f_6973_6500;
const WORDS: usize = 1 << 22;
