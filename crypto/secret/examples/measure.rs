//! Measures the time of key generation and its parts on this machine.
//!
//! `cargo run --release --example measure [set name]...`

use std::time::{Duration, Instant};

use cloakwork_math::random::{MaskSeed, MaskStream, SecretRng};
use cloakwork_params::{Noise, ParameterSet, TorusWidth, table};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness, SecretError};

fn main() -> Result<(), SecretError> {
    rate("mask stream", |words| MaskStream::new(&MaskSeed { key: 1, block: 0, byte: 0 }).fill(64, words));
    let mut rng = SecretRng::from_os()?;
    rate("TUniform noise", |words| rng.add_noise(Noise::TUniform { bound_log2: 17 }, 64, words));
    rate("Gaussian noise", |words| rng.add_noise(Noise::Gaussian { std_dev: 1e-10 }, 64, words));

    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names.extend([
            "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128".into(),
            "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128".into(),
            "DEFAULT_PARAMETERS_KS_PBS".into(),
        ]);
    }
    for name in names {
        match table::by_name(&name) {
            Some(set) => generate(set)?,
            None => println!("no set named {name}"),
        }
    }
    Ok(())
}

fn rate(what: &str, mut fill: impl FnMut(&mut [u64])) {
    let mut words = vec![0_u64; 1 << 20];
    let time = best(|| fill(&mut words));
    println!("{what}: {:.2} GB/s of words", 8.0 * words.len() as f64 / time.as_secs_f64() / 1e9);
}

fn generate(set: &'static ParameterSet) -> Result<(), SecretError> {
    let mut randomness = Randomness::from_os()?;
    let client = ClientKey::generate(set, &mut randomness)?;
    for threads in [1, std::thread::available_parallelism().map_or(1, usize::from)] {
        let keys = KeyGenerator::new(&client, set)?.on_threads(threads);
        let key_switch = timed(|| match set.small_modulus_log2 {
            64 => keys.key_switch_key::<u64>(&mut randomness).map(drop),
            _ => keys.key_switch_key::<u32>(&mut randomness).map(drop),
        })?;
        let bootstrap = timed(|| match set.torus {
            TorusWidth::U64 => keys.bootstrap_key::<u64>(&mut randomness).map(drop),
            TorusWidth::U32 => keys.bootstrap_key::<u32>(&mut randomness).map(drop),
        })?;
        println!("{} on {threads} threads: key switch {key_switch:.1?}, bootstrap {bootstrap:.1?}", set.name);
    }
    Ok(())
}

fn timed(mut make: impl FnMut() -> Result<(), SecretError>) -> Result<Duration, SecretError> {
    let start = Instant::now();
    make()?;
    Ok(start.elapsed())
}

fn best(mut run: impl FnMut()) -> Duration {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..10).map(|_| time(&mut run)).min().unwrap_or_default()
}
