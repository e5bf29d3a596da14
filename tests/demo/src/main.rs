//! Both sides of an encrypted computation in one process. The client makes keys and encrypts, the
//! server multiplies pairs of numbers that it cannot read, and the client decrypts.

#![forbid(unsafe_code)]

use std::{error::Error, time::Instant};

use cloakwork_params::table;
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tfhe::{Lut, LweList, ServerKey};

const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

fn main() -> Result<(), Box<dyn Error>> {
    let threads = std::thread::available_parallelism()?.get();
    let set = table::by_name(SET).ok_or("the set is in the table")?;
    println!("{SET}: n = {}, N = {}, {threads} threads", set.lwe_dimension, set.polynomial_size);

    println!("\nclient");
    let mut randomness = Randomness::from_os()?;
    let client = ClientKey::generate(set, &mut randomness)?;
    let started = Instant::now();
    let (key_switch, bootstrap) = KeyGenerator::new(&client, set)?.server_key::<u64, u64>(&mut randomness)?;
    let seeded = size_of_val(key_switch.bodies()) + size_of_val(bootstrap.bodies());
    println!("  evaluation key, seeded     {:>7.1} MB in {:.2} s", megabytes(seeded), seconds(started));

    // All products of two numbers below 4. Each pair is one ciphertext: left in the carry, right in
    // the message.
    let pairs: Vec<(u64, u64)> = (0..64).map(|lane| (lane / 4 % 4, lane % 4)).collect();
    let messages: Vec<u64> = pairs.iter().map(|(left, right)| left * 4 + right).collect();
    let inputs = client.encrypt::<u64>(set, &messages, &mut randomness)?;
    println!(
        "  ciphertexts                {:>7.1} MB for {} pairs",
        megabytes(size_of_val(inputs.words())),
        pairs.len()
    );

    println!("\nserver");
    let started = Instant::now();
    let server = ServerKey::expand(set, &key_switch, &bootstrap, threads)?;
    println!("  evaluation key, expanded   {:>7.1} MB in {:.2} s", megabytes(server.bytes()), seconds(started));
    let product = Lut::bivariate(set, 4, |left, right| left * right)?;
    let mut scratches: Vec<_> = (0..threads).map(|_| server.scratch()).collect();
    let mut outputs = LweList::zeros(inputs.dimension(), inputs.len());
    let started = Instant::now();
    for lane in 0..8 {
        let one = LweList::from_words(inputs.dimension(), inputs.get(lane).to_vec())?;
        let mut output = LweList::zeros(inputs.dimension(), 1);
        server.bootstrap(&one, &[&product], &mut output, &mut scratches[..1])?;
    }
    println!("  one at a time, one thread  {:>7.2} ms a bootstrap", 1e3 * seconds(started) / 8.0);
    let started = Instant::now();
    server.bootstrap(&inputs, &vec![&product; inputs.len()], &mut outputs, &mut scratches)?;
    println!("  a batch, all threads       {:>7.1} bootstraps a second", inputs.len() as f64 / seconds(started));

    println!("\nclient");
    let answers = client.decrypt(set, &outputs)?;
    for ((left, right), answer) in pairs.iter().zip(&answers) {
        if *answer != left * right {
            return Err(format!("{left} * {right} came back as {answer}").into());
        }
    }
    let shown: Vec<String> =
        pairs.iter().zip(&answers).skip(9).take(4).map(|((l, r), answer)| format!("{l} * {r} = {answer}")).collect();
    println!("  {} products, all right: {} ...", answers.len(), shown.join(", "));
    Ok(())
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
