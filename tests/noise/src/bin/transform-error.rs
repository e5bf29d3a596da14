//! Measures the transform's rounding error for every shape of the table, next to what the formula says: the source of
//! the constants in `crypto/params/src/noise/transform.rs`.

use cloakwork_math::GgswShape;
use cloakwork_params::noise::{external_product_error as predicted, transform_loss};
use cloakwork_params::table::SETS;
use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tests_noise::transform::{external_product_error, shape_of};

fn main() {
    println!("log2 N   k   l  log2 B  step       | error, log2 std: measured, formula | loss: measured, table");
    let mut seen: Vec<(GgswShape, bool)> = Vec::new();
    for set in SETS {
        let kind = (shape_of(set), set.grouping == 1);
        if !seen.contains(&kind) {
            seen.push(kind);
            print_row(set);
        }
    }
}

fn print_row(set: &ParameterSet) {
    let shape = shape_of(set);
    // About as much work for every shape.
    let products = (1 << 17) / shape.polynomial_size + 1;
    let coefficients = (EXACT_WORK / (products * shape.rows() * shape.polynomial_size)).clamp(1, 4096);
    let classical = set.grouping == 1;
    let measured = match set.torus {
        TorusWidth::U32 => external_product_error::<u32>(shape, classical, products, coefficients, SEED),
        TorusWidth::U64 => external_product_error::<u64>(shape, classical, products, coefficients, SEED),
    };
    let base = f64::from(set.bootstrap.base_log).exp2();
    let magnitude = (shape.rows() * shape.polynomial_size) as f64 * (base * base + 2.0) / 144.0;
    let unit = f64::EPSILON / 2.0;
    println!(
        "{:6} {:3} {:3} {:7}  {} | {:18.3}, {:15.3} | {:7.2}, {:.2}",
        set.polynomial_size.ilog2(),
        set.glwe_dimension,
        set.bootstrap.levels,
        set.bootstrap.base_log,
        if classical { "classical" } else { "multi-bit" },
        measured.log2() / 2.0,
        predicted(set).log2() / 2.0,
        measured / (unit * unit * magnitude),
        transform_loss(set.polynomial_size),
    );
}

const SEED: u64 = 0x6e6f_6973_6500;
const EXACT_WORK: usize = 1 << 34;
