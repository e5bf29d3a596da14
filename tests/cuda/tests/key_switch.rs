//! The key switch: the result equals the core's bit for bit, for all digits, keys and numbers of
//! ciphertexts.

use bytemuck::Pod;
use cloakwork_cuda::{
    gpu::{Driver as _, DriverError, KeySwitchShape, Line},
    serves,
};
use cloakwork_device::by_words;
use cloakwork_math::{
    Torus,
    key_product::{KeyMatrix, Scratch, subtract_product},
    random::MaskSeed,
    simd::Level,
};
use cloakwork_params::{Decomposition, ParameterSet, table::SETS};
use cloakwork_tests_cuda::{
    emulator::Emulated,
    gpu::{Gpu, read, words},
};
use cloakwork_tfhe::{KeySwitchKey, SeededKeySwitchKey, key_switch::key_switch};

/// Switches ciphertexts on the GPU. The key's rows are converted in parts.
fn switched<T: Torus + Pod, S: Torus + Pod>(
    shape: KeySwitchShape,
    rows: &[S],
    ciphertexts: &[T],
) -> Result<Vec<S>, DriverError> {
    let gpu = Gpu::default();
    let lanes = ciphertexts.len() / (shape.input_dimension + 1);
    let [key, digits] =
        [shape.key_lines(S::BITS), lanes * shape.digit_lines()].map(|lines| gpu.room(lines * size_of::<Line>()));
    let (from, outputs) = (gpu.buffer(ciphertexts), gpu.room(lanes * shape.columns() * size_of::<S>()));
    const PART: usize = 3 * KeySwitchShape::STEP;
    for (index, rows) in rows.chunks(PART * shape.columns()).enumerate() {
        gpu.launcher().split_key::<S>(gpu.buffer(rows).all()?, index * PART, shape, key.all()?)?;
    }
    gpu.launcher().key_switch::<T, S>(from.all()?, key.all()?, shape, digits.all()?, outputs.all()?)?;
    Ok(read(&outputs))
}

/// A key with words of its modulus, and the key's rows.
fn key<S: Torus>(shape: KeySwitchShape) -> (KeySwitchKey<S>, Vec<S>) {
    let KeySwitchShape { input_dimension, output_dimension, gadget, modulus_log2 } = shape;
    let unused = S::BITS - modulus_log2;
    let bodies =
        words::<S>(shape.rows(), 1).iter().map(|word| S::from_u64(word.to_u64() >> unused << unused)).collect();
    let seed = MaskSeed { key: 2, block: 0, byte: 0 };
    let seeded = SeededKeySwitchKey::new(input_dimension, output_dimension, gadget, modulus_log2, seed, bodies);
    let key = KeySwitchKey::expand(&seeded.expect("a shape"), 1);
    let mut rows = vec![S::default(); shape.rows() * shape.columns()];
    for (index, row) in rows.chunks_exact_mut(shape.columns()).enumerate() {
        key.matrix().read_row(index, row);
    }
    (key, rows)
}

fn agrees<T: Torus + Pod, S: Torus + Pod>(shape: KeySwitchShape, counts: &[usize]) {
    let (key, rows) = key::<S>(shape);
    for &lanes in counts {
        let ciphertexts = words::<T>(lanes * (shape.input_dimension + 1), 3);
        let mut expected = vec![S::default(); lanes * shape.columns()];
        key_switch(&key, &ciphertexts, &mut expected, &mut Scratch::default()).expect("shapes that fit");
        assert!(switched(shape, &rows, &ciphertexts) == Ok(expected), "{lanes} ciphertexts, {shape:?}");
    }
}

#[test]
fn key_switches_agree_with_the_core() {
    for (base_log, levels) in [(3, 5), (4, 4), (2, 8), (7, 4), (1, 1)] {
        let gadget = Decomposition { base_log, levels };
        // Rows and columns that fill steps and tiles, and others that do not.
        for (input_dimension, output_dimension) in [(100, 69), (64, 63), (1, 5)] {
            let shape = |modulus_log2| KeySwitchShape { input_dimension, output_dimension, gadget, modulus_log2 };
            agrees::<u64, u64>(shape(64), &[3]);
            agrees::<u64, u32>(shape(32), &[3]);
            agrees::<u32, u32>(shape(32), &[3]);
            agrees::<u64, u32>(shape(21), &[3]);
        }
    }
}

#[test]
fn any_number_of_ciphertexts_agrees_with_the_core() {
    let gadget = Decomposition { base_log: 4, levels: 4 };
    let shape = |modulus_log2| KeySwitchShape { input_dimension: 50, output_dimension: 40, gadget, modulus_log2 };
    // Counts around the sizes of an instruction, a warp and a block, and around the change of the
    // arrangement.
    let counts = [1, 15, 16, 17, 64, 65, 128, 129, 200];
    agrees::<u64, u64>(shape(64), &counts);
    agrees::<u64, u32>(shape(32), &counts);
}

#[test]
fn gadgets_of_every_set_that_gpus_serve_agree_with_the_core() {
    fn set_agrees<T: Torus + Pod, S: Torus + Pod>(set: &ParameterSet) {
        let (gadget, modulus_log2) = (set.key_switch, set.small_modulus_log2);
        agrees::<T, S>(KeySwitchShape { input_dimension: 24, output_dimension: 16, gadget, modulus_log2 }, &[2]);
    }
    let gpu = Emulated::new(0).describe().clone();
    let served = SETS.iter().filter(|set| serves(set, &gpu));
    let tried = served.map(|set| by_words!(set, set_agrees(set)).expect("word types of a served set")).count();
    assert!(tried > 30, "{tried} sets");
}

/// The maximum number of rows, each with the digit of greatest magnitude, of either sign, times the
/// greatest bytes.
#[test]
fn the_greatest_digits_times_the_greatest_bytes_do_not_overflow() {
    const LANES: usize = 66;
    let gadget = Decomposition { base_log: 7, levels: 1 };
    let shape = KeySwitchShape { input_dimension: 131_586, output_dimension: 1, gadget, modulus_log2: 32 };
    // A tie goes up or down, depending on the bit below.
    let ciphertexts: Vec<u32> = (0..LANES as u32)
        .flat_map(|lane| std::iter::repeat_n((64 << 25) - ((lane % 2) << 24), shape.input_dimension + 1))
        .collect();
    let rows = vec![u32::MAX; shape.rows() * shape.columns()];
    let mut matrix = KeyMatrix::<u32>::new(gadget, shape.input_dimension, shape.columns(), 32);
    matrix.blocks_mut().iter_mut().for_each(|block| block.fill(|_, row| row.fill(u32::MAX)));
    let mut expected: Vec<u32> = ciphertexts
        .chunks_exact(shape.input_dimension + 1)
        .flat_map(|words| [0, words[shape.input_dimension]])
        .collect();
    let stride = shape.input_dimension + 1;
    subtract_product(Level::detect(), &matrix, &ciphertexts, stride, &mut expected, &mut Scratch::default());
    // The digit 64 times -1 in each row.
    assert_eq!(expected[0], 64 * shape.input_dimension as u32);
    assert!(switched(shape, &rows, &ciphertexts) == Ok(expected));
    let longer = KeySwitchShape { input_dimension: shape.input_dimension + 1, ..shape };
    assert!(shape.is_possible() && !longer.is_possible(), "one row more could overflow");
}

#[test]
fn digits_beyond_a_byte_and_rows_between_steps_are_refused() {
    let gadget = Decomposition { base_log: 8, levels: 2 };
    let shape = KeySwitchShape { input_dimension: 40, output_dimension: 3, gadget, modulus_log2: 32 };
    let rows = vec![0u32; shape.rows() * shape.columns()];
    assert_eq!(switched::<u32, u32>(shape, &rows, &[0; 41]), Err(DriverError::Misfit("digits that are bytes")));

    let gpu = Gpu::default();
    let shape = KeySwitchShape { gadget: Decomposition { base_log: 7, levels: 2 }, ..shape };
    let (key, rows) = (gpu.room(shape.key_lines(32) * size_of::<Line>()), gpu.buffer(&rows));
    let refused = |first, count: usize| {
        let rows = rows.view::<u32>(0, count * shape.columns()).expect("as many rows");
        gpu.launcher().split_key(rows, first, shape, key.all().expect("a key")).expect_err("a misfit")
    };
    let between = DriverError::Misfit("whole rows from a step's first one on");
    let cut = DriverError::Misfit("whole steps of the key");
    assert_eq!(
        [refused(1, 64), refused(0, 63), refused(64, 17), refused(64, 64)],
        [between, cut.clone(), cut.clone(), cut]
    );
}
