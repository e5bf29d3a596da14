//! The bare core, which the service is compared with.

use std::{
    io::{self, Read},
    time::{Duration, Instant},
};

use cloakwork_client::{Encrypted, Keys, Source};
use cloakwork_device::{KeySource, SeededParts};
use cloakwork_params::{Expected, KeyId, ParameterSet};
use cloakwork_tests_service::VALUES;
use cloakwork_tfhe::{
    Lut, LweList, Scratch, SeededLweList, ServerKey,
    format::{CiphertextList, decode},
};

/// A key that is expanded in this process, with inputs for bootstraps.
pub(crate) struct Core {
    key: ServerKey<u64, u64>,
    scratches: Vec<Scratch<u64, u64>>,
    lut: Lut<u64>,
    /// A batch of the fastest width.
    inputs: LweList<u64>,
    one: LweList<u64>,
}

/// Bootstraps per thread of the batches that are tried. The bootstraps of the widest share one pass
/// over the key-switch key.
const WIDTHS: [usize; 3] = [16, 32, 64];

/// Number of trials of each width, which take turns, and duration of a trial.
const TRIALS: usize = 4;
const TRIAL: Duration = Duration::from_millis(700);

impl Core {
    pub(crate) fn new(keys: &Keys) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let set = keys.set();
        let parts = SeededParts::<u64, u64>::read(&InMemory(keys)).expect("parts of the key");
        let key = ServerKey::expand(set, &parts.key_switch, &parts.bootstrap, threads).expect("a key");
        let scratches = (0..threads).map(|_| key.scratch()).collect();
        let lut = Lut::from_fn(set, |x| x * x % VALUES).expect("a table");
        let encrypt = |count: usize| expanded(keys, &keys.encrypt(&vec![3; count], 15).expect("values"));
        let mut core = Self { key, scratches, lut, inputs: encrypt(1), one: encrypt(1) };
        let mut rates: [f64; WIDTHS.len()] = Default::default();
        let mut batches = WIDTHS.map(|width| encrypt(width * threads));
        for _ in 0..TRIALS {
            for (rate, batch) in rates.iter_mut().zip(&mut batches) {
                std::mem::swap(&mut core.inputs, batch);
                *rate = rate.max(core.batch(TRIAL));
                std::mem::swap(&mut core.inputs, batch);
            }
        }
        let best = rates.iter().zip(batches).max_by(|one, other| one.0.total_cmp(other.0));
        core.inputs = best.expect("several widths").1;
        core
    }

    pub(crate) fn threads(&self) -> usize {
        self.scratches.len()
    }

    /// Number of bootstraps in a batch.
    pub(crate) fn width(&self) -> usize {
        self.inputs.len()
    }

    /// Measures bootstraps per second, in batches on all threads.
    pub(crate) fn batch(&mut self, time: Duration) -> f64 {
        let mut outputs = LweList::zeros(self.inputs.dimension(), self.inputs.len());
        let luts = vec![&self.lut; self.inputs.len()];
        let begun = Instant::now();
        let mut done = 0;
        while begun.elapsed() < time {
            self.key.bootstrap(&self.inputs, &luts, &mut outputs, &mut self.scratches).expect("it fits");
            done += self.inputs.len();
        }
        done as f64 / begun.elapsed().as_secs_f64()
    }

    /// Measures the time of a single bootstrap.
    pub(crate) fn single(&mut self) -> Duration {
        let mut output = LweList::zeros(self.one.dimension(), 1);
        let begun = Instant::now();
        self.key.bootstrap(&self.one, &[&self.lut], &mut output, &mut self.scratches[..1]).expect("it fits");
        begun.elapsed()
    }
}

/// Expands an encrypted list for the core.
fn expanded(keys: &Keys, list: &Encrypted) -> LweList<u64> {
    let expected = Expected { set: Some(keys.set()), key_id: Some(keys.key_id()) };
    let decoded = decode::<CiphertextList<SeededLweList<u64>>>(&list.envelope[..], &expected).expect("a list of ours");
    decoded.object.into_parts().0.expand()
}

/// The parts of keys in memory.
struct InMemory<'k>(&'k Keys);

impl KeySource for InMemory<'_> {
    fn set(&self) -> &'static ParameterSet {
        self.0.set()
    }

    fn key_id(&self) -> KeyId {
        self.0.key_id()
    }

    fn parts(&self) -> usize {
        self.0.parts().len()
    }

    fn open(&self, part: usize) -> io::Result<Box<dyn Read + '_>> {
        match &self.0.parts()[part].source {
            Source::Bytes(bytes) => Ok(Box::new(&bytes[..])),
            Source::File(path) => Ok(Box::new(std::fs::File::open(path)?)),
        }
    }
}
