//! Which worker computes which job, and when: fairness, placement, leases, attempts and the isolation of jobs that
//! kill their worker.
//!
//! Sans-IO: [`Scheduler::step`] takes a time and an [`Event`] and appends [`Effect`]s. It has no clock, no randomness
//! and does no I/O, so that the same events always have the same effects and a simulator can drive it.
//!
//! What its owner must do:
//!
//! - Start by feeding every unfinished job of the store as [`Event::Restored`], then [`Event::Recovered`].
//! - Make the effects of a batch of events durable in **one** transaction, in their order, and only then carry them
//!   out: answer the client, send the assignments. An [`Effect::Record`] is answered by [`Event::Recorded`] after the
//!   commit, and only then will the job be in an assignment. An owner that can do without a record may have the
//!   worker begin before that; here nothing changes by it.
//! - When that transaction fails, the state in memory is ahead of the store: throw the scheduler away and build
//!   another from the store. Workers keep their leases over this as they do over a restart.
//! - Feed what has arrived before a [`Event::Tick`]. Leases only run out in ticks, so that a server that was
//!   held up does not take the time it lost out on its workers.

#![forbid(unsafe_code)]

mod config;
mod event;
mod job;
mod jobs;
mod meter;
mod queue;
mod scheduler;
mod seat;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod types;
mod worker;

pub use config::{COST_MAX, Config};
pub use event::{Attempt, Effect, End, Event, Outcome, Reason, Retry, Why, reasons};
pub use scheduler::{Counters, Limit, PoolStats, Refusal, Scheduler, Stats};
pub use types::{Group, JobId, LeaseReport, NewJob, Report, RestoredJob, Stage, SuspectId, TenantId, Time, WorkerId};
