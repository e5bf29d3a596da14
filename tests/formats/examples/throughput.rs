//! Throughput of the codec for keys of a hundred megabytes, on one thread and in memory.

#![forbid(unsafe_code)]

use std::{io, time::Instant};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{EnvelopeReader, Expected, KeyId, table};
use cloakwork_tfhe::{
    GgswShape, SeededBootstrapKey,
    format::{decode, encode},
};

fn main() {
    let set =
        table::by_name("V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").expect("a row");
    let shape = GgswShape::of_set(set, set.bootstrap);
    let seed = MaskSeed { key: 1, block: 0, byte: 0 };
    let bodies =
        (0..(set.ggsw_count() * shape.body_words()) as u64).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let key = SeededBootstrapKey::new(shape, set.ggsw_count(), seed, bodies.collect()).expect("whole ciphertexts");
    let mut bytes = Vec::new();
    encode(&key, set, KeyId([1; 16]), &mut bytes).expect("the key conforms");
    println!("{} MB", bytes.len() / 1_000_000);

    let time = |what: &str, run: &dyn Fn()| {
        let best = (0..7)
            .map(|_| {
                let start = Instant::now();
                run();
                start.elapsed().as_secs_f64()
            })
            .fold(f64::MAX, f64::min);
        println!("{what:<24} {:6.1} ms {:6.2} GB/s", best * 1e3, bytes.len() as f64 / best / 1e9);
    };
    time("hash alone", &|| {
        std::hint::black_box(blake3::hash(&bytes));
    });
    time("copy alone", &|| {
        std::hint::black_box(bytes.clone());
    });
    time("encode", &|| encode(&key, set, KeyId([1; 16]), io::sink()).expect("the key conforms"));
    time("decode", &|| {
        std::hint::black_box(decode::<SeededBootstrapKey<u64>>(&bytes[..], &Expected::default()).expect("it is whole"));
    });
    time("verify", &|| {
        std::hint::black_box(EnvelopeReader::open(&bytes[..]).and_then(EnvelopeReader::verify).expect("it is whole"));
    });
}
