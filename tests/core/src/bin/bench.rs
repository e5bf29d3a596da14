//! Times of our own code. The first table has external products by shape and instruction set. The
//! second has bootstraps by parameter set, alone and in batches, with the share of the key switch.
//! Arguments are parts of the names of the sets to measure, or of `external products` for the first
//! table. With `--quick`, each is measured once and in small batches.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use cloakwork_math::{
    ExternalProduct, GgswShape, Torus,
    aligned::Aligned,
    external_product::accumulator,
    random::{MaskSeed, MaskStream},
    simd::Level,
};
use cloakwork_params::Decomposition;
use cloakwork_tests_core::{Pair, THREADS};
use cloakwork_tfhe::{Gate, Gates, Lut, LweList, Scratch, blind_rotation::tile};

const SETS: [(&str, usize); 6] = [
    ("V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", 64),
    ("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", 64),
    ("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", 64),
    ("V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128", 64),
    ("V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", 32),
    ("V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128", 8),
];
const BOOLEAN_SETS: [&str; 3] =
    ["DEFAULT_PARAMETERS_KS_PBS", "PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS", "TFHE_LIB_PARAMETERS"];

/// k, N, and the gadget's base and levels, of the sets from 1_1 to 4_4.
const SHAPES: [(usize, usize, u32, usize); 4] =
    [(4, 512, 23, 1), (1, 2048, 23, 1), (1, 8192, 15, 2), (1, 65536, 11, 3)];

/// Name of the first table.
const PRODUCTS: &str = "external products";

/// Duration and number of the measurements.
#[derive(Clone, Copy)]
struct Effort {
    /// Time for the products of one shape and instruction set.
    products: Duration,
    /// Number of runs of bootstraps, of which the fastest counts.
    runs: usize,
    /// Largest number of ciphertexts in a batch.
    batch_max: usize,
}

const FULL: Effort = Effort { products: Duration::from_millis(400), runs: 5, batch_max: 64 };
const QUICK: Effort = Effort { products: Duration::ZERO, runs: 1, batch_max: 4 };

fn main() {
    let (options, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument == "--quick");
    let effort = if options.is_empty() { FULL } else { QUICK };
    let names = || std::iter::once(PRODUCTS).chain(SETS.map(|(name, _)| name)).chain(BOOLEAN_SETS);
    if let Some(nothing) = wanted.iter().find(|part| !names().any(|name| name.contains(part.as_str()))) {
        eprintln!("no measurement is called '{nothing}': there are");
        names().for_each(|name| eprintln!("  {name}"));
        std::process::exit(2);
    }
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    if wants(PRODUCTS) {
        products(effort);
    }
    println!("kernels: {}; best of {}; ms a ciphertext on one thread", Level::detect().name(), effort.runs);
    println!("(of it key switch), ciphertexts a second on {THREADS} threads\n");
    println!("| set | alone | in a batch | a second |");
    println!("|---|---|---|---|");
    for (name, batch) in SETS.into_iter().filter(|(name, _)| wants(name)) {
        let batch = batch.min(effort.batch_max);
        if name.contains("KS32") { shortint::<u32>(name, batch, effort) } else { shortint::<u64>(name, batch, effort) }
    }
    BOOLEAN_SETS.into_iter().filter(|name| wants(name)).for_each(|name| boolean(name, effort));
}

/// Times external products in tiles of up to 16 ciphertexts, with a different key for each of 16
/// steps.
fn products(effort: Effort) {
    let levels = Level::available();
    println!("external products; least of many runs; microseconds a ciphertext on one thread\n");
    println!(
        "| k | N | gadget levels |{}",
        levels.iter().map(|level| format!(" {} |", level.name())).collect::<String>()
    );
    println!("|---|---|---|{}", "---|".repeat(levels.len()));
    for (glwe_dimension, polynomial_size, base_log, levels_of_gadget) in SHAPES {
        let gadget = Decomposition { base_log, levels: levels_of_gadget };
        let shape = GgswShape { glwe_dimension, polynomial_size, gadget };
        let times = levels.iter().map(|level| format!(" {:.2} |", product(shape, *level, effort) * 1e6));
        println!("| {glwe_dimension} | {polynomial_size} | {levels_of_gadget} |{}", times.collect::<String>());
    }
    println!();
}

fn product(shape: GgswShape, level: Level, effort: Effort) -> f64 {
    const STEPS: usize = 16;
    let kernel = ExternalProduct::<u64>::with_level(shape, level);
    let (mut scratch, len) = (kernel.scratch(), kernel.spectrum_len());
    let (mut words, mut spectra) = (vec![0; shape.words()], Aligned::new(STEPS * len));
    MaskStream::new(&MaskSeed { key: 1, block: 0, byte: 0 }).fill(64, &mut words);
    spectra.chunks_exact_mut(len).for_each(|spectrum| kernel.transform(&words, spectrum, &mut scratch));
    let tile = tile::<u64>(shape);
    let mut accumulators = Aligned::for_work(tile * shape.accumulator_words::<u64>());
    for accumulator in accumulators.chunks_exact_mut(shape.accumulator_words::<u64>()) {
        let size = shape.polynomial_size;
        accumulator::set(size, accumulator, |index, to| to.copy_from_slice(&words[index * size..][..size]));
    }
    // Each ciphertext and step has another rotation.
    let mut rotations = (0..tile * STEPS).map(|count| (count * 7919 + 1) % (2 * shape.polynomial_size)).cycle();
    let mut once = || {
        let started = Instant::now();
        for step in 0..STEPS {
            let [key, next] = [step, (step + 1) % STEPS].map(|step| &spectra[step * len..][..len]);
            let rotations: Vec<u32> = rotations.by_ref().take(tile).map(|rotation| rotation as u32).collect();
            kernel.rotate_accumulate(key, next, &mut accumulators, &rotations, &mut scratch);
        }
        started.elapsed().as_secs_f64() / (STEPS * tile) as f64
    };
    let started = Instant::now();
    let first = once();
    let more = std::iter::from_fn(|| (started.elapsed() < effort.products).then(&mut once));
    more.fold(first, f64::min)
}

fn shortint<S: Torus>(name: &str, batch: usize, effort: Effort) {
    let mut pair = Pair::<u64, S>::generate(name);
    let lut = Lut::from_fn(pair.set, |value| value).expect("a table");
    let mut time = |count: usize, threads: usize| {
        let inputs = pair.client.encrypt(pair.set, &vec![1; count], &mut pair.randomness).expect("ciphertexts");
        let mut outputs = LweList::zeros(inputs.dimension(), count);
        let luts = vec![&lut; count];
        let scratches = &mut pair.scratches[..threads];
        best(effort.runs, scratches, |scratches| {
            pair.server.bootstrap(&inputs, &luts, &mut outputs, scratches).expect("it fits");
        })
    };
    row(name, batch, [time(1, 1), time(batch, 1), time(batch * THREADS, THREADS)]);
}

fn boolean(name: &'static str, effort: Effort) {
    let mut pair = Pair::<u32, u32>::generate(name);
    let mut time = |count: usize, threads: usize| {
        let bits = pair.client.encrypt(pair.set, &vec![1; count], &mut pair.randomness).expect("ciphertexts");
        let mut outputs = LweList::zeros(bits.dimension(), count);
        let (gates, nands) = (Gates::new(&pair.server), vec![Gate::Nand; count]);
        let scratches = &mut pair.scratches[..threads];
        best(effort.runs, scratches, |scratches| {
            gates.evaluate(&nands, &bits, &bits, &mut outputs, scratches).expect("it fits");
        })
    };
    let batch = effort.batch_max;
    row(name, batch, [time(1, 1), time(batch, 1), time(batch * THREADS, THREADS)]);
}

/// Duration of a run, and the part of it that the first thread spent in key switches.
#[derive(Clone, Copy)]
struct Run {
    all: Duration,
    key_switch: Duration,
}

/// Prints the row of a set: runs of one ciphertext and of a batch on one thread, and of a batch on
/// each thread.
fn row(name: &str, batch: usize, [alone, batched, threads]: [Run; 3]) {
    let each = |run: Run, count: usize| {
        let [all, switch] = [run.all, run.key_switch].map(|time| time.as_secs_f64() * 1e3 / count as f64);
        format!("{all:.2} ({switch:.2})")
    };
    let rate = (batch * THREADS) as f64 / threads.all.as_secs_f64();
    println!("| {name} | {} | {} | {rate:.1} |", each(alone, 1), each(batched, batch));
}

/// Returns the fastest of some runs.
fn best<T: Torus, S: Torus>(
    runs: usize,
    scratches: &mut [Scratch<T, S>],
    mut work: impl FnMut(&mut [Scratch<T, S>]),
) -> Run {
    let mut run = || {
        scratches[0].take_times();
        let started = Instant::now();
        work(scratches);
        Run { all: started.elapsed(), key_switch: scratches[0].take_times().key_switch }
    };
    (0..runs).map(|_| run()).min_by_key(|run| run.all).expect("a run at least")
}
