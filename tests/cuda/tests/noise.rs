//! Rounding error of the kernels' transforms, and its effect on the failure probability of every
//! set that GPUs serve.

use std::sync::Arc;

use cloakwork_cuda::{
    gpu::{
        BootstrapKeyViews, Buffer, Description, Driver, Launcher, RotationShape, RotationViews, Stream, Table, View,
        Work,
    },
    roots, rotation_shape, serves,
};
use cloakwork_device::{LutSlot, Wave};
use cloakwork_math::{
    decomposition,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::{
    Decomposition, ParameterSet, Standing,
    noise::{KeyWeight, NoiseBudget, transform_loss},
    table::{self, Companion},
};
use cloakwork_tests_cuda::emulator::{self, Emulated};
use cloakwork_tfhe::modulus_switch::switch_subset;

/// Ciphertexts of a measurement, each with its own exponents.
const LANES: usize = 64;

fn words(count: usize, number: u128) -> Vec<u64> {
    let mut words = vec![0; count];
    MaskStream::new(&MaskSeed { key: number, block: 0, byte: 0 }).fill(64, &mut words);
    words
}

/// X^exponent times a polynomial.
fn rotated(polynomial: &[u64], exponent: usize) -> Vec<u64> {
    let size = polynomial.len();
    let at = |j: usize| {
        let from = (j + 2 * size - exponent % (2 * size)) % (2 * size);
        if from < size { polynomial[from] } else { polynomial[from - size].wrapping_neg() }
    };
    (0..size).map(at).collect()
}

/// `left * right` modulo X^N + 1.
fn product(left: &[i64], right: &[u64]) -> Vec<u64> {
    let size = right.len();
    let mut sums = vec![0u64; 2 * size];
    for (i, digit) in left.iter().enumerate() {
        for (sum, word) in sums[i..].iter_mut().zip(right) {
            *sum = sum.wrapping_add(word.wrapping_mul(*digit as u64));
        }
    }
    let (low, high) = sums.split_at(size);
    low.iter().zip(high).map(|(low, high)| low.wrapping_sub(*high)).collect()
}

/// The external product of a GGSW and a GLWE ciphertext. `word` is first applied to each word of
/// the GLWE ciphertext.
fn external_product(shape: RotationShape, ggsw: &[u64], glwe: &[u64], word: impl Fn(u64) -> u64) -> Vec<u64> {
    let (size, columns, gadget) = (shape.polynomial_size, shape.glwe_dimension + 1, shape.gadget);
    let mut sums = vec![0u64; columns * size];
    for (row, polynomial) in glwe.chunks_exact(size).enumerate() {
        let mut states: Vec<i64> = polynomial.iter().map(|at| decomposition::round(gadget, word(*at))).collect();
        for level in 0..gadget.levels {
            let digits: Vec<i64> = states.iter_mut().map(|state| decomposition::next_digit(gadget, state)).collect();
            for column in 0..columns {
                let key = &ggsw[((level * columns + row) * columns + column) * size..][..size];
                let sum = &mut sums[column * size..][..size];
                sum.iter_mut().zip(product(&digits, key)).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
            }
        }
    }
    sums
}

/// Results of all lanes after rotations of `steps` steps. Keys, tables and exponents do not depend
/// on the steps.
fn rotate(
    gpu: &Description,
    shape: RotationShape,
    key: &[u64],
    table_words: &[u64],
    inputs: &[Vec<u64>],
) -> Vec<Vec<u64>> {
    let (driver, steps): (Arc<dyn Driver>, _) = (Arc::new(Emulated::described(gpu.clone())), shape.steps);
    let size = shape.polynomial_size;
    let buffer = |bytes| Buffer::new(&driver, bytes).expect("memory");
    let polynomials = Buffer::of(&driver, &key[..shape.key_polynomials() * size]).expect("memory");
    let (spectra, roots) = (buffer(polynomials.bytes()), Buffer::of(&driver, &roots(size)).expect("memory"));
    let launcher = Launcher { driver: driver.as_ref(), stream: Stream::Waves };
    let from: View<'_, u64> = polynomials.all().expect("words");
    let with = roots.all().expect("roots");
    launcher.transform_key(from, with, shape, spectra.all().expect("room")).expect("a launch");
    let set = table::by_name("TOY_MESSAGE_2_CARRY_2").expect("a set");
    let words = vec![Buffer::of(&driver, table_words).expect("memory")];
    let tables = vec![Arc::new(Table { set, words, outputs: vec![0] })];
    let mut wave = Wave::default();
    let index = wave.table(LutSlot(0));
    (0..LANES as u32).for_each(|lane| wave.push([], 0, index, &[lane]));
    let lanes: Vec<u32> = (0..LANES as u32).collect();
    let room = buffer(1 << 16);
    let mut put = |bytes: &[u8]| emulator::upload(room.view(0, bytes.len())?, bytes);
    let lists = Work::of(&wave, &lanes, &tables).upload(0, &tables, &mut put).expect("room");
    let (glwes, scratch) = (buffer(LANES * shape.glwe_words() * 8), buffer(LANES * shape.scratch_len() * 16));
    let outputs = RotationViews { glwes: glwes.all().expect("room"), scratch: scratch.all().expect("room") };
    let key = BootstrapKeyViews { spectra: spectra.all().expect("a key"), roots: with };
    // The body comes last, for any number of steps.
    let rows = inputs.iter().flat_map(|input| input[..steps * shape.grouping].iter().chain(input.last()));
    if shape.grouping == 1 {
        let exponents: Vec<u32> = rows.map(|word| *word as u32).collect();
        let exponents = Buffer::of(&driver, &exponents).expect("memory");
        launcher.blind_rotate(exponents.all().expect("words"), &lists, key, shape, outputs).expect("a launch");
    } else {
        let rows = Buffer::of(&driver, &rows.copied().collect::<Vec<u64>>()).expect("memory");
        let rows: View<'_, u64> = rows.all().expect("words");
        launcher.blind_rotate_groups(rows, &lists, key, shape, outputs).expect("a launch");
    }
    let mut got = vec![0u64; LANES * shape.glwe_words()];
    emulator::download(outputs.glwes, &mut got);
    got.chunks_exact(shape.glwe_words()).map(<[u64]>::to_vec).collect()
}

/// Mean square of the error of one step on the phase, divided by 1 + the ones of a binary key. The
/// unit is that of docs/noise.md: the variance of the exact product before its reduction, times
/// (2^-53)^2.
fn loss(gpu: &Description, shape: RotationShape) -> f64 {
    let (size, k, log2) = (shape.polynomial_size, shape.glwe_dimension, shape.polynomial_size.ilog2() + 1);
    let shape = RotationShape { steps: 2, ..shape };
    let is_short = shape.is_short(64);
    let whole = |word: u64| if is_short { word >> 32 << 32 } else { word };
    let key = words(shape.key_polynomials() * size, 1);
    let table_words: Vec<u64> = words(size, 2).into_iter().map(whole).collect();
    let inputs: Vec<Vec<u64>> = words(LANES * shape.input_words(), 3)
        .chunks_exact(shape.input_words())
        .map(|row| row.iter().map(|word| if shape.grouping == 1 { word >> (64 - log2) } else { *word }).collect())
        .collect();
    // The first step turns a table into uniform words. The error is that of the second step.
    let after_steps = |steps| rotate(gpu, RotationShape { steps, ..shape }, &key, &table_words, &inputs);
    let (before, after) = (after_steps(1), after_steps(2));
    let (step_words, mut sum) = (key.len() / 2, 0.0);
    for (lane, (before, after)) in before.iter().zip(&after).enumerate() {
        let second = &key[step_words..];
        let expected: Vec<u64> = if shape.grouping == 1 {
            let turned = before.chunks_exact(size).flat_map(|polynomial| rotated(polynomial, inputs[lane][1] as usize));
            let difference: Vec<u64> = turned.zip(before).map(|(turned, word)| turned.wrapping_sub(*word)).collect();
            let product = external_product(shape, second, &difference, |word| word);
            product.iter().zip(before).map(|(product, word)| product.wrapping_add(*word)).collect()
        } else {
            let subsets = 1 << shape.grouping;
            let group = &inputs[lane][shape.grouping..2 * shape.grouping];
            let mut bundle = vec![0u64; step_words / subsets];
            for (subset, ggsw) in second.chunks_exact(bundle.len()).enumerate() {
                let exponent = switch_subset(group, subset, log2) as usize;
                let turned = ggsw.chunks_exact(size).flat_map(|polynomial| rotated(polynomial, exponent));
                bundle.iter_mut().zip(turned).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
            }
            let dropped = 64 - shape.gadget.base_log * shape.gadget.levels as u32;
            // Ties go to even.
            external_product(shape, &bundle, before, |word| word.wrapping_sub(!(word >> dropped) & 1))
        };
        let errors: Vec<u64> = after.iter().zip(&expected).map(|(got, exact)| got.wrapping_sub(*exact)).collect();
        let key: Vec<i64> = words(k * size, 10 + lane as u128).into_iter().map(|word| (word >> 63) as i64).collect();
        let ones: i64 = key.iter().sum();
        let (masks, body) = errors.split_at(k * size);
        let mut phase = body.to_vec();
        for (mask, key) in masks.chunks_exact(size).zip(key.chunks_exact(size)) {
            phase.iter_mut().zip(product(key, mask)).for_each(|(phase, part)| *phase = phase.wrapping_sub(part));
        }
        let square = |word: &u64| (*word as i64 as f64 / 2f64.powi(64)).powi(2);
        sum += phase.iter().map(square).sum::<f64>() / size as f64 / (1 + ones) as f64;
    }
    let base = f64::from(shape.gadget.base_log).exp2();
    let rows = (shape.gadget.levels * (k + 1) * size) as f64;
    let unit = f64::EPSILON / 2.0;
    sum / LANES as f64 / (rows * (base * base + 2.0) / 144.0 * unit * unit)
}

fn shape(
    polynomial_size: usize,
    glwe_dimension: usize,
    base_log: u32,
    levels: usize,
    grouping: usize,
) -> RotationShape {
    RotationShape { steps: 2, grouping, glwe_dimension, polynomial_size, gadget: Decomposition { base_log, levels } }
}

/// Maximum ratio of the kernels' loss to the core's, not counting the factor 2^g of a group, where
/// transformed ciphertexts are added up. Programs use all of the noise budget, so the ratio must
/// not exceed 1.
const LOSS_OVER_THE_CORES: f64 = 1.0;

/// A GPU with `multiprocessors` multiprocessors, whose number decides whether the lanes are many or
/// few.
fn gpu(multiprocessors: u32, has_clusters: bool) -> Description {
    Description { multiprocessors, has_clusters, ..Emulated::new(1 << 30).describe().clone() }
}

#[test]
fn kernels_lose_little_more_than_the_core() {
    let (many, few, without_clusters) = (gpu(4, true), gpu(32, true), gpu(4, false));
    for (gpu, shape) in [
        (&many, shape(2048, 1, 23, 1, 1)),
        (&few, shape(2048, 1, 23, 1, 1)),
        (&many, shape(512, 4, 23, 1, 1)),
        (&many, shape(2048, 1, 15, 2, 1)),
        (&many, shape(1024, 2, 15, 2, 1)),
        (&many, shape(512, 1, 22, 1, 1)),
        (&many, shape(2048, 1, 22, 1, 2)),
        (&without_clusters, shape(2048, 1, 22, 1, 2)),
        (&many, shape(1024, 1, 15, 2, 3)),
        (&many, shape(2048, 1, 22, 1, 4)),
        (&without_clusters, shape(2048, 1, 22, 1, 4)),
    ] {
        let rows = shape.gadget.levels * (shape.glwe_dimension + 1);
        let group = if shape.grouping == 1 { 1.0 } else { f64::from(1 << shape.grouping) };
        let over = loss(gpu, shape) / (transform_loss(shape.polynomial_size, rows) * group);
        println!("{shape:?} on {gpu:?}: {over:.2} of the core's, a group's {group} apart");
        assert!((0.2..LOSS_OVER_THE_CORES).contains(&over), "{shape:?} on {gpu:?}: {over:.2}");
    }
}

/// The budget of a set's key, with the kernels' error in place of the core's.
fn on_gpus(set: &ParameterSet, key: KeyWeight) -> NoiseBudget {
    let mut budget = NoiseBudget::with_key(set, key);
    let group = if set.grouping == 1 { 1.0 } else { f64::from(1 << set.grouping) };
    budget.bootstrap.transform *= LOSS_OVER_THE_CORES * group;
    budget
}

#[test]
fn every_set_that_gpus_serve_keeps_its_failure_bound_on_gpus() {
    let gpu = gpu(4, true);
    let served = table::SETS.iter().filter(|set| set.standing == Standing::Served && serves(set, &gpu));
    let mut count = 0;
    for set in served {
        let (budget, sum) = (on_gpus(set, KeyWeight::expected(set)), set.squared_noise_max as f64);
        let (published, programs) = (budget.failure_log2(set), budget.failure_log2_for(set, sum));
        println!("{}: 2^{published:.1}, programs 2^{programs:.1}", set.name);
        assert!(published <= -128.0 && programs <= -128.0, "{}: 2^{published:.2}, 2^{programs:.2}", set.name);
        count += 1;
    }
    assert!(count > 20, "{count} sets");
    assert!(table::SETS.iter().all(|set| !serves(set, &gpu) || rotation_shape(set).polynomial_size <= 16384));
}

/// The check of crypto/params, with the kernels' error. docs/noise.md states the figure.
#[test]
fn sums_of_a_companions_results_keep_the_failure_bound_on_gpus() {
    let gpu = gpu(4, true);
    for set in table::SETS {
        let Some(Companion { set: companion, noise_tenths }) = table::companion_of(set) else { continue };
        assert!(serves(set, &gpu) && serves(companion, &gpu), "{}", set.name);
        let sum = (10 * set.squared_noise_max / noise_tenths) as f64;
        for bootstrapping in [set, companion] {
            let failure = KeyWeight::averaged_log2(bootstrapping, |key| {
                let of_results = KeyWeight { big_ones: key.big_ones, ..KeyWeight::expected(companion) };
                let result = on_gpus(companion, of_results).output();
                on_gpus(bootstrapping, key).failure_log2_of(bootstrapping, sum * result)
            });
            println!("{} on results of {}: 2^{failure:.2}", bootstrapping.name, companion.name);
            assert!(failure <= -128.4, "{} on results of {}: 2^{failure:.2}", bootstrapping.name, companion.name);
        }
    }
}
