//! What does not belong together is refused, and what is legal but odd costs no more than it should.

use cloakwork_math::Torus;
use cloakwork_tests_core::Pair;
use cloakwork_tfhe::{Lut, LweList};

/// Bootstraps one table with every output there is, and sees what a cold scratch allocates.
fn every_output_of_a_table<T: Torus, S: Torus>(name: &str) -> LweList<T> {
    let pair = Pair::<T, S>::generate(name);
    let size = pair.set.polynomial_size;
    let body = (0..size as u64).map(|at| T::from_u64(at << (T::BITS - 20))).collect();
    let lut = Lut::from_parts(body, (0..size).collect()).expect("ascending outputs");
    let dimension = pair.set.input_dimension();
    let inputs = LweList::trivial(dimension, &[T::default()]);
    let mut outputs = LweList::zeros(dimension, size);
    let mut scratches = [pair.server.scratch()];
    let run = || pair.server.bootstrap(&inputs, &[&lut], &mut outputs, &mut scratches).expect("it fits");
    let bytes = allocation_counter::measure(run).bytes_total;
    // What remains is the key switch's digits of one chunk.
    let results = size * (pair.set.big_dimension() + 1) * size_of::<T>();
    assert!(bytes < results as u64 / 4, "{name}: {bytes} bytes for {results} bytes of results");
    outputs
}

#[test]
fn the_outputs_of_a_table_cost_no_working_memory() {
    let outputs = every_output_of_a_table::<u64, u64>("TOY_MESSAGE_2_CARRY_2");
    // Neighbouring outputs are neighbouring coefficients of the table, but where it wraps round.
    let bodies: Vec<u64> = outputs.iter().map(|output| output[output.len() - 1]).collect();
    assert!(bodies.windows(2).filter(|pair| pair[1].wrapping_sub(pair[0]) == 1 << 44).count() >= bodies.len() - 2);
    every_output_of_a_table::<u32, u32>("DEFAULT_PARAMETERS");
}
