//! A wave in execution, cut into parts that GPUs take one by one.

use std::{
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use cloakwork_device::{DeviceError, NO_TABLE, Wave, WorkStats};
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::StageTimes;

use crate::{
    bench::Bench,
    gpu::{DriverError, GpuArena, Lists, Stream, Table, Work},
    locked::locked,
    workspace::{ALIGNMENT, Workspace},
};

/// The operations of a key that a wave uses.
pub(crate) trait RunKey: Send + Sync {
    /// The key's parameter set.
    fn set(&self) -> &'static ParameterSet;

    /// Bytes of workspace for a lane with a table of `outputs` outputs.
    fn lane_bytes(&self, outputs: usize) -> usize;

    /// Computes lanes of a wave on a GPU into their slots. Each of the lanes has a table.
    fn run(&self, bench: &Bench, run: &Run, lanes: &[u32]) -> Result<StageTimes, DriverError>;

    /// Computes lanes of a wave on a GPU into their slots. None of the lanes has a table.
    fn run_linear(&self, bench: &Bench, run: &Run, lanes: &[u32]) -> Result<StageTimes, DriverError>;
}

/// A wave with all its resources, until it has ended.
pub(crate) struct Run {
    key: Arc<dyn RunKey>,
    arena: Arc<GpuArena>,
    wave: Wave,
    tables: Vec<Arc<Table>>,
    /// Lanes with a table, then those without.
    order: Vec<u32>,
    /// Number of lanes with a table.
    tabled: usize,
    /// Ranges of `order`.
    parts: Vec<Range<usize>>,
    outcome: Arc<Outcome>,
}

/// Result of a wave, for its waiting callers.
#[derive(Default)]
pub(crate) struct Outcome {
    progress: Mutex<Progress>,
    ended: Condvar,
}

#[derive(Default)]
struct Progress {
    began: Option<Instant>,
    /// Wall time of all GPUs in total; `stages` has the GPU time of two of its stages.
    busy: Duration,
    stages: StageTimes,
    error: Option<DeviceError>,
    result: Option<Result<WorkStats, DeviceError>>,
}

impl Run {
    /// Checks a wave, claims its slots, and cuts it into parts.
    pub(crate) fn new(
        benches: &[Bench],
        key: Arc<dyn RunKey>,
        arena: Arc<GpuArena>,
        wave: Wave,
        tables: Vec<Arc<Table>>,
    ) -> Result<Self, DeviceError> {
        wave.check(arena.len(), |table| tables[table].outputs.len())?;
        arena.claim(&wave)?;
        let (mut order, linear): (Vec<u32>, Vec<u32>) =
            (0..wave.lanes().len() as u32).partition(|&lane| wave.lanes()[lane as usize].table != NO_TABLE);
        let tabled = order.len();
        order.extend(linear);
        let mut run = Self { key, arena, wave, tables, order, tabled, parts: Vec::new(), outcome: Arc::default() };
        run.parts = run.cut(benches, 0..tabled).chain(run.cut(benches, tabled..run.order.len())).collect();
        Ok(run)
    }

    pub(crate) fn set(&self) -> &'static ParameterSet {
        self.key.set()
    }

    pub(crate) fn arena(&self) -> &GpuArena {
        &self.arena
    }

    /// Number of bootstraps in the wave.
    pub(crate) fn width(&self) -> usize {
        self.tabled
    }

    /// Number of parts, which GPUs can compute at the same time.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }

    /// Computes a part on a GPU.
    pub(crate) fn compute(&self, part: usize, bench: &Bench) -> Result<(), DriverError> {
        let began = Instant::now();
        self.outcome.progress().began.get_or_insert(began);
        let part = &self.parts[part];
        let lanes = &self.order[part.clone()];
        let stages = match part.start < self.tabled {
            true => self.key.run(bench, self, lanes),
            false => self.key.run_linear(bench, self, lanes),
        }?;
        let mut progress = self.outcome.progress();
        progress.busy += began.elapsed();
        progress.stages.key_switch += stages.key_switch;
        progress.stages.blind_rotate += stages.blind_rotate;
        Ok(())
    }

    /// Records why a part was not computed.
    pub(crate) fn fail(&self, error: DeviceError) {
        self.outcome.progress().error = Some(error);
    }

    /// Drops a reference to the wave. The last reference ends the wave, after all its parts have
    /// ended. Resources that only this wave still held are released before the result is published.
    /// Returns the time that the wave took, if this was the last reference and the wave succeeded.
    pub(crate) fn end(run: Arc<Self>) -> Option<Duration> {
        let run = Arc::into_inner(run)?;
        let outcome = run.outcome.clone();
        let result = outcome.progress().finish();
        run.arena.release(&run.wave, result.is_ok());
        drop(run);
        let took = result.as_ref().ok().map(|stats| stats.ended - stats.began);
        outcome.progress().result = Some(result);
        outcome.ended.notify_all();
        took
    }

    /// Copies the lists of some lanes to a GPU.
    pub(crate) fn lists<'b>(
        &self,
        bench: &Bench,
        lanes: &[u32],
        workspace: &mut Workspace<'b>,
    ) -> Result<Lists<'b>, DriverError> {
        let (work, mut staging) = (Work::of(&self.wave, lanes, &self.tables), bench.staging());
        work.upload(bench.number, &self.tables, &mut |bytes| {
            let room = workspace.take(bytes.len())?;
            staging.send(bytes, room).map(|()| room)
        })
    }

    /// Cuts a range of `order` into parts, one for each GPU. A part has at least as many lanes as a
    /// GPU has multiprocessors, if that many are left: fewer would leave multiprocessors idle while
    /// other lanes wait. A part has at most the lanes that fit a workspace, and at least one.
    fn cut(&self, benches: &[Bench], lanes: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        // Alignment of the allocations, and the addresses of tables.
        let fixed = 16 * ALIGNMENT + self.tables.len() * size_of::<u64>();
        let room = benches.iter().map(|bench| bench.workspace.bytes()).min().unwrap_or(0).saturating_sub(fixed);
        let tile = benches.iter().map(|bench| bench.driver.describe().multiprocessors as usize).max().unwrap_or(1);
        let most = lanes.len().div_ceil(benches.len().max(1)).max(tile);
        let bytes = |index: usize| {
            let lane = self.order[index] as usize;
            let (terms, outputs) = (self.wave.terms(lane).len(), self.wave.outputs(lane).len());
            Work::bytes_of(terms, outputs) + self.key.lane_bytes(outputs)
        };
        let mut left = lanes;
        std::iter::from_fn(move || {
            let mut taken = 0;
            let fits = |index: &usize| {
                taken += bytes(*index);
                taken <= room
            };
            let count = left.clone().take(most).take_while(fits).count().max(1).min(left.len());
            let part = left.start..left.start + count;
            left.start = part.end;
            (!part.is_empty()).then_some(part)
        })
    }
}

impl Outcome {
    /// Waits for the result of the wave. Returns nothing if the deadline comes first.
    pub(crate) fn wait(&self, deadline: Instant) -> Option<Result<WorkStats, DeviceError>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.ended.wait_timeout_while(self.progress(), left, |progress| progress.result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.result.clone()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        locked(&self.progress)
    }
}

impl Progress {
    /// Splits the wall time in the proportions of the GPU time, because GPU clocks differ from the
    /// host's.
    fn finish(&mut self) -> Result<WorkStats, DeviceError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let ended = Instant::now();
        let began = self.began.unwrap_or(ended);
        let wall = ended - began;
        let share = |stage: Duration| match self.busy.as_nanos() {
            0 => Duration::ZERO,
            busy => Duration::from_nanos((wall.as_nanos() * stage.as_nanos().min(busy) / busy) as u64),
        };
        let key_switch = share(self.stages.key_switch);
        let blind_rotate = share(self.stages.blind_rotate).min(wall - key_switch);
        Ok(WorkStats { began, ended, key_switch, blind_rotate, other: wall - key_switch - blind_rotate })
    }
}

/// Measures the stages of a part by the GPU's clock.
pub(crate) struct Stopwatch<'b> {
    bench: &'b Bench,
    /// Marks recorded so far: two for each stage.
    marks: usize,
    key_switch_at: Option<usize>,
    blind_rotate_at: Option<usize>,
}

impl<'b> Stopwatch<'b> {
    pub(crate) fn new(bench: &'b Bench) -> Self {
        Self { bench, marks: 0, key_switch_at: None, blind_rotate_at: None }
    }

    /// Launches a key switch.
    pub(crate) fn key_switch<R>(&mut self, launch: impl FnOnce() -> Result<R, DriverError>) -> Result<R, DriverError> {
        self.key_switch_at = Some(self.marks);
        self.stage(launch)
    }

    /// Launches blind rotations.
    pub(crate) fn blind_rotate<R>(
        &mut self,
        launch: impl FnOnce() -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        self.blind_rotate_at = Some(self.marks);
        self.stage(launch)
    }

    /// Waits until everything that was launched has ended.
    pub(crate) fn end(self) -> Result<StageTimes, DriverError> {
        self.bench.finish(Stream::Waves, self.marks)?;
        let between = |at: Option<usize>| match at {
            Some(at) => self.bench.driver.between(Stream::Waves, at, at + 1),
            None => Ok(Duration::ZERO),
        };
        Ok(StageTimes { key_switch: between(self.key_switch_at)?, blind_rotate: between(self.blind_rotate_at)? })
    }

    fn stage<R>(&mut self, launch: impl FnOnce() -> Result<R, DriverError>) -> Result<R, DriverError> {
        self.bench.driver.mark(Stream::Waves, self.marks)?;
        let launched = launch()?;
        self.bench.driver.mark(Stream::Waves, self.marks + 1)?;
        self.marks += 2;
        Ok(launched)
    }
}
