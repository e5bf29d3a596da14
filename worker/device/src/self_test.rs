//! Self-test with known answers: a device must pass it before it is given work.
//!
//! The vectors were made once, by `examples/vectors.rs`, on parameter sets that provide no
//! security. Their big key has a single 1 bit, in the first place. The phase of a result is
//! therefore its body minus its first word. Anyone can check the phase, and no secret key comes
//! near a device. The small key is an ordinary random key.
//!
//! The test verifies sums of slots bit by bit, and tables by phases within the bound. A ramp table
//! reveals the phase after the key switch and the modulus switch, as the exact exponent of the
//! rotation. One lane of each set also runs alone in a wave, because devices may take a different
//! code path for one lane than for many. The test cannot detect a key switch that is wrong only in
//! bits that the modulus switch rounds away.

use std::{
    io::{self, Read},
    time::{Duration, Instant},
};

use cloakwork_params::{Encoding, Expected, KeyId, ParameterSet, table};
use cloakwork_tfhe::{
    Lut, LweList, Torus,
    format::{CiphertextList, decode},
};

use crate::{
    Arena, Device, DeviceError, HostLut, KeySlot, KeySource, LutSlot, NO_TABLE, Term, Wave, Words, WordsMut, part_error,
};

/// A set, its key, inputs that hold 0, 1, 2 .., and the expected phases.
struct Vector {
    set: &'static str,
    parts: [&'static [u8]; 2],
    inputs: &'static [u8],
    expected: &'static [u8],
}

macro_rules! vector {
    ($set:literal) => {
        Vector {
            set: $set,
            parts: [
                include_bytes!(concat!("../vectors/", $set, ".key_switch")),
                include_bytes!(concat!("../vectors/", $set, ".bootstrap")),
            ],
            inputs: include_bytes!(concat!("../vectors/", $set, ".inputs")),
            expected: include_bytes!(concat!("../vectors/", $set, ".expected")),
        }
    };
}

/// Short polynomials for narrow vector units, long ones for wide units and for every pass of a
/// transform, and both word widths.
const VECTORS: [Vector; 6] = [
    vector!("TOY_MESSAGE_2_CARRY_2"),
    vector!("TOY_MESSAGE_2_CARRY_2_KS32"),
    vector!("TOY_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2"),
    vector!("TOY_MESSAGE_2_CARRY_2_N2048"),
    vector!("TOY_BOOLEAN_KS_PBS"),
    vector!("TOY_BOOLEAN_KS_PBS_N1024"),
];

/// Id of the vectors' keys.
const KEY_ID: KeyId = KeyId([0x7e; 16]);
/// Longest wait for a wave. A slow device that is busy otherwise needs no more.
const WAVE_TIMEOUT: Duration = Duration::from_secs(60);
/// Fills output slots beforehand, so that the test detects a slot that the device did not write.
const UNWRITTEN_WORD: u64 = 0x5555_5555_5555_5555;

/// Computes the vectors of all sets that the device serves, and checks the results.
pub fn self_test(device: &dyn Device) -> Result<(), DeviceError> {
    let served = device.describe().sets;
    for vector in &VECTORS {
        let Some(set) = table::by_name(vector.set).filter(|set| served.iter().any(|served| served.id == set.id)) else {
            continue;
        };
        let key = device.load_key(&Source { set, vector })?;
        let result = match set.encoding {
            Encoding::Boolean => test::<u32>(device, set, vector, key),
            Encoding::Shortint { .. } => test::<u64>(device, set, vector, key),
        };
        device.evict_key(key);
        result?;
    }
    Ok(())
}

struct Source<'a> {
    set: &'static ParameterSet,
    vector: &'a Vector,
}

impl KeySource for Source<'_> {
    fn set(&self) -> &'static ParameterSet {
        self.set
    }

    fn key_id(&self) -> KeyId {
        KEY_ID
    }

    fn parts(&self) -> usize {
        self.vector.parts.len()
    }

    fn open(&self, part: usize) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.vector.parts[part]))
    }
}

fn test<T: Word>(
    device: &dyn Device,
    set: &'static ParameterSet,
    vector: &Vector,
    key: KeySlot,
) -> Result<(), DeviceError> {
    let expected = Expected { set: Some(set), key_id: Some(KEY_ID) };
    let inputs = decode::<CiphertextList<LweList<T>>>(vector.inputs, &expected);
    let (inputs, _) = inputs.map_err(|problem| part_error(0, problem))?.object.into_parts();
    let phases: Vec<u64> = vector.expected.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let luts: Vec<LutSlot> =
        T::tables(set)?.iter().map(|lut| device.load_lut(set, T::lut(lut))).collect::<Result<_, _>>()?;
    let results = phases.len() + inputs.len() + 1;
    let words = set.input_dimension() + 1;
    let arena = device.create_arena(set, ((inputs.len() + results) * (words * size_of::<T>() + 256)) as u64)?;
    let result = run(device, arena, key, &inputs, &luts, phases.len());
    device.drop_arena(arena);
    luts.iter().for_each(|lut| device.evict_lut(*lut));
    check(set, &inputs, &phases, &result?)
}

/// Outputs of all bootstraps in the order of the expected phases, then three times each input minus
/// the next input plus a constant. The last entry is the output of the first bootstrap again, from
/// a wave of its own.
fn run<T: Word>(
    device: &dyn Device,
    arena: Arena,
    key: KeySlot,
    inputs: &LweList<T>,
    luts: &[LutSlot],
    bootstraps: usize,
) -> Result<LweList<T>, DeviceError> {
    let count = inputs.len() as u32;
    device.write(arena, &(0..count).collect::<Vec<u32>>(), T::words(inputs.words()))?;
    let outputs: Vec<u32> = (count..count + bootstraps as u32 + count + 1).collect();
    let mut results = LweList::zeros(inputs.dimension(), outputs.len());
    results.words_mut().fill(T::from_u64(UNWRITTEN_WORD));
    device.write(arena, &outputs, T::words(results.words()))?;
    let (mut wave, mut next) = (Wave::default(), outputs.iter().copied());
    let each = bootstraps / inputs.len();
    for slot in 0..count {
        let mut left = each;
        for (index, &lut) in luts.iter().enumerate() {
            // The last table takes all remaining results.
            let results = if index + 1 == luts.len() { left } else { 1 };
            left -= results;
            let table = wave.table(lut);
            let outputs: Vec<u32> = next.by_ref().take(results).collect();
            wave.push([Term { slot, factor: 1 }], 0, table, &outputs);
        }
    }
    for slot in 0..count {
        let terms = [Term { slot, factor: 3 }, Term { slot: (slot + 1) % count, factor: -1 }];
        let output: Vec<u32> = next.by_ref().take(1).collect();
        wave.push(terms, CONSTANT, NO_TABLE, &output);
    }
    let mut lone = Wave::default();
    let table = lone.table(luts[0]);
    lone.push([Term { slot: 0, factor: 1 }], 0, table, &next.collect::<Vec<u32>>());
    for wave in [wave, lone] {
        let ticket = device.submit(key, arena, wave)?;
        device.wait(ticket, Instant::now() + WAVE_TIMEOUT)?;
    }
    device.read(arena, &outputs, T::words_mut(results.words_mut()))?;
    Ok(results)
}

/// Constant added to the sums; it has set bits all over the word.
const CONSTANT: u64 = 0x1234_5678_9abc_def0;

fn check<T: Word>(
    set: &'static ParameterSet,
    inputs: &LweList<T>,
    phases: &[u64],
    results: &LweList<T>,
) -> Result<(), DeviceError> {
    let bound = ramp_step::<T>(set) / 2;
    let alone = phases.first().map(|phase| (phases.len() + inputs.len(), phase));
    for (lane, &expected) in phases.iter().enumerate().chain(alone) {
        let ciphertext = results.get(lane);
        let got = ciphertext[ciphertext.len() - 1].wrapping_sub(ciphertext[0]);
        if got.wrapping_sub(T::from_u64(expected)).to_i64().unsigned_abs() >= bound {
            return Err(DeviceError::SelfTest { set: set.name, lane, expected, bound, got: got.to_u64() });
        }
    }
    for index in 0..inputs.len() {
        let lane = phases.len() + index;
        let (left, right) = (inputs.get(index), inputs.get((index + 1) % inputs.len()));
        let last = left.len() - 1;
        for (place, got) in results.get(lane).iter().enumerate() {
            let constant = if place == last { T::from_u64(CONSTANT >> (64 - T::BITS)) } else { T::default() };
            let sum = left[place].wrapping_mul(T::from_u64(3)).wrapping_sub(right[place]).wrapping_add(constant);
            if *got != sum {
                let (expected, got) = (sum.to_u64(), got.to_u64());
                return Err(DeviceError::SelfTest { set: set.name, lane, expected, bound: 0, got });
            }
        }
    }
    Ok(())
}

/// Step of the ramp: a bootstrap with the ramp table returns the exponent of its rotation times
/// this step.
fn ramp_step<T: Torus>(set: &ParameterSet) -> u64 {
    1 << (T::BITS - 1 - set.rotation_modulus_log2())
}

/// The ramp table.
fn ramp<T: Torus>(set: &ParameterSet) -> Lut<T> {
    Lut::from_body((0..set.polynomial_size as u64).map(|index| T::from_u64(index * ramp_step::<T>(set))).collect())
}

/// A word type, and the tables for the self-test of its sets.
trait Word: Torus {
    fn tables(set: &ParameterSet) -> Result<Vec<Lut<Self>>, DeviceError>;
    fn lut(lut: &Lut<Self>) -> HostLut<'_>;
    fn words(words: &[Self]) -> Words<'_>;
    fn words_mut(words: &mut [Self]) -> WordsMut<'_>;
}

impl Word for u32 {
    fn tables(set: &ParameterSet) -> Result<Vec<Lut<Self>>, DeviceError> {
        Ok(vec![ramp(set), Lut::sign(set.polynomial_size, 1 << 29)])
    }

    fn lut(lut: &Lut<Self>) -> HostLut<'_> {
        HostLut::U32(lut)
    }

    fn words(words: &[Self]) -> Words<'_> {
        Words::U32(words)
    }

    fn words_mut(words: &mut [Self]) -> WordsMut<'_> {
        WordsMut::U32(words)
    }
}

impl Word for u64 {
    fn tables(set: &ParameterSet) -> Result<Vec<Lut<Self>>, DeviceError> {
        let lost = |error: cloakwork_tfhe::LutError| DeviceError::Lost { message: error.to_string() };
        let one = Lut::from_fn(set, |value| (5 * value + 3) % 16).map_err(lost)?;
        let two = Lut::from_fns(set, &[&|value| 15 - value, &|value| value * value % 16]).map_err(lost)?;
        Ok(vec![ramp(set), one, two])
    }

    fn lut(lut: &Lut<Self>) -> HostLut<'_> {
        HostLut::U64(lut)
    }

    fn words(words: &[Self]) -> Words<'_> {
        Words::U64(words)
    }

    fn words_mut(words: &mut [Self]) -> WordsMut<'_> {
        WordsMut::U64(words)
    }
}
