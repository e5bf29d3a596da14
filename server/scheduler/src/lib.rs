//! Decides which worker computes which job, and when: fairness, placement, leases, attempts, and
//! the isolation of jobs that kill their worker.
//!
//! The crate is sans-IO: [`Scheduler::step`] takes a time and an [`Event`] and appends [`Effect`]s.
//! The crate has no clock and no randomness, and it does no I/O. Equal events therefore always have
//! the same effects, and a simulator can drive the scheduler.
//!
//! The owner of a scheduler has these duties:
//!
//! - Start by feeding every unfinished job of the store as [`Event::Restored`], then
//!   [`Event::Recovered`].
//! - Make the effects of a batch of events durable in **one** transaction, in their order. Only
//!   then carry them out: answer the client, send the assignments. Answer an [`Effect::Record`]
//!   with [`Event::Recorded`] after the commit. The job is in an assignment only after that. An
//!   owner that can do without a record may let the worker begin before the commit; the scheduler
//!   behaves the same.
//! - When that transaction fails, the state in memory is ahead of the store. Drop the scheduler and
//!   build another from the store. Workers keep their leases, as they do over a restart.
//! - Keep checks ([`Event::CheckSubmitted`]) out of the store. A new scheduler knows none of them,
//!   and none of the quarantined workers: feed [`Event::Quarantined`] again, before any report.
//! - Feed all arrived events before an [`Event::Tick`]. Leases expire only in ticks, so a delay of
//!   the server costs no worker its leases.

#![forbid(unsafe_code)]

mod config;
mod event;
mod job;
mod jobs;
mod meter;
pub mod placement;
mod queue;
mod scheduler;
mod seat;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod types;
mod worker;

pub use config::{COST_MAX, Config};
pub use event::{Attempt, CheckEnd, Effect, End, Event, Outcome, Reason, Retry, Why, reasons};
pub use scheduler::{Counters, Limit, PoolStats, Refusal, Scheduler, Stats};
pub use types::{
    Group, JobId, LeaseReport, NewCheck, NewJob, Report, RestoredJob, Stage, SuspectId, TenantId, Time, WorkerId,
};
