//! The path of a batch through the two halves: parts pass through the key switch, and their tiles
//! pass through the blind rotation. A thread that finishes a part takes the next one.

use std::{sync::Mutex, time::Instant};

use cloakwork_math::{Torus, external_product::accumulator};
use cloakwork_params::Order;

use super::{
    Scratch, ServerKey, StageTimes,
    parts::{PART_MAX, parts},
};
use crate::{
    Lut, LweList, ShapeError,
    blind_rotation::{TILE_MAX, blind_rotate, tile},
    key_switch::key_switch,
    sample_extract::sample_extract,
};

/// A batch to bootstrap, lane by lane.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'a, T> {
    /// Number of lanes.
    pub(crate) count: usize,
    /// Writes the input of a lane.
    pub(crate) load: &'a (dyn Fn(usize, &mut [T]) + Sync),
    /// Returns the lookup table of a lane.
    pub(crate) lut: &'a (dyn Fn(usize) -> &'a Lut<T> + Sync),
    /// If set, output i is the sum of this constant and the results of lanes 2i and 2i + 1.
    pub(crate) sum_pairs: Option<T>,
}

impl<'a, T: Torus> Lanes<'a, T> {
    /// Number of outputs of a range of lanes.
    fn outputs(&self, lanes: std::ops::Range<usize>) -> usize {
        let results: usize = lanes.map(|lane| (self.lut)(lane).outputs().len()).sum();
        if self.sum_pairs.is_some() { results / 2 } else { results }
    }
}

impl<T: Torus, S: Torus> ServerKey<T, S> {
    /// Checks the shapes once, then runs part after part with one thread per scratch.
    pub(crate) fn run(
        &self,
        lanes: Lanes<'_, T>,
        outputs: &mut LweList<T>,
        scratches: &mut [Scratch<T, S>],
    ) -> Result<(), ShapeError> {
        ShapeError::check("dimension of the outputs", self.set.input_dimension(), outputs.dimension())?;
        for lane in 0..lanes.count {
            let coefficients = (lanes.lut)(lane).body().len();
            ShapeError::check("coefficients of a lookup table", self.set.polynomial_size, coefficients)?;
        }
        ShapeError::check("outputs", lanes.outputs(0..lanes.count), outputs.len())?;
        if scratches.is_empty() {
            return Err(ShapeError { what: "scratches (at least)", expected: 1, got: 0 });
        }
        for scratch in &*scratches {
            let (expected, got) = (usize::from(self.set.id.0), usize::from(scratch.set.0));
            ShapeError::check("parameter set of a scratch", expected, got)?;
        }
        let words = self.set.input_dimension() + 1;
        let group = if lanes.sum_pairs.is_some() { 2 } else { 1 };
        let mut parts = parts(lanes.count, scratches.len(), self.tile(), group);
        let threads = parts.clone().take(scratches.len()).count();
        let mut rest = outputs.words_mut();
        let mut next = || {
            let part = parts.next()?;
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(lanes.outputs(part.clone()) * words);
            rest = others;
            Some((part, mine))
        };
        if let [scratch] = scratches {
            while let Some((part, outputs)) = next() {
                self.run_part(lanes, part, outputs, scratch);
            }
            return Ok(());
        }
        let next = Mutex::new(next);
        let take = || (next.lock().expect("nothing panics while it takes a part"))();
        std::thread::scope(|scope| {
            for scratch in scratches.iter_mut().take(threads) {
                scope.spawn(|| {
                    while let Some((part, outputs)) = take() {
                        self.run_part(lanes, part, outputs, scratch);
                    }
                });
            }
        });
        Ok(())
    }

    /// Runs one part from its inputs to its outputs.
    fn run_part(
        &self,
        lanes: Lanes<'_, T>,
        part: std::ops::Range<usize>,
        outputs: &mut [T],
        scratch: &mut Scratch<T, S>,
    ) {
        let words = self.set.input_dimension() + 1;
        for (lane, input) in part.clone().zip(scratch.inputs.chunks_exact_mut(words)) {
            (lanes.load)(lane, input);
        }
        let big_words = self.set.big_dimension() + 1;
        let Scratch { inputs, digits, small, rotation, accumulators, results, times, .. } = scratch;
        let inputs = &inputs[..part.len() * (self.set.input_dimension() + 1)];
        let mut outputs = outputs.chunks_exact_mut(self.set.input_dimension() + 1);
        match self.set.order {
            Order::KeySwitchFirst => {
                let small = &mut small[..part.len() * (self.set.lwe_dimension + 1)];
                let started = Instant::now();
                key_switch(&self.key_switch, inputs, small, digits).expect("shapes were checked");
                times.key_switch += started.elapsed();
                self.rotate_and_extract(lanes, part, small, accumulators, results, rotation, times, |results, _| {
                    let results = fold(lanes.sum_pairs, big_words, results).chunks_exact(big_words);
                    for (result, output) in results.zip(&mut outputs) {
                        output.copy_from_slice(result);
                    }
                });
            }
            Order::BootstrapFirst => {
                let small_words = self.set.lwe_dimension + 1;
                self.rotate_and_extract(
                    lanes,
                    part,
                    inputs,
                    accumulators,
                    results,
                    rotation,
                    times,
                    |results, times| {
                        let results = fold(lanes.sum_pairs, big_words, results);
                        let small = &mut small[..results.len() / big_words * small_words];
                        let started = Instant::now();
                        key_switch(&self.key_switch, results, small, digits).expect("shapes were checked");
                        times.key_switch += started.elapsed();
                        for (small, output) in small.chunks_exact(small_words).zip(&mut outputs) {
                            for (out, word) in output.iter_mut().zip(small) {
                                *out = T::from_u64(word.to_u64());
                            }
                        }
                    },
                );
            }
        }
    }

    /// Blind rotation and sample extraction, tile by tile. `give` receives at most [`PART_MAX`]
    /// results at a time: a table may have thousands of outputs, and working memory must not depend
    /// on their number.
    fn rotate_and_extract<U: Torus>(
        &self,
        lanes: Lanes<'_, T>,
        part: std::ops::Range<usize>,
        ciphertexts: &[U],
        accumulators: &mut [T],
        results: &mut [T],
        scratch: &mut crate::blind_rotation::Scratch<T>,
        times: &mut StageTimes,
        mut give: impl FnMut(&mut [T], &mut StageTimes),
    ) {
        let words = self.set.big_dimension() + 1;
        let mut filled = 0;
        let shape = self.bootstrap.shape();
        let tile = tile::<T>(shape);
        let tiles = ciphertexts.chunks(tile * (self.set.lwe_dimension + 1));
        for (first, ciphertexts) in part.clone().step_by(tile).zip(tiles) {
            let run = first..(first + tile).min(part.end);
            let mut luts = [&[][..]; TILE_MAX];
            for (lane, lut) in run.clone().zip(&mut luts) {
                *lut = (lanes.lut)(lane).body();
            }
            let accumulators = &mut accumulators[..run.len() * shape.accumulator_words::<T>()];
            let (rule, started) = (self.set.modulus_switch, Instant::now());
            blind_rotate(&self.bootstrap, rule, ciphertexts, &luts[..run.len()], accumulators, scratch);
            times.blind_rotate += started.elapsed();
            for (lane, accumulator) in run.zip(accumulators.chunks_exact(shape.accumulator_words::<T>())) {
                for &index in (lanes.lut)(lane).outputs() {
                    let polynomials = accumulator::polynomials(shape.polynomial_size, accumulator);
                    let result = &mut results[filled * words..][..words];
                    sample_extract(polynomials, shape.polynomial_size, index, result);
                    filled += 1;
                    if filled == PART_MAX {
                        give(results, times);
                        filled = 0;
                    }
                }
            }
        }
        if filled > 0 {
            give(&mut results[..filled * words], times);
        }
    }
}

/// Adds neighbouring results in place if the lanes ask for it.
fn fold<T: Torus>(sum_pairs: Option<T>, words: usize, results: &mut [T]) -> &[T] {
    let Some(constant) = sum_pairs else {
        return results;
    };
    let pairs = results.len() / (2 * words);
    for pair in 0..pairs {
        for word in 0..words {
            let sum = results[2 * pair * words + word].wrapping_add(results[(2 * pair + 1) * words + word]);
            results[pair * words + word] = sum;
        }
        let body = &mut results[pair * words + words - 1];
        *body = body.wrapping_add(constant);
    }
    &results[..pairs * words]
}
