//! Measures one device.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_device::{Device, LutSlot, Term, Wave, WorkStats, by_words};
use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet, table};
use cloakwork_tests_device::host::{Bench, Keys, Word};
use cloakwork_tfhe::{Lut, LweList};

use crate::{
    Meter, Plan, Report, SetReport, WidthReport,
    cases::CASES,
    programs::{self, takes_integers},
    report::Spread,
};

/// Measures a device, and its energy if there is a meter. A set that the device does not serve is
/// left out, and the run continues.
pub fn bench(device: &Arc<dyn Device>, meter: Option<&Meter>, plan: &Plan) -> Report {
    let info = device.describe();
    let sets = plan.sets.iter().map(|name| table::by_name(name).expect("a set of that name"));
    let served: Vec<_> = sets.filter(|set| info.sets.iter().any(|served| served.id == set.id)).collect();
    let mut report = Report { device: info.name, ..Report::default() };
    if let Some(set) = served.iter().find(|set| takes_integers(set)) {
        report.programs_set = set.name.to_owned();
        report.programs = programs::time(device, set, plan);
        let left_out = CASES[report.programs.len()..].iter().map(|case| case.name.to_owned());
        report.left_out.extend(left_out);
    }
    for (index, &set) in served.iter().enumerate() {
        // The sets that follow share the remaining time.
        let now = Instant::now();
        let ends = now + plan.ends.saturating_duration_since(now) / (served.len() - index) as u32;
        if now >= plan.ends {
            report.left_out.push(set.name.to_owned());
            continue;
        }
        if let Some(measured) = by_words!(set, set_report(device.as_ref(), meter, set, plan, ends)) {
            let left_out = plan.widths[measured.widths.len()..].iter();
            report.left_out.extend(left_out.map(|width| format!("{}, waves of {width}", set.name)));
            report.sets.push(measured);
        }
    }
    report
}

fn set_report<T: Word, S: Torus>(
    device: &dyn Device,
    meter: Option<&Meter>,
    set: &'static ParameterSet,
    plan: &Plan,
    ends: Instant,
) -> SetReport {
    let widest = plan.widths.iter().copied().max().unwrap_or(1);
    let mut lanes = Lanes::<T>::new::<S>(device, set, widest);
    let began = Instant::now();
    let again = device.load_key(&lanes.keys).expect("a key that fits");
    let key_load_ms = began.elapsed().as_secs_f64() * 1e3;
    device.evict_key(again);
    let has_time = || Instant::now() < plan.ends;
    let widths = plan.widths.iter().take_while(|_| has_time()).map(|width| lanes.time(*width, plan)).collect();
    let per_joule = meter.filter(|_| has_time()).and_then(|meter| lanes.per_joule(widest, meter, plan));
    while lanes.checked < plan.checked && Instant::now() < ends {
        lanes.run(widest);
    }
    let (checked, wrong) = (lanes.checked, lanes.wrong);
    lanes.end();
    SetReport { set: set.name.to_owned(), key_load_ms, key_bytes: again.bytes, widths, per_joule, checked, wrong }
}

/// Ciphertexts on a device, a table, and the expected results.
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
        // Pseudorandom messages.
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

    /// Runs one wave and decrypts its results. Also returns the time that includes writing the
    /// inputs and reading the outputs.
    fn run(&mut self, width: usize) -> (WorkStats, Duration) {
        let (wave, inputs, outputs) = self.wave(width);
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

    /// A wave, and the slots that it reads and writes.
    fn wave(&self, width: usize) -> (Wave, Vec<u32>, Vec<u32>) {
        let mut wave = Wave::default();
        let table = wave.table(self.lut);
        let (inputs, outputs): (Vec<u32>, Vec<u32>) = (0..width as u32).map(|lane| (lane, lane + width as u32)).unzip();
        for (input, output) in inputs.iter().zip(&outputs) {
            wave.push([Term { slot: *input, factor: 1 }], 0, table, &[*output]);
        }
        (wave, inputs, outputs)
    }

    /// Bootstraps per joule. Nothing is decrypted during the measurement, because the GPUs would be
    /// idle meanwhile.
    fn per_joule(&mut self, width: usize, meter: &Meter, plan: &Plan) -> Option<f64> {
        let (before, began, mut count) = (meter.joules()?, Instant::now(), 0);
        while count == 0 || began.elapsed() < plan.width_time && Instant::now() < plan.ends {
            self.bench.run(self.wave(width).0).expect("work that can be done");
            count += width;
        }
        let joules = meter.joules()? - before;
        (joules > 0.0).then(|| count as f64 / joules)
    }

    fn time(&mut self, width: usize, plan: &Plan) -> WidthReport {
        // The first wave warms the device up.
        self.run(width);
        let (began, mut runs) = (Instant::now(), Vec::new());
        let lasts = |waves: usize| {
            let now = Instant::now();
            waves == 0 || now < plan.ends && (waves < plan.waves || now - began < plan.width_time)
        };
        while lasts(runs.len()) {
            runs.push(self.run(width));
        }
        let of = |part: fn(&(WorkStats, Duration)) -> Duration| {
            Spread::of(runs.iter().map(|run| part(run).as_secs_f64() * 1e6).collect())
        };
        let Spread { median: median_us, p99: p99_us, max: max_us } = of(|(stats, _)| stats.ended - stats.began);
        WidthReport {
            width,
            waves: runs.len(),
            median_us,
            p99_us,
            max_us,
            key_switch_us: of(|(stats, _)| stats.key_switch).median,
            blind_rotate_us: of(|(stats, _)| stats.blind_rotate).median,
            with_transfers_us: of(|(_, took)| *took).median,
            per_second: width as f64 / median_us * 1e6,
        }
    }

    fn end(self) {
        self.bench.device.evict_lut(self.lut);
        self.bench.device.drop_arena(self.bench.arena);
        self.bench.device.evict_key(self.bench.key);
    }
}
