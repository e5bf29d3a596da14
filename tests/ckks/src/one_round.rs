//! A process that makes keys, warms up with one bootstrap and times the next: our side of
//! [`crate::peer`].

use std::fmt::Display;

use cloakwork_ckks::{Bootstrap, BootstrapKeys, Evaluator, KeySize, Ring};
use cloakwork_params::ckks;
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use serde_json::json;

use crate::{
    precision::{Spread, bits},
    seconds,
};

/// Option that starts the process, followed by the name of a set and of a size of keys.
pub(crate) const FLAG: &str = "--one-round";

/// Sizes of keys that are compared.
pub(crate) const SIZES: [(&str, KeySize); 2] = [("medium", KeySize::Medium), ("large", KeySize::Large)];

const STAGES: usize = 5;

/// Prints the fields of the peer's process, under the same names.
pub(crate) fn print(set: &str, size: &str) -> Result<(), String> {
    let named = SIZES.into_iter().find(|(name, _)| *name == size);
    let (_, key_size) = named.ok_or_else(|| format!("no keys of size '{size}' are compared"))?;
    let ring = Ring::new(ckks::by_name(set).ok_or_else(|| format!("there is no set '{set}'"))?);
    let slots_log2 = ring.set().size_log2 - 1;
    let bootstrap = Bootstrap::new(&ring, slots_log2, STAGES, key_size).map_err(text)?;
    let mut randomness = Randomness::from_os().map_err(text)?;
    let key = SecretKey::generate(ring.set(), &mut randomness).map_err(text)?;
    let seeded = KeyGenerator::new(&key, &ring).bootstrap(&bootstrap, &mut randomness).map_err(text)?;
    let keys = BootstrapKeys::expand(&ring, seeded).map_err(text)?;
    let plain = Spread::Radius.numbers(0, 1 << slots_log2);
    let ciphertext = key.encrypt(&ring, &plain, 0, &mut randomness).map_err(text)?;
    let evaluator = Evaluator::new(&ring, 1);
    let round = || {
        let mut result = None;
        let seconds = seconds(|| result = Some(evaluator.bootstrap(&ciphertext, &bootstrap, &keys)));
        let result = result.expect("it was run").map_err(text)?;
        Ok::<_, String>((seconds, result))
    };
    let (warm_up, _) = round()?;
    let (seconds, result) = round()?;
    let got = key.decrypt(&ring, &result).map_err(text)?;
    let [mean_bits, worst_bits] = bits(&got, &plain);
    let line = json!({
        "set": set, "keys": size, "size_log2": ring.set().size_log2, "slots": plain.len(), "modulus_log2": ring.set().modulus_log2(),
        "threads": 1, "warm_up_seconds": warm_up, "seconds": [seconds], "level": result.level(), "mean_bits": mean_bits,
        "worst_bits": worst_bits, "key_bytes": keys.bytes(), "matrix_bytes": bootstrap.bytes(),
        "peak_bytes": cloakwork_tests_machine::peak_bytes().ok_or("the kernel does not report the peak memory")?,
    });
    println!("{line}");
    Ok(())
}

fn text(error: impl Display) -> String {
    error.to_string()
}
