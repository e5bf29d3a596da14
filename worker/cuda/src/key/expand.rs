//! Preparation of keys on GPUs, part by part: the host copies bodies to the GPUs, which compute the
//! masks.

use bytemuck::Pod;
use cloakwork_tfhe::Torus;

use super::{Replica, Seeded};
use crate::{
    bench::Bench,
    gpu::{Buffer, DriverError, KeySwitchShape, Refilled, RotationShape, SeededRows, Stream, View},
};

/// Expands the rows of a key-switch key, in the form that products read.
pub(super) fn key_switch<S: Torus + Pod>(
    benches: &[Bench],
    shape: KeySwitchShape,
    seeded: Seeded<'_, S>,
    replicas: &[Replica],
) -> Result<(), DriverError> {
    let Seeded { seed, bodies } = seeded;
    let rows = SeededRows { seed, mask_words: shape.output_dimension, body_words: 1, modulus_log2: shape.modulus_log2 };
    expand(benches, replicas, rows, KeySwitchShape::STEP, bodies, |bench, replica, first, words| {
        bench.launcher(Stream::Keys).split_key(words, first, shape, replica.key_switch.all()?)
    })
}

/// Expands the polynomials of a bootstrap key in the order of its ciphertexts, and transforms each.
pub(super) fn bootstrap<T: Torus + Pod>(
    benches: &[Bench],
    shape: RotationShape,
    seeded: Seeded<'_, T>,
    replicas: &[Replica],
) -> Result<(), DriverError> {
    let Seeded { seed, bodies } = seeded;
    let (mask_words, body_words) = (shape.glwe_dimension * shape.polynomial_size, shape.polynomial_size);
    let rows = SeededRows { seed, mask_words, body_words, modulus_log2: T::BITS };
    let rows_of_ciphertext = shape.gadget.levels * (shape.glwe_dimension + 1);
    expand(benches, replicas, rows, rows_of_ciphertext, bodies, |bench, replica, first, words| {
        let spectra = replica.bootstrap.all()?.part(first * rows.words() / 2, words.len() / 2)?;
        bench.launcher(Stream::Keys).transform_key(words, replica.roots.all()?, shape, spectra)
    })
}

/// Expands a key's rows in parts of a multiple of `unit` rows. For each part, `use_up` gets the
/// first row and the words, and launches their conversion into the form that computations read.
fn expand<W: Torus + Pod>(
    benches: &[Bench],
    replicas: &[Replica],
    rows: SeededRows,
    unit: usize,
    bodies: &[W],
    use_up: impl Fn(&Bench, &Replica, usize, View<'_, W>) -> Result<(), DriverError>,
) -> Result<(), DriverError> {
    let staged = benches.iter().map(Bench::staged_bytes).min().unwrap_or(0);
    let part = unit * (staged / (unit * rows.words() * size_of::<W>())).max(1);
    let most = part.min(bodies.len().div_ceil(rows.body_words));
    // The marks of each stream serve one key at a time.
    let _turns: Vec<_> = benches.iter().map(Bench::key_turn).collect();
    let [body_bytes, word_bytes] = [rows.body_words, rows.words()].map(|words| most * words * size_of::<W>());
    let stages = benches.iter().map(|bench| Stage::new(bench, body_bytes, word_bytes));
    let mut stages = stages.collect::<Result<Vec<_>, _>>()?;
    let mut parts = bodies.chunks(part * rows.body_words).enumerate();
    let launched = parts.try_for_each(|(index, bodies)| {
        let first = index * part;
        stages.iter_mut().zip(replicas).try_for_each(|(stage, replica)| {
            let bench = stage.bench;
            let words = stage.expand(index, rows, first, bodies)?;
            use_up(bench, replica, first, words)
        })
    });
    // The wait covers all GPUs, also after a failed launch: memory that kernels still use must stay
    // until they have ended. If they never end, the device is lost, and a lost device frees no
    // memory.
    let ended = benches.iter().map(|bench| bench.finish(Stream::Keys, 0)).fold(Ok(()), Result::and);
    launched.and(ended)
}

/// Memory on a GPU for a part of a key in preparation: its words, and two buffers for its bodies.
/// Bodies are at most half of the words. The two buffers alternate, so that the next bodies are
/// copied while a part is computed.
struct Stage<'b> {
    bench: &'b Bench,
    bodies: [Refilled; 2],
    words: Buffer,
}

impl<'b> Stage<'b> {
    /// Memory of `bodies` bytes for each buffer of bodies, and of `words` bytes for the words.
    fn new(bench: &'b Bench, bodies: usize, words: usize) -> Result<Self, DriverError> {
        let place = |mark| Refilled::new(&bench.driver, bodies, Stream::Keys, mark);
        Ok(Self { bench, bodies: [place(0)?, place(1)?], words: Buffer::new(&bench.driver, words)? })
    }

    /// Launches the expansion of part `index` of a key, which begins with row `first`. The part
    /// overwrites the previous one. Kernels that are launched before the next part read this part's
    /// words.
    fn expand<W: Torus + Pod>(
        &mut self,
        index: usize,
        rows: SeededRows,
        first: usize,
        bodies: &[W],
    ) -> Result<View<'_, W>, DriverError> {
        let words = self.words.view(0, bodies.len() / rows.body_words * rows.words())?;
        let launcher = self.bench.launcher(Stream::Keys);
        let turn = index % self.bodies.len();
        self.bodies[turn].fill(bodies, |place| launcher.expand_rows(rows, first, place, words))?;
        Ok(words)
    }
}
