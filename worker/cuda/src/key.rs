//! Evaluation keys in a GPU's memory, for all widths of words.

mod expand;
mod sweep;
mod warm;

use std::sync::Arc;

use bytemuck::Pod;
use cloakwork_device::{DeviceError, KeySource, SeededParts, by_words};
use cloakwork_math::random::MaskSeed;
use cloakwork_params::{ModulusSwitch, Order, ParameterSet};
use cloakwork_tfhe::{ServerKey, StageTimes, Torus};

use crate::{
    bench::Bench,
    gpu::{
        BootstrapKeyViews, Buffer, Complex, Description, DriverError, KeySwitchShape, Line, Lists, Places,
        RotationShape, RotationViews, Stream, View,
    },
    run::{Run, RunKey, Stopwatch},
    workspace::Workspace,
};

pub(crate) use self::{
    sweep::Sweep,
    warm::{KeyName, WarmKeys},
};

/// An evaluation key in the memory of GPUs.
pub(crate) trait GpuKey: RunKey {
    /// Name of the key's copy in the host's memory, if keys are kept there.
    fn name(&self) -> Option<&KeyName>;

    /// Bytes of the key on each GPU.
    fn bytes(&self) -> u64;
}

/// Prepares a key on every GPU, from its copy in the host's memory or from its source.
pub(crate) fn load(benches: &[Bench], warm: &WarmKeys, source: &dyn KeySource) -> Result<Arc<dyn GpuKey>, DeviceError> {
    let set = source.set();
    by_words!(set, typed(benches, warm, source)).unwrap_or(Err(DeviceError::UnsupportedSet { set: set.name }))
}

/// Bytes of a key of `set` on each GPU; 0 if no key of this set is possible.
pub(crate) fn bytes(set: &ParameterSet) -> u64 {
    by_words!(set, bytes_of(set)).unwrap_or(0)
}

/// Whether a GPU computes waves of `set`.
pub fn serves(set: &ParameterSet, gpu: &Description) -> bool {
    // An arena has words of the big key's width. With the bootstrap first, the arena holds
    // ciphertexts under the small key, whose words then need that width too.
    let same_words = set.torus.bits() == set.small_word_bits();
    let has_words = by_words!(set, bytes_of(set)).is_some();
    let has_kernels = rotation_shape(set).is_possible() && key_switch_shape(set).is_possible();
    let has_room = rotation_shape(set).fits(set.torus.bits(), gpu);
    has_words && has_kernels && has_room && (set.order == Order::KeySwitchFirst || same_words)
}

fn bytes_of<T, S>(set: &ParameterSet) -> u64 {
    // A spectrum consists of doubles, for any width of the big key's words.
    let _ = size_of::<T>();
    (key_switch_bytes::<S>(set) + rotation_shape(set).key_polynomials() * spectrum_bytes(set)) as u64
}

fn key_switch_bytes<S>(set: &ParameterSet) -> usize {
    key_switch_shape(set).key_lines(8 * size_of::<S>() as u32) * size_of::<Line>()
}

fn spectrum_bytes(set: &ParameterSet) -> usize {
    set.polynomial_size / 2 * size_of::<Complex>()
}

/// Shape of a blind rotation of `set`.
pub fn rotation_shape(set: &ParameterSet) -> RotationShape {
    RotationShape {
        steps: set.rotation_steps(),
        grouping: set.grouping,
        glwe_dimension: set.glwe_dimension,
        polynomial_size: set.polynomial_size,
        gadget: set.bootstrap,
    }
}

/// Shape of a key switch of `set`: the decomposition of words and the rounding of bodies.
fn key_switch_shape(set: &ParameterSet) -> KeySwitchShape {
    KeySwitchShape {
        input_dimension: set.big_dimension(),
        output_dimension: set.lwe_dimension,
        gadget: set.key_switch,
        modulus_log2: set.small_modulus_log2,
    }
}

fn typed<T: Torus + Pod, S: Torus + Pod>(
    benches: &[Bench],
    warm: &WarmKeys,
    source: &dyn KeySource,
) -> Result<Arc<dyn GpuKey>, DeviceError> {
    let set = source.set();
    if !benches.iter().all(|bench| serves(set, bench.driver.describe())) {
        return Err(DeviceError::UnsupportedSet { set: set.name });
    }
    let name = KeyName::of(source);
    if let Some(kept) = name.as_ref().and_then(|name| warm.get(name)) {
        let key = ready::<T, S>(benches, set, name.clone(), kept.key_switch()?, kept.bootstrap()?)?;
        name.iter().for_each(|name| warm.was_loaded(name));
        return Ok(key);
    }
    let parts = SeededParts::<T, S>::read(source)?;
    ServerKey::<T, S>::check(set, &parts.key_switch, &parts.bootstrap)?;
    let key_switch = Seeded { seed: *parts.key_switch.seed(), bodies: parts.key_switch.bodies() };
    let bootstrap = Seeded { seed: *parts.bootstrap.seed(), bodies: parts.bootstrap.bodies() };
    let key = ready::<T, S>(benches, set, name.clone(), key_switch, bootstrap)?;
    if let (Some(name), Some(first)) = (name, benches.first()) {
        warm.keep(name, &first.driver, key_switch, bootstrap);
    }
    Ok(key)
}

/// One half of a key as stored, with the sizes that its set prescribes.
#[derive(Clone, Copy)]
pub(crate) struct Seeded<'k, W> {
    /// Seed of the masks.
    seed: MaskSeed,
    bodies: &'k [W],
}

fn ready<T: Torus + Pod, S: Torus + Pod>(
    benches: &[Bench],
    set: &'static ParameterSet,
    name: Option<KeyName>,
    key_switch: Seeded<'_, S>,
    bootstrap: Seeded<'_, T>,
) -> Result<Arc<dyn GpuKey>, DriverError> {
    let empty = |bench: &Bench| {
        Ok(Replica {
            key_switch: Buffer::new(&bench.driver, key_switch_bytes::<S>(set))?,
            bootstrap: Buffer::new(&bench.driver, rotation_shape(set).key_polynomials() * spectrum_bytes(set))?,
            roots: bench.roots(set.polynomial_size)?,
        })
    };
    let replicas = benches.iter().map(empty).collect::<Result<Vec<_>, DriverError>>()?;
    expand::key_switch(benches, key_switch_shape(set), key_switch, &replicas)?;
    expand::bootstrap(benches, rotation_shape(set), bootstrap, &replicas)?;
    Ok(Arc::new(TypedKey::<T, S> { set, name, replicas, words: std::marker::PhantomData }))
}

/// A key on one GPU.
struct Replica {
    key_switch: Buffer,
    bootstrap: Buffer,
    roots: Arc<Buffer>,
}

struct TypedKey<T, S> {
    set: &'static ParameterSet,
    name: Option<KeyName>,
    /// By GPU.
    replicas: Vec<Replica>,
    words: std::marker::PhantomData<fn() -> (T, S)>,
}

impl<T: Torus + Pod, S: Torus + Pod> TypedKey<T, S> {
    fn replica(&self, bench: &Bench) -> Result<&Replica, DriverError> {
        self.replicas.get(bench.number).ok_or(DriverError::Misfit("a key for each GPU"))
    }

    /// Switches ciphertexts to the small key.
    fn switch_key<'b>(
        &self,
        bench: &Bench,
        workspace: &mut Workspace<'b>,
        times: &mut Stopwatch<'_>,
        inputs: View<'b, T>,
    ) -> Result<View<'b, S>, DriverError> {
        let (shape, key) = (key_switch_shape(self.set), self.replica(bench)?.key_switch.all()?);
        let lanes = inputs.len() / (shape.input_dimension + 1);
        let digits = workspace.take(lanes * shape.digit_lines())?;
        let small = workspace.take(lanes * shape.columns())?;
        times.key_switch(|| bench.launcher(Stream::Waves).key_switch(inputs, key, shape, digits, small))?;
        Ok(small)
    }

    /// Rotates the table of each lane by its ciphertext, which is under the small key.
    fn rotate<'b, W: Torus + Pod>(
        &self,
        bench: &Bench,
        workspace: &mut Workspace<'b>,
        small: View<'b, W>,
        lists: &Lists<'_>,
        lanes: usize,
    ) -> Result<View<'b, T>, DriverError> {
        let (shape, launcher) = (rotation_shape(self.set), bench.launcher(Stream::Waves));
        let replica = self.replica(bench)?;
        let key = BootstrapKeyViews { spectra: replica.bootstrap.all()?, roots: replica.roots.all()? };
        let outputs = RotationViews {
            glwes: workspace.take(lanes * shape.glwe_words())?,
            scratch: workspace.take(lanes * shape.scratch_len())?,
        };
        if self.set.grouping > 1 {
            launcher.blind_rotate_groups(small, lists, key, shape, outputs)?;
        } else {
            let exponents = workspace.take(small.len())?;
            let centred = self.set.modulus_switch == ModulusSwitch::CenteredMean;
            let log2 = self.set.rotation_modulus_log2();
            launcher.modulus_switch(small, self.set.lwe_dimension, log2, centred, exponents)?;
            launcher.blind_rotate(exponents, lists, key, shape, outputs)?;
        }
        Ok(outputs.glwes)
    }
}

impl<T: Torus + Pod, S: Torus + Pod> GpuKey for TypedKey<T, S> {
    fn name(&self) -> Option<&KeyName> {
        self.name.as_ref()
    }

    fn bytes(&self) -> u64 {
        bytes(self.set)
    }
}

impl<T: Torus + Pod, S: Torus + Pod> RunKey for TypedKey<T, S> {
    fn set(&self) -> &'static ParameterSet {
        self.set
    }

    fn lane_bytes(&self, outputs: usize) -> usize {
        let (set, shape) = (self.set, rotation_shape(self.set));
        let digits = key_switch_shape(set).digit_lines() * size_of::<Line>();
        let (sum, small) = (set.ciphertext_bytes() as usize, digits + (set.lwe_dimension + 1) * size_of::<S>());
        let exponents = (set.lwe_dimension + 1) * size_of::<u32>();
        let rotation = shape.glwe_words() * size_of::<T>() + shape.scratch_len() * size_of::<Complex>();
        let switched = match set.order {
            Order::KeySwitchFirst => small,
            Order::BootstrapFirst => outputs * ((set.big_dimension() + 1) * size_of::<T>() + small),
        };
        sum + exponents + rotation + switched
    }

    fn run(&self, bench: &Bench, run: &Run, lanes: &[u32]) -> Result<StageTimes, DriverError> {
        let (set, shape) = (self.set, rotation_shape(self.set));
        let mut workspace = Workspace::new(&bench.workspace);
        let (launcher, mut times) = (bench.launcher(Stream::Waves), Stopwatch::new(bench));
        let arena = run.arena().words::<T>()?;
        let lists = run.lists(bench, lanes, &mut workspace)?;
        let sums: View<'_, T> = workspace.take(lanes.len() * (set.input_dimension() + 1))?;
        launcher.linear_combination(arena, &lists, sums, set.input_dimension())?;
        match set.order {
            Order::KeySwitchFirst => {
                let small = self.switch_key(bench, &mut workspace, &mut times, sums)?;
                let glwes = times.blind_rotate(|| self.rotate(bench, &mut workspace, small, &lists, lanes.len()))?;
                launcher.sample_extract(glwes, &lists, shape, Places::Slots(arena))?;
            }
            Order::BootstrapFirst => {
                let glwes = times.blind_rotate(|| self.rotate(bench, &mut workspace, sums, &lists, lanes.len()))?;
                let rows: View<'_, T> = workspace.take(lists.outputs() * (set.big_dimension() + 1))?;
                launcher.sample_extract(glwes, &lists, shape, Places::Rows(rows))?;
                let small = self.switch_key(bench, &mut workspace, &mut times, rows)?;
                launcher.store_rows(small.cast::<T>()?, &lists, set.lwe_dimension + 1, arena)?;
            }
        }
        times.end()
    }

    fn run_linear(&self, bench: &Bench, run: &Run, lanes: &[u32]) -> Result<StageTimes, DriverError> {
        let words = self.set.input_dimension() + 1;
        let mut workspace = Workspace::new(&bench.workspace);
        let (launcher, times) = (bench.launcher(Stream::Waves), Stopwatch::new(bench));
        let arena = run.arena().words::<T>()?;
        let lists = run.lists(bench, lanes, &mut workspace)?;
        let sums: View<'_, T> = workspace.take(lanes.len() * words)?;
        launcher.linear_combination(arena, &lists, sums, words - 1)?;
        launcher.store_rows(sums, &lists, words, arena)?;
        times.end()
    }
}
