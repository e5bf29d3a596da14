//! Keys made ready on GPUs: bodies are copied to them, masks are computed there, part by part.

use bytemuck::Pod;
use cloakwork_tfhe::Torus;

use super::{Replica, Seeded};
use crate::{
    bench::Bench,
    gpu::{Buffer, DriverError, KeySwitchShape, Refilled, RotationShape, SeededRows, Stream, View},
};

/// The rows of a key-switch key, as products read them.
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

/// The polynomials of a bootstrap key in the order of its ciphertexts, each transformed.
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

/// Expands a key's rows in parts, each a multiple of `unit` of them, and has `use_up` launch what makes a part ready for
/// computations, given its first row.
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
    // Each stream's marks are for one key at a time.
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
    // Also where not everything could be launched, and on all GPUs where one fails: memory that kernels still use stays until
    // they have ended. If they never do, it stays for good: the device is lost then, and gives none back.
    let ended = benches.iter().map(|bench| bench.finish(Stream::Keys, 0)).fold(Ok(()), Result::and);
    launched.and(ended)
}

/// Room on a GPU for a part of a key on its way: its words, and twice its bodies, which are half of them at most. The two places
/// of bodies take turns, so that the next ones are copied while a part is computed.
struct Stage<'b> {
    bench: &'b Bench,
    bodies: [Refilled; 2],
    words: Buffer,
}

impl<'b> Stage<'b> {
    /// With so many bytes for bodies and for words.
    fn new(bench: &'b Bench, bodies: usize, words: usize) -> Result<Self, DriverError> {
        let place = |mark| Refilled::new(&bench.driver, bodies, Stream::Keys, mark);
        Ok(Self { bench, bodies: [place(0)?, place(1)?], words: Buffer::new(&bench.driver, words)? })
    }

    /// Launches the expansion of part `index` of a key, which begins with row `first`, where the part before it was. Whatever is
    /// launched before the next part has its words.
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
