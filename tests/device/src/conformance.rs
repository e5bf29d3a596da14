//! Conformance suite of devices: work whose result is known from the plaintext, and work that must
//! be refused.

use std::time::{Duration, Instant};

use cloakwork_device::{Device, DeviceError, KeySlot, LutSlot, NO_TABLE, Term, Ticket, Wave, WaveError, self_test};
use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};
use cloakwork_tfhe::{Lut, LweList};

use crate::host::{Bench, Keys, Word};

/// Runs the whole suite, on toy sets of each word width and kind of key.
pub fn on_toys(device: &dyn Device) {
    self_test(device).expect("the known answers");
    for seed in 0..2 {
        shortint::<u64>(device, "TOY_MESSAGE_2_CARRY_2", seed, 200);
        shortint::<u32>(device, "TOY_MESSAGE_2_CARRY_2_KS32", seed, 200);
        shortint::<u64>(device, "TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2", seed, 70);
        boolean(device, "TOY_BOOLEAN", seed, 200);
        boolean(device, "TOY_BOOLEAN_KS_PBS", seed, 200);
    }
    random_graphs(device);
    width_changes_no_bit(device);
    refuses_bad_work(device);
    slots_in_use_are_guarded(device);
}

/// Mixes one table, a sum of two inputs, several functions, and a sum without a table in one wave.
pub fn shortint<S: Torus>(device: &dyn Device, name: &str, seed: u64, lanes: u32) {
    let mut keys = Keys::generate::<u64, S>(name, seed);
    let bench = Bench::new(device, &keys, u64::from(lanes) * 8);
    let messages: Vec<u64> = random(2 * lanes as usize, 4, seed);
    let inputs = keys.encrypt::<u64>(&messages);
    bench.write(0, &inputs);
    let one = bench.lut(&Lut::from_fn(keys.set, |x| (7 * x + 1) % 16).expect("a table"));
    let pair = bench.lut(&Lut::bivariate(keys.set, 4, |x, y| x * y % 4).expect("a table"));
    let many = bench.lut(&Lut::from_fns(keys.set, &[&|x| x, &|x| 15 - x, &|x| x * x % 16]).expect("a table"));
    let (mut wave, mut next, mut expected) = (Wave::default(), 2 * lanes, Vec::new());
    let tables = [wave.table(one), wave.table(pair), wave.table(many)];
    for lane in 0..lanes {
        let (x, y) = (messages[lane as usize], messages[(lane + lanes) as usize]);
        let (left, right) = (Term { slot: lane, factor: 1 }, Term { slot: lane + lanes, factor: 1 });
        let (terms, constant, table, results) = match lane % 4 {
            0 => (vec![left], 0, tables[0], vec![(7 * x + 1) % 16]),
            1 => (vec![Term { factor: 4, ..left }, right], 0, tables[1], vec![x * y % 4]),
            // The sum includes a message as a constant.
            2 => (vec![right], 1 << 59, tables[0], vec![(7 * (y + 1) + 1) % 16]),
            _ if y < 3 => (vec![left], 0, tables[2], vec![x, 15 - x, x * x]),
            _ => (vec![left, Term { factor: 2, ..right }], 0, NO_TABLE, vec![x + 2 * y]),
        };
        let outputs: Vec<u32> = (next..next + results.len() as u32).collect();
        next += results.len() as u32;
        expected.extend(results);
        wave.push(terms, constant, table, &outputs);
    }
    let outputs: Vec<u32> = (2 * lanes..next).collect();
    let poison = bench.poison::<u64>(&outputs);
    let stats = bench.run(wave).expect("work that can be done");
    let results = bench.read::<u64>(&outputs);
    assert!(
        results.iter().zip(poison.iter()).all(|(result, poison)| result != poison),
        "{name}: a slot kept its poison"
    );
    assert_eq!(keys.decrypt(&results), expected, "{name}, seed {seed}");
    assert_eq!(bench.read::<u64>(&(0..2 * lanes).collect::<Vec<_>>()), inputs, "{name}: inputs stay as they are");
    assert_eq!(stats.key_switch + stats.blind_rotate + stats.other, stats.ended - stats.began, "a partition");
    // The check requires only that neither time is zero. On a toy set, a busy machine can spend
    // more time between the passes than in them.
    assert!(!stats.key_switch.is_zero() && !stats.blind_rotate.is_zero(), "{name}: {stats:?}");
    finish(bench, &[one, pair, many]);
}

/// A gate: the factor of both inputs, the constant, and the gate's function of bits.
type Gate = (i64, u64, fn(bool, bool) -> bool);

/// Computes every gate on random pairs of bits, and negations as sums without a table, in one wave.
pub fn boolean(device: &dyn Device, name: &str, seed: u64, lanes: u32) {
    let mut keys = Keys::generate::<u32, u32>(name, seed);
    let bench = Bench::new(device, &keys, u64::from(lanes) * 4);
    let bits: Vec<u64> = random(2 * lanes as usize, 2, seed);
    bench.write(0, &keys.encrypt::<u32>(&bits));
    let sign = bench.lut(&Lut::<u32>::sign(keys.set.polynomial_size, 1 << 29));
    let eighth = 1u64 << 61;
    let gates: [Gate; 6] = [
        (1, eighth.wrapping_neg(), |x, y| x && y),
        (-1, eighth, |x, y| !(x && y)),
        (-1, eighth.wrapping_neg(), |x, y| !(x || y)),
        (1, eighth, |x, y| x || y),
        (-2, (2 * eighth).wrapping_neg(), |x, y| x == y),
        (2, 2 * eighth, |x, y| x != y),
    ];
    let (mut wave, mut expected) = (Wave::default(), Vec::new());
    let table = wave.table(sign);
    for lane in 0..lanes {
        let (x, y) = (bits[lane as usize] == 1, bits[(lane + lanes) as usize] == 1);
        let output = [2 * lanes + lane];
        match gates.get(lane as usize % 7) {
            Some(&(factor, constant, gate)) => {
                let terms = [Term { slot: lane, factor }, Term { slot: lane + lanes, factor }];
                wave.push(terms, constant, table, &output);
                expected.push(u64::from(gate(x, y)));
            }
            None => {
                wave.push([Term { slot: lane, factor: -1 }], 0, NO_TABLE, &output);
                expected.push(u64::from(!x));
            }
        }
    }
    let outputs: Vec<u32> = (2 * lanes..3 * lanes).collect();
    let poison = bench.poison::<u32>(&outputs);
    bench.run(wave).expect("work that can be done");
    let results = bench.read::<u32>(&outputs);
    assert!(
        results.iter().zip(poison.iter()).all(|(result, poison)| result != poison),
        "{name}: a slot kept its poison"
    );
    assert_eq!(keys.decrypt(&results), expected, "{name}, seed {seed}");
    finish(bench, &[sign]);
}

/// Computes layers of random sums and tables, a wave for each layer, and compares them with
/// plaintexts.
fn random_graphs(device: &dyn Device) {
    let mut keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 11);
    let bench = Bench::new(device, &keys, 4000);
    for seed in 0..20 {
        let choices = random(10_000, 1 << 20, 100 + seed);
        let mut choice = choices.into_iter();
        let mut pick = |below: usize| (choice.next().expect("enough choices") as usize) % below;
        let mut values: Vec<u64> = (0..8).map(|_| pick(4) as u64).collect();
        bench.write(0, &keys.encrypt::<u64>(&values));
        let mut luts = Vec::new();
        for _ in 0..4 {
            let known = values.len();
            let mut wave = Wave::default();
            for _ in 0..1 + pick(40) {
                // Two messages below four: the sum of one, times four, and the other stays below
                // sixteen.
                let (left, right) = (pick(known), pick(known));
                let table: Vec<u64> = (0..16).map(|_| pick(4) as u64).collect();
                let lut = bench.lut(&Lut::from_fn(keys.set, |x| table[x as usize]).expect("a table"));
                luts.push(lut);
                let index = wave.table(lut);
                let terms = [Term { slot: left as u32, factor: 4 }, Term { slot: right as u32, factor: 1 }];
                wave.push(terms, 0, index, &[values.len() as u32]);
                values.push(table[(4 * values[left] + values[right]) as usize]);
            }
            bench.run(wave).expect("work that can be done");
        }
        let slots: Vec<u32> = (0..values.len() as u32).collect();
        assert_eq!(keys.decrypt(&bench.read::<u64>(&slots)), values, "graph {seed}");
        luts.into_iter().for_each(|lut| device.evict_lut(lut));
    }
    finish(bench, &[]);
}

/// A lane's result has the same bits, whatever the other lanes of its wave.
fn width_changes_no_bit(device: &dyn Device) {
    let mut keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 5);
    let bench = Bench::new(device, &keys, 1000);
    let lut = bench.lut(&Lut::from_fn(keys.set, |x| 15 - x).expect("a table"));
    let inputs = keys.encrypt::<u64>(&random(150, 16, 9));
    bench.write(0, &inputs);
    let run = |lanes: std::ops::Range<u32>| {
        let mut wave = Wave::default();
        let table = wave.table(lut);
        lanes.clone().for_each(|slot| wave.push([Term { slot, factor: 1 }], 0, table, &[slot + 200]));
        bench.run(wave).expect("work that can be done");
        bench.read::<u64>(&lanes.map(|slot| slot + 200).collect::<Vec<_>>())
    };
    let together = run(0..150);
    for lane in [0, 15, 16, 63, 64, 74, 75, 149] {
        assert_eq!(run(lane..lane + 1).get(0), together.get(lane as usize), "lane {lane} alone");
    }
    assert_eq!(run(30..97).words(), &together.words()[30 * (inputs.dimension() + 1)..97 * (inputs.dimension() + 1)]);
    finish(bench, &[lut]);
}

/// Impossible work is an error and leaves the device unchanged.
fn refuses_bad_work(device: &dyn Device) {
    let mut keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 6);
    let boolean = Keys::generate::<u32, u32>("TOY_BOOLEAN", 6);
    let bench = Bench::new(device, &keys, 50);
    let other = Bench::new(device, &boolean, 50);
    let (lut, sign) = (
        bench.lut(&Lut::from_fn(keys.set, |x| x).expect("a table")),
        other.lut(&Lut::<u32>::sign(boolean.set.polynomial_size, 1 << 29)),
    );
    let inputs = keys.encrypt::<u64>(&[1, 2, 3, 4]);
    bench.write(0, &inputs);
    let slots = bench.arena.slots;
    let wave = |input: u32, lut: LutSlot, outputs: &[u32]| {
        let mut wave = Wave::default();
        let table = wave.table(lut);
        wave.push([Term { slot: input, factor: 1 }], 0, table, outputs);
        wave
    };
    let bad = |wave: Wave| bench.run(wave).expect_err("bad work");
    assert!(matches!(bad(wave(slots, lut, &[9])), DeviceError::BadWork(WaveError::SlotOutOfRange { .. })));
    assert!(matches!(bad(wave(0, lut, &[u32::MAX])), DeviceError::BadWork(WaveError::SlotOutOfRange { .. })));
    assert!(matches!(bad(wave(0, lut, &[8, 9])), DeviceError::BadWork(WaveError::WrongOutputs { .. })));
    assert!(matches!(bad(wave(20, lut, &[9])), DeviceError::BadWork(WaveError::Unwritten { slot: 20, .. })));
    assert!(matches!(bad(wave(0, lut, &[0])), DeviceError::BadWork(WaveError::Conflict { slot: 0, .. })));
    assert!(matches!(bad(wave(0, LutSlot(u64::MAX), &[9])), DeviceError::UnknownHandle { what: "table" }));
    assert!(matches!(bad(wave(0, sign, &[9])), DeviceError::WrongSet { .. }));
    let nothing = KeySlot { number: u64::MAX, bytes: 0 };
    assert!(matches!(device.submit(nothing, bench.arena, wave(0, lut, &[9])), Err(DeviceError::UnknownHandle { .. })));
    assert!(matches!(device.submit(other.key, bench.arena, wave(0, lut, &[9])), Err(DeviceError::WrongSet { .. })));
    let ticket = device.wait(Ticket(u64::MAX), Instant::now());
    assert!(matches!(ticket, Err(DeviceError::UnknownHandle { what: "ticket" })));
    let narrow = LweList::<u32>::zeros(keys.set.input_dimension(), 1);
    assert!(matches!(device.write(bench.arena, &[9], Word::words(narrow.words())), Err(DeviceError::WrongSet { .. })));
    let short: &[u64] = &[1, 2, 3];
    assert!(matches!(device.write(bench.arena, &[9], Word::words(short)), Err(DeviceError::Shape(_))));
    assert!(matches!(device.create_arena(keys.set, 10), Err(DeviceError::OutOfMemory { .. })));

    // Key parts that are corrupt, truncated, missing, or another key's.
    let mut corrupt = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 6);
    corrupt.parts[1][5000] ^= 1;
    assert!(matches!(device.load_key(&corrupt), Err(DeviceError::BadKeyPart { part: 1, .. })));
    corrupt.parts[1].truncate(5000);
    assert!(matches!(device.load_key(&corrupt), Err(DeviceError::BadKeyPart { part: 1, .. })));
    corrupt.parts.truncate(1);
    assert!(matches!(device.load_key(&corrupt), Err(DeviceError::MissingKeyPart { .. })));
    corrupt.parts = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 7).parts;
    assert!(matches!(device.load_key(&corrupt), Err(DeviceError::BadKeyPart { part: 0, .. })), "another's key");

    // The device still works, with an empty wave and a full one.
    bench.run(Wave::default()).expect("nothing to do");
    bench.run(wave(2, lut, &[9])).expect("good work");
    assert_eq!(keys.decrypt(&bench.read::<u64>(&[9])), [3]);
    assert_eq!(bench.read::<u64>(&[0, 1, 2, 3]), inputs);
    finish(other, &[sign]);
    finish(bench, &[lut]);
}

/// While a wave runs, its slots cannot be written, and its results cannot be read.
fn slots_in_use_are_guarded(device: &dyn Device) {
    let mut keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 8);
    let bench = Bench::new(device, &keys, 5000);
    let lut = bench.lut(&Lut::from_fn(keys.set, |x| x).expect("a table"));
    bench.write(0, &keys.encrypt::<u64>(&random(2000, 16, 1)));
    let mut wave = Wave::default();
    let table = wave.table(lut);
    (0..2000).for_each(|slot| wave.push([Term { slot, factor: 1 }], 0, table, &[slot + 2000]));
    let mut dependent = Wave::default();
    let table = dependent.table(lut);
    dependent.push([Term { slot: 2000, factor: 1 }], 0, table, &[4500]);
    let ticket = device.submit(bench.key, bench.arena, wave).expect("good work");
    let refused = device.submit(bench.key, bench.arena, dependent.clone());
    assert!(
        matches!(refused, Err(DeviceError::BadWork(WaveError::Conflict { .. } | WaveError::Unwritten { .. }))),
        "{refused:?}"
    );
    let early = device.wait(ticket, Instant::now());
    assert!(matches!(early, Err(DeviceError::NotDone(_))), "{early:?}");
    device.wait(ticket, Instant::now() + Duration::from_secs(120)).expect("an end");
    bench.run(dependent).expect("what it depends on is there");
    let again = device.wait(ticket, Instant::now());
    assert!(matches!(again, Err(DeviceError::UnknownHandle { what: "ticket" })), "{again:?}");
    finish(bench, &[lut]);
}

fn finish(bench: Bench<'_>, luts: &[LutSlot]) {
    bench.device.drop_arena(bench.arena);
    luts.iter().for_each(|lut| bench.device.evict_lut(*lut));
    bench.device.evict_key(bench.key);
    let gone = bench.device.submit(bench.key, bench.arena, Wave::default());
    assert!(matches!(gone, Err(DeviceError::UnknownHandle { .. })), "{gone:?}");
}

/// Repeatable pseudorandom numbers below `below`.
fn random(count: usize, below: u64, seed: u64) -> Vec<u64> {
    let mut words = vec![0; count];
    MaskStream::new(&MaskSeed { key: u128::from(seed) + 1, block: 0, byte: 0 }).fill(64, &mut words);
    words.into_iter().map(|word: u64| (word >> 8) % below).collect()
}
