//! Times to make, write and read the parts of a key. A worker reads all parts before the first job
//! of a key.

use cloakwork_ckks::{
    KeyPart, KeyPlan, Ring, SwitchKey,
    format::{decode, encode},
};
use cloakwork_params::ckks::CkksSet;
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use serde_json::{Value, json};

use crate::{
    seconds,
    sets::{SETS, set},
};

/// Number of measured parts. All stay in memory, as in a worker, so that each allocates its memory
/// from the system.
const PARTS: i64 = 8;

/// Seconds of each step of a part, summed over all parts.
#[derive(Default)]
struct Times {
    make: f64,
    write: f64,
    read: f64,
    expand: f64,
}

pub(crate) fn measure(is_quick: bool) -> Vec<Value> {
    println!(
        "| keys, all threads | part, MB as stored | in memory | seconds a GB as stored: make | write | read, one thread | masks | read and masks: GB a second |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let rows = SETS.iter().map(|name| measure_one(set(name, is_quick))).collect();
    println!();
    rows
}

fn measure_one(set: &'static CkksSet) -> Value {
    let (ring, threads) = (Ring::new(set), cloakwork_tests_machine::cores());
    let mut randomness = Randomness::from_os().expect("randomness");
    let key = SecretKey::generate(set, &mut randomness).expect("a key");
    let mut plan = KeyPlan::default();
    (0..PARTS).for_each(|part| plan.rotation(&ring, part + 1, set.level_max()));
    let generator = KeyGenerator::new(&key, &ring);
    let mut parts = generator.parts(&plan, &mut randomness).expect("a plan of the set");
    let (mut times, mut stored, mut kept) = (Times::default(), 0, Vec::new());
    loop {
        let mut made = None;
        let make = seconds(|| made = parts.next());
        let Some(made) = made else { break };
        let (made, mut bytes) = (made.expect("a part"), Vec::new());
        times.make += make;
        times.write += seconds(|| encode(&made, &ring, key.key_id(), &mut bytes).expect("a part of the set"));
        drop(made);
        stored += bytes.len();
        let mut read = None;
        times.read += seconds(|| read = decode::<KeyPart>(&bytes[..], &ring, Some(key.key_id())).ok());
        let read = read.expect("what was written").object.key;
        times.expand += seconds(|| kept.extend(SwitchKey::expand_on(&ring, read, threads)));
    }
    assert_eq!(kept.len(), PARTS as usize, "all parts are of the ring");
    let held: usize = kept.iter().map(SwitchKey::bytes).sum();
    let gigabytes = stored as f64 / 1e9;
    let [make, write, read, expand] = [times.make, times.write, times.read, times.expand].map(|time| time / gigabytes);
    let megabytes = |bytes: usize| bytes as f64 / 1e6 / PARTS as f64;
    println!(
        "| {} | {:.0} | {:.0} | {make:.2} | {write:.2} | {read:.2} | {expand:.2} | {:.2} |",
        set.name,
        megabytes(stored),
        megabytes(held),
        1.0 / (read + expand),
    );
    json!({
        "set": set.name, "parts": PARTS, "stored_bytes": stored, "held_bytes": held, "threads": threads,
        "make_seconds_per_gb": make, "write_seconds_per_gb": write, "read_seconds_per_gb": read, "masks_seconds_per_gb": expand,
    })
}
