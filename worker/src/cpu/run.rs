//! A wave in progress, cut into tasks that the threads take individually.

use std::{
    ops::Range,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use cloakwork_device::{DeviceError, HostLut, NO_TABLE, Wave, WorkStats, panic_message};
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{Lut, StageTimes, bootstrap::parts};

use super::{
    arena::{HostArena, SlotWords, Slots, Word, store},
    key::HostKey,
};
use crate::locked::Locked as _;

/// Number of lanes without a table in a task. Each of these lanes takes microseconds.
const LINEAR_TASK_LANES: usize = 512;

/// A table in host memory.
#[derive(Clone)]
pub(super) enum LoadedLut {
    U32(Arc<Lut<u32>>),
    U64(Arc<Lut<u64>>),
}

/// A word type, and access to the tables of that type.
pub(super) trait LutWord: Sized {
    fn lut(lut: &LoadedLut) -> Option<&Lut<Self>>;
}

impl LutWord for u32 {
    fn lut(lut: &LoadedLut) -> Option<&Lut<Self>> {
        if let LoadedLut::U32(lut) = lut { Some(lut) } else { None }
    }
}

impl LutWord for u64 {
    fn lut(lut: &LoadedLut) -> Option<&Lut<Self>> {
        if let LoadedLut::U64(lut) = lut { Some(lut) } else { None }
    }
}

impl From<HostLut<'_>> for LoadedLut {
    fn from(lut: HostLut<'_>) -> Self {
        match lut {
            HostLut::U32(lut) => Self::U32(Arc::new(lut.clone())),
            HostLut::U64(lut) => Self::U64(Arc::new(lut.clone())),
        }
    }
}

impl LoadedLut {
    fn results(&self) -> usize {
        match self {
            Self::U32(lut) => lut.outputs().len(),
            Self::U64(lut) => lut.outputs().len(),
        }
    }
}

/// A wave and its progress.
pub(super) struct Run {
    key: Arc<dyn HostKey>,
    arena: Arc<HostArena>,
    wave: Wave,
    luts: Vec<LoadedLut>,
    /// Lanes with a table, then lanes without.
    order: Vec<u32>,
    tabled: usize,
    /// Tasks as ranges of `order`.
    tasks: Vec<Range<usize>>,
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    tasks_left: usize,
    began: Option<Instant>,
    busy: Duration,
    stages: StageTimes,
    result: Option<Result<WorkStats, DeviceError>>,
    error: Option<DeviceError>,
}

impl Run {
    /// Checks a wave, claims its slots, and cuts it into tasks for `threads` threads.
    pub(super) fn new(
        key: Arc<dyn HostKey>,
        arena: Arc<HostArena>,
        wave: Wave,
        luts: Vec<LoadedLut>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        wave.check(arena.len(), |table| luts[table].results())?;
        arena.claim(&wave)?;
        let (mut order, linear): (Vec<u32>, Vec<u32>) =
            (0..wave.lanes().len() as u32).partition(|&lane| wave.lanes()[lane as usize].table != NO_TABLE);
        let tabled = order.len();
        order.extend(linear);
        let mut tasks: Vec<Range<usize>> = parts(tabled, threads, key.tile(), 1).collect();
        tasks.extend(cut(tabled..order.len(), LINEAR_TASK_LANES));
        let state = State {
            tasks_left: tasks.len(),
            began: None,
            busy: Duration::ZERO,
            stages: StageTimes::default(),
            result: None,
            error: None,
        };
        let run =
            Self { key, arena, wave, luts, order, tabled, tasks, state: Mutex::new(state), ended: Condvar::new() };
        if run.tasks.is_empty() {
            run.end(&mut run.state.locked());
        }
        Ok(run)
    }

    pub(super) fn set(&self) -> &'static ParameterSet {
        self.key.set()
    }

    /// Number of bootstraps in the wave.
    pub(super) fn width(&self) -> usize {
        self.tabled
    }

    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn arena(&self) -> &HostArena {
        &self.arena
    }

    pub(super) fn wave(&self) -> &Wave {
        &self.wave
    }

    /// The table of a lane, if the lane has one.
    pub(super) fn lut(&self, lane: usize) -> Option<&LoadedLut> {
        self.luts.get(self.wave.lanes()[lane].table as usize)
    }

    /// Computes a task. Returns true if the task was the last of the wave.
    pub(super) fn run_task(&self, task: usize) -> bool {
        let began = Instant::now();
        self.state.locked().began.get_or_insert(began);
        let lanes = &self.order[self.tasks[task].clone()];
        let work = std::panic::AssertUnwindSafe(|| {
            if self.tasks[task].start < self.tabled {
                self.key.run(self, lanes)
            } else {
                match self.arena.slots() {
                    SlotWords::U32(slots) => self.run_linear(lanes, slots),
                    SlotWords::U64(slots) => self.run_linear(lanes, slots),
                }
                Ok(StageTimes::default())
            }
        });
        // A panic in a task fails its wave only, and the device goes on.
        let result = std::panic::catch_unwind(work)
            .unwrap_or_else(|panic| Err(DeviceError::Lost { message: panic_message(&*panic).to_owned() }));
        let mut state = self.state.locked();
        state.busy += began.elapsed();
        match result {
            Ok(times) => {
                state.stages.key_switch += times.key_switch;
                state.stages.blind_rotate += times.blind_rotate;
            }
            Err(error) => state.error = Some(error),
        }
        state.tasks_left -= 1;
        let last = state.tasks_left == 0;
        if last {
            self.end(&mut state);
        }
        last
    }

    /// Time that the wave would take if all threads worked on nothing else.
    pub(super) fn busy(&self, threads: usize) -> Duration {
        self.state.locked().busy / threads.min(self.tasks.len()).max(1) as u32
    }

    /// The outcome of the wave, or `None` at the deadline.
    pub(super) fn wait(&self, deadline: Instant) -> Option<Result<WorkStats, DeviceError>> {
        let mut state = self.state.locked();
        loop {
            if let Some(result) = &state.result {
                return Some(result.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn run_linear<T: Word>(&self, lanes: &[u32], slots: &Slots<T>) {
        let mut sum = vec![T::default(); self.set().input_dimension() + 1];
        for &lane in lanes {
            combine(&self.wave, lane as usize, slots, &mut sum);
            store(slots.get(self.wave.outputs(lane as usize)[0]), &sum);
        }
    }

    fn end(&self, state: &mut State) {
        self.arena.release(&self.wave, state.error.is_none());
        let ended = Instant::now();
        let began = state.began.unwrap_or(ended);
        state.result = Some(match state.error.take() {
            Some(error) => Err(error),
            None => Ok(stats(began, ended, state.busy, state.stages)),
        });
        self.ended.notify_all();
    }
}

/// Sums a lane's terms and its constant.
pub(super) fn combine<T: Word>(wave: &Wave, lane: usize, slots: &Slots<T>, sum: &mut [T]) {
    let read = |slot: u32| slots.get(slot).read().unwrap_or_else(PoisonError::into_inner);
    match wave.terms(lane).split_first() {
        Some((first, rest)) => {
            // Most lanes have one term with factor 1, which is a plain copy.
            match first.factor {
                1 => sum.copy_from_slice(&read(first.slot)),
                factor => {
                    let factor = T::from_i64(factor);
                    sum.iter_mut()
                        .zip(read(first.slot).iter())
                        .for_each(|(sum, word)| *sum = word.wrapping_mul(factor));
                }
            }
            for term in rest {
                let factor = T::from_i64(term.factor);
                for (sum, word) in sum.iter_mut().zip(read(term.slot).iter()) {
                    *sum = sum.wrapping_add(word.wrapping_mul(factor));
                }
            }
        }
        None => sum.fill(T::default()),
    }
    if let Some(body) = sum.last_mut() {
        *body = body.wrapping_add(T::from_u64(wave.lanes()[lane].constant >> (64 - T::BITS)));
    }
}

/// Divides the wall time among the stages in proportion to the threads' time in each stage.
fn stats(began: Instant, ended: Instant, busy: Duration, stages: StageTimes) -> WorkStats {
    let wall = ended - began;
    let share = |stage: Duration| match busy.as_nanos() {
        0 => Duration::ZERO,
        busy => Duration::from_nanos((wall.as_nanos() * stage.as_nanos().min(busy) / busy) as u64),
    };
    let (key_switch, blind_rotate) = (share(stages.key_switch), share(stages.blind_rotate));
    let other = wall.saturating_sub(key_switch + blind_rotate);
    WorkStats { began, ended, key_switch, blind_rotate: wall.saturating_sub(key_switch + other), other }
}

fn cut(lanes: Range<usize>, share: usize) -> impl Iterator<Item = Range<usize>> {
    lanes.clone().step_by(share).map(move |first| first..(first + share).min(lanes.end))
}
