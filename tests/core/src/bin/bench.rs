//! Our own time by parameter set: alone and in batches, and what of it is key switch.

#![forbid(unsafe_code)]

use std::time::Instant;

use cloakwork_math::{Torus, simd::Level};
use cloakwork_tests_core::{Pair, THREADS};
use cloakwork_tfhe::{Gate, Gates, Lut, LweList, key_switch::key_switch};

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

fn main() {
    println!(
        "kernels: {}; best of five; ms a ciphertext on one thread, ciphertexts a second on {THREADS}\n",
        Level::detect().name()
    );
    println!("| set | alone | in a batch | of it key switch | a second |");
    println!("|---|---|---|---|---|");
    for (name, batch) in SETS {
        if name.contains("KS32") { shortint::<u32>(name, batch) } else { shortint::<u64>(name, batch) }
    }
    for name in BOOLEAN_SETS {
        boolean(name);
    }
}

fn shortint<S: Torus>(name: &str, batch: usize) {
    let mut pair = Pair::<u64, S>::generate(name);
    let lut = Lut::from_fn(pair.set, |value| value).expect("a table");
    let mut time = |count: usize, threads: usize| {
        let inputs = pair.client.encrypt(pair.set, &vec![1; count], &mut pair.randomness).expect("ciphertexts");
        let mut outputs = LweList::zeros(inputs.dimension(), count);
        let luts = vec![&lut; count];
        best(|| pair.server.bootstrap(&inputs, &luts, &mut outputs, &mut pair.scratches[..threads]).expect("it fits"))
    };
    let (alone, batched, all) = (time(1, 1), time(batch, 1), time(batch * THREADS, THREADS));
    let inputs = pair.client.encrypt::<u64>(pair.set, &vec![1; batch], &mut pair.randomness).expect("ciphertexts");
    let mut small = vec![S::default(); batch * (pair.set.lwe_dimension + 1)];
    let mut scratch = Default::default();
    let switched = best(|| {
        key_switch(pair.server.key_switch_key(), inputs.words(), &mut small, &mut scratch).expect("it fits");
    });
    row(name, alone, batched / batch as f64, switched / batch as f64, (batch * THREADS) as f64 / all);
}

fn boolean(name: &str) {
    let mut pair = Pair::<u32, u32>::generate(name);
    let mut time = |count: usize, threads: usize| {
        let bits = pair.client.encrypt(pair.set, &vec![1; count], &mut pair.randomness).expect("ciphertexts");
        let mut outputs = LweList::zeros(bits.dimension(), count);
        let (gates, nands) = (Gates::new(&pair.server), vec![Gate::Nand; count]);
        best(|| gates.evaluate(&nands, &bits, &bits, &mut outputs, &mut pair.scratches[..threads]).expect("it fits"))
    };
    let (alone, batched, all) = (time(1, 1), time(64, 1), time(64 * THREADS, THREADS));
    let inputs = vec![1u32; 64 * (pair.set.big_dimension() + 1)];
    let mut small = vec![0u32; 64 * (pair.set.lwe_dimension + 1)];
    let mut scratch = Default::default();
    let switched = best(|| {
        key_switch(pair.server.key_switch_key(), &inputs, &mut small, &mut scratch).expect("it fits");
    });
    row(name, alone, batched / 64.0, switched / 64.0, (64 * THREADS) as f64 / all);
}

fn row(name: &str, alone: f64, batched: f64, switched: f64, rate: f64) {
    println!("| {name} | {:.2} | {:.2} | {:.3} | {rate:.1} |", alone * 1e3, batched * 1e3, switched * 1e3);
}

fn best(mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..5).map(run).fold(f64::MAX, f64::min)
}
