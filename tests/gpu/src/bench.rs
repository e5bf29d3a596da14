//! The measurement.

use std::time::{Duration, Instant};

use cloakwork_device::{Device, LutSlot, Term, Wave, WorkStats, by_words};
use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet, table};
use cloakwork_tests_device::host::{Bench, Keys, Word};
use cloakwork_tfhe::{Lut, LweList};

use crate::{Report, SetReport, WidthReport};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Parameter sets, by name.
    pub sets: Vec<String>,
    /// Widths of waves.
    pub widths: Vec<usize>,
    /// How long each width is timed, at least.
    pub time: Duration,
    /// Waves of each width, at least.
    pub waves: usize,
    /// Bootstraps of each set that are decrypted, at least.
    pub checked: u64,
}

/// Measures a device. A set that it does not serve is no reason to stop, but is left out.
pub fn bench(device: &dyn Device, plan: &Plan) -> Report {
    let info = device.describe();
    let sets = plan.sets.iter().map(|name| table::by_name(name).expect("a set of that name"));
    let served = sets.filter(|set| info.sets.iter().any(|served| served.id == set.id));
    let sets = served.filter_map(|set| by_words!(set, set_report(device, set, plan)));
    Report { device: info.name.clone(), sets: sets.collect() }
}

fn set_report<T: Word, S: Torus>(device: &dyn Device, set: &'static ParameterSet, plan: &Plan) -> SetReport {
    let widest = plan.widths.iter().copied().max().unwrap_or(1);
    let mut lanes = Lanes::<T>::new::<S>(device, set, widest);
    let began = Instant::now();
    let again = device.load_key(&lanes.keys).expect("a key that fits");
    let key_load_ms = began.elapsed().as_secs_f64() * 1e3;
    device.evict_key(again);
    let widths = plan.widths.iter().map(|width| lanes.time(*width, plan)).collect();
    while lanes.checked < plan.checked {
        lanes.run(widest);
    }
    let (checked, wrong) = (lanes.checked, lanes.wrong);
    lanes.end();
    SetReport { set: set.name.to_owned(), key_load_ms, key_bytes: again.bytes, widths, checked, wrong }
}

/// Ciphertexts on a device, a table, and what should come of them.
struct Lanes<'d, T: Word> {
    bench: Bench<'d>,
    keys: Keys,
    inputs: LweList<T>,
    lut: LutSlot,
    expected: Vec<u64>,
    checked: u64,
    wrong: u64,
}

impl<'d, T: Word> Lanes<'d, T> {
    fn new<S: Torus>(device: &'d dyn Device, set: &'static ParameterSet, widest: usize) -> Self {
        let mut keys = Keys::generate::<T, S>(set.name, 1);
        let bench = Bench::new(device, &keys, 2 * widest as u64);
        // Whatever comes, in no order.
        let draw = |index: usize, below: u64| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 & (below - 1);
        let (messages, expected, lut): (Vec<u64>, Vec<u64>, _) = match set.encoding {
            Encoding::Boolean => {
                let bits: Vec<u64> = (0..widest).map(|index| draw(index, 2)).collect();
                let lut = Lut::<T>::sign(set.polynomial_size, T::from_u64(1 << (T::BITS - 3)));
                (bits.clone(), bits, bench.lut(&lut))
            }
            Encoding::Shortint { message_modulus, carry_modulus, .. } => {
                let values = message_modulus * carry_modulus;
                let messages: Vec<u64> = (0..widest).map(|index| draw(index, values)).collect();
                let function = move |x: u64| (7 * x + 3) % values;
                let lut = bench.lut(&Lut::from_fn(set, function).expect("a table"));
                (messages.clone(), messages.into_iter().map(function).collect(), lut)
            }
        };
        let inputs = keys.encrypt::<T>(&messages);
        bench.write(0, &inputs);
        Self { bench, keys, inputs, lut, expected, checked: 0, wrong: 0 }
    }

    /// One wave, its results decrypted. Also the time with ciphertexts written before and read after.
    fn run(&mut self, width: usize) -> (WorkStats, Duration) {
        let mut wave = Wave::default();
        let table = wave.table(self.lut);
        let (inputs, outputs): (Vec<u32>, Vec<u32>) = (0..width as u32).map(|lane| (lane, lane + width as u32)).unzip();
        for (input, output) in inputs.iter().zip(&outputs) {
            wave.push([Term { slot: *input, factor: 1 }], 0, table, &[*output]);
        }
        let words = width * (self.inputs.dimension() + 1);
        let began = Instant::now();
        self.bench
            .device
            .write(self.bench.arena, &inputs, T::words(&self.inputs.words()[..words]))
            .expect("slots that are free");
        let stats = self.bench.run(wave).expect("work that can be done");
        let results = self.bench.read::<T>(&outputs);
        let took = began.elapsed();
        let got = self.keys.decrypt(&results);
        self.checked += width as u64;
        self.wrong += got.iter().zip(&self.expected).filter(|(got, expected)| got != expected).count() as u64;
        (stats, took)
    }

    fn time(&mut self, width: usize, plan: &Plan) -> WidthReport {
        // The first one makes the device ready.
        self.run(width);
        let (began, mut runs) = (Instant::now(), Vec::new());
        while runs.len() < plan.waves || began.elapsed() < plan.time {
            runs.push(self.run(width));
        }
        let of = |part: fn(&(WorkStats, Duration)) -> Duration, share: f64| {
            let mut times: Vec<Duration> = runs.iter().map(part).collect();
            times.sort_unstable();
            let index = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1;
            times[index].as_secs_f64() * 1e6
        };
        let median_us = of(|(stats, _)| stats.ended - stats.began, 0.5);
        WidthReport {
            width,
            waves: runs.len(),
            median_us,
            p99_us: of(|(stats, _)| stats.ended - stats.began, 0.99),
            key_switch_us: of(|(stats, _)| stats.key_switch, 0.5),
            blind_rotate_us: of(|(stats, _)| stats.blind_rotate, 0.5),
            with_transfers_us: of(|(_, took)| *took, 0.5),
            per_second: width as f64 / median_us * 1e6,
        }
    }

    fn end(self) {
        self.bench.device.evict_lut(self.lut);
        self.bench.device.drop_arena(self.bench.arena);
        self.bench.device.evict_key(self.bench.key);
    }
}
