//! Decisions that are not committed yet, and what follows from their commit.

use std::collections::HashSet;

use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::{Event, JobId, WorkerId};
use tokio::sync::oneshot;

use super::{
    Watched,
    actor::Actor,
    command::Submitted,
    effects::{Ending, HandedOver},
    submit::Guard,
};
use crate::{error::ApiError, store::Write};

/// Decisions that go to the store as one transaction.
#[derive(Default)]
pub(super) struct Decided {
    pub(super) writes: Vec<Write>,
    /// Guards of the submitted jobs in `writes`.
    pub(super) guards: Vec<Guard>,
    pub(super) answers: Vec<Answer>,
    /// Attempts in `writes`, each with its epoch. The scheduler learns of them after the commit.
    pub(super) recorded: Vec<(JobId, u64)>,
    /// First attempts at jobs that are not promised. Workers may begin them before the commit.
    pub(super) early: Vec<(WorkerId, JobId, u64)>,
    pub(super) requeued: Vec<JobId>,
    pub(super) endings: Vec<Ending>,
    /// Ends that were published to their callers before the commit.
    pub(super) handed_over: Vec<HandedOver>,
}

/// Replies that wait until the change that they report is in the store.
pub(super) enum Answer {
    /// Reply to `SubmitJob`: the server is responsible for the job from now on.
    Submitted(oneshot::Sender<Result<Submitted, ApiError>>, Submitted),
    /// Reply about a live job that has been cancelled or confirmed.
    Found(oneshot::Sender<Result<Option<Watched>, ApiError>>, Watched),
    /// Reply to a confirmation of a job that had already ended.
    Ended(oneshot::Sender<Result<Option<Watched>, ApiError>>),
    /// Reply to a worker that handed in an outcome: whether it was accepted.
    Committed(oneshot::Sender<Result<bool, ApiError>>, bool),
    /// Reply to a caller that waits for everything before its own command.
    Settled(oneshot::Sender<()>),
}

impl Decided {
    /// Whether the decisions need a transaction.
    pub(super) fn writes(&self) -> bool {
        !(self.writes.is_empty() && self.handed_over.is_empty())
    }

    /// Jobs whose leases a worker keeps until the commit, although the scheduler no longer assigns
    /// them. If the commit fails, the worker still has the job.
    pub(super) fn leased_until_commit(&self) -> HashSet<JobId> {
        let ended = self.endings.iter().map(|ending| ending.job);
        let told = self.handed_over.iter().map(|told| told.job);
        ended.chain(told).chain(self.requeued.iter().copied()).collect()
    }
}

impl Actor {
    /// Publishes committed decisions. This may lead to new decisions.
    pub(super) fn announce(&mut self, committed: Decided) {
        drop(committed.guards);
        committed.handed_over.iter().for_each(|told| self.close(told.job));
        // These records are stored. Writing one of them again brings all of the transaction to the
        // disk.
        if let Some(HandedOver { record, .. }) = committed.handed_over.into_iter().last() {
            self.write_late(record);
        }
        for job in committed.requeued {
            if let Some(live) = self.jobs.get(&job) {
                live.publish(|view| (view.state, view.rows_done) = (JobState::Queued, 0));
            }
        }
        for ending in committed.endings {
            let record = self.tell(&ending);
            self.close(ending.job);
            self.write_late(record);
        }
        committed.answers.into_iter().for_each(Answer::send);
        for (job, epoch) in committed.recorded {
            self.step(Event::Recorded { job, epoch });
        }
    }
}

impl Answer {
    /// Whether the caller may rely on the answer even after a power failure.
    pub(super) fn promises(&self) -> bool {
        match self {
            Self::Submitted(..) | Self::Found(..) | Self::Ended(..) => true,
            // The job's ending decides this itself (`is_relied_on`).
            Self::Committed(..) | Self::Settled(..) => false,
        }
    }

    pub(super) fn send(self) {
        match self {
            Self::Ended(reply) => drop(reply.send(Ok(None))),
            Self::Submitted(reply, submitted) => drop(reply.send(Ok(submitted))),
            Self::Found(reply, watched) => drop(reply.send(Ok(Some(watched)))),
            Self::Committed(reply, accepted) => drop(reply.send(Ok(accepted))),
            Self::Settled(reply) => drop(reply.send(())),
        }
    }

    pub(super) fn refuse(self, error: &ApiError) {
        match self {
            Self::Ended(reply) => drop(reply.send(Err(error.clone()))),
            Self::Submitted(reply, _) => drop(reply.send(Err(error.clone()))),
            Self::Found(reply, _) => drop(reply.send(Err(error.clone()))),
            Self::Committed(reply, _) => drop(reply.send(Err(error.clone()))),
            // A failed store holds everything that it accepted, so this caller gets no error.
            Self::Settled(reply) => drop(reply.send(())),
        }
    }
}
