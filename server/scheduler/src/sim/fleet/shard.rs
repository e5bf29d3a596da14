//! A shard: a scheduler, and the events that wait for its next round.

use super::cpu::Cpu;
use super::fleet_worker::JOB_COST;
use crate::config::Config;
use crate::event::{Effect, Event};
use crate::placement::{Load, TERM_MILLIS};
use crate::scheduler::Scheduler;
use crate::types::{JobId, Time, WorkerId};

pub(super) struct Shard {
    core: Scheduler,
    pub(super) inbox: Vec<Event>,
    /// Attempts that the last round decided: their commit ends with this round.
    recorded: Vec<(JobId, u64)>,
    pub(super) workers: u32,
    effects: Vec<Effect>,
    pub(super) events: u64,
}

impl Shard {
    pub(super) fn new(workers_max: usize, jobs_max: usize) -> Self {
        let config = Config {
            workers_max,
            jobs_max,
            jobs_per_tenant_max: jobs_max,
            // As the server has it: 64 bootstraps.
            quantum_cost: 64 * JOB_COST,
            overtaking_cost_max: 16 * 64 * JOB_COST,
            ..Config::default()
        };
        let mut core = Scheduler::new(config);
        core.step(0, Event::Recovered { dead: Vec::new() }, &mut Vec::new());
        Self { core, inbox: Vec::new(), recorded: Vec::new(), workers: 0, effects: Vec::new(), events: 0 }
    }

    /// Decides about everything that has arrived. Returns the effects, and the processor time.
    pub(super) fn round(&mut self, now: Time, cpu: &mut Cpu) -> (std::vec::Drain<'_, Effect>, u64) {
        let before = cpu.nanos();
        let committed = std::mem::take(&mut self.recorded).into_iter();
        let committed = committed.map(|(job, epoch)| Event::Recorded { job, epoch });
        for event in committed.chain(self.inbox.drain(..)) {
            self.core.feed(now, event, &mut self.effects);
            self.events += 1;
        }
        if self.core.next_timer().is_some_and(|due| due <= now) {
            self.core.feed(now, Event::Tick, &mut self.effects);
        }
        self.core.flush(&mut self.effects);
        let nanos = cpu.nanos() - before;
        for effect in &self.effects {
            if let Effect::Record(attempt) = effect {
                self.recorded.push((attempt.job, attempt.epoch));
            }
        }
        (self.effects.drain(..), nanos)
    }

    /// The shard's row in the table of loads.
    pub(super) fn load(&self) -> Load {
        // The cost of a job is its milliseconds.
        let backlog_millis = u64::try_from(self.core.stats().cost).unwrap_or(u64::MAX);
        Load { workers: self.workers, backlog_millis, term_millis: TERM_MILLIS }
    }

    pub(super) fn holds(&self, worker: WorkerId) -> bool {
        !self.core.assignment(worker).is_empty()
    }
}
