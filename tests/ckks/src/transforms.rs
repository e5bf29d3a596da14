//! Times of transforms of 2^16 coefficients, alternating between ours and those of tfhe-ntt.

use cloakwork_math::{modulus::Modulus, ntt::Ntt, simd::Level};
use serde_json::{Value, json};

use crate::{quartiles, seconds};

const SIZE_LOG2: u32 = 16;
const ROUNDS: usize = 41;
/// Number of transforms under one prime in a row, as in a key switch.
const TRANSFORMS_PER_RUN: usize = 4;

/// A prime below 2^50, a prime next to 2^54 and a prime next to 2^60.
const PRIMES: [u64; 3] = [0x3_ffff_fea6_0001, 0x40_0000_0012_0001, 0x1000_0000_006e_0001];

pub(crate) fn measure() -> Vec<Value> {
    println!("| N = 2^16, microseconds | forward | inverse | tfhe-ntt: forward | inverse | ratio of forward |");
    println!("|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for prime in PRIMES.into_iter().filter_map(Modulus::new) {
        for level in Level::available() {
            let row = measure_one(prime, level);
            rows.push(row);
        }
    }
    println!();
    rows
}

fn measure_one(modulus: Modulus, level: Level) -> Value {
    let ours = Ntt::with_level(modulus, SIZE_LOG2, level).expect("a transform");
    let theirs = tfhe_ntt::prime64::Plan::try_new(1 << SIZE_LOG2, modulus.value()).expect("a plan");
    let mut polynomials: Vec<Vec<u64>> = (0..TRANSFORMS_PER_RUN as u64)
        .map(|seed| (0..1 << SIZE_LOG2).map(|at: u64| modulus.reduce((at + seed) << 40 | at)).collect())
        .collect();
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let mut all: Vec<&mut [u64]> = polynomials.iter_mut().map(Vec::as_mut_slice).collect();
        times[0].push(seconds(|| ours.forward(&mut all)));
        times[1].push(seconds(|| ours.inverse(&mut all)));
        times[2].push(seconds(|| all.iter_mut().for_each(|one| theirs.fwd(one))));
        times[3].push(seconds(|| all.iter_mut().for_each(|one| theirs.inv(one))));
        // The inverse of tfhe-ntt leaves N times the coefficients.
        let shrink = modulus.factor(modulus.inverse(1 << SIZE_LOG2));
        polynomials.iter_mut().flatten().for_each(|word| *word = shrink.times(*word));
    }
    let [forward, inverse, their_forward, their_inverse] =
        times.map(|times| quartiles(times)[1] * 1e6 / TRANSFORMS_PER_RUN as f64);
    println!(
        "| {} bits, {} | {forward:.1} | {inverse:.1} | {their_forward:.1} | {their_inverse:.1} | {:.2} |",
        modulus.bits(),
        ours.arithmetic_name(),
        their_forward / forward,
    );
    json!({
        "prime": modulus.value(), "arithmetic": ours.arithmetic_name(), "forward_us": forward, "inverse_us": inverse,
        "tfhe_ntt_forward_us": their_forward, "tfhe_ntt_inverse_us": their_inverse,
    })
}
