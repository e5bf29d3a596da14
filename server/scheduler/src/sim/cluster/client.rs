//! Clients. Each repeats its request until it is served. Ends that clients see must not change.

use std::collections::BTreeMap;

use super::world::{Call, Cluster, Happening};
use crate::event::End;
use crate::sim::plan::TENTH;
use crate::types::JobId;

/// A request as its client sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) acknowledged: Option<JobId>,
    pub(super) end: Option<End>,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Accepted(JobId),
    Ended(End),
}

/// Answers of the servers so far, whether they have arrived or not.
#[derive(Default)]
pub(super) struct Published {
    /// Requests that were acknowledged.
    pub(super) acknowledged: BTreeMap<usize, JobId>,
    /// Ends that callers rely on.
    pub(super) ends: BTreeMap<usize, End>,
}

impl Cluster {
    pub(super) fn client_turn(&mut self, request: usize) {
        let client = &self.clients[request];
        let is_run = self.plan.runs[request];
        let call = match client {
            Client { end: Some(_), .. } if self.now >= self.plan.quiet_at || !self.random.percent(10) => return,
            Client { acknowledged: Some(_), .. } if !is_run => Call::Watch { request },
            _ => Call::Submit { request },
        };
        let server = self.random.range(0, self.plan.servers as u64 - 1) as usize;
        self.call(server, call, false);
        let pause = self.random.range(8, 25) * TENTH;
        self.later(pause, Happening::ClientTurn { request });
    }

    pub(super) fn client_hears(&mut self, request: usize, answer: Answer) {
        if !self.plan.runs[request] && self.is_undone(request, &answer) {
            return;
        }
        let client = &mut self.clients[request];
        match answer {
            Answer::Accepted(job) => client.acknowledged = Some(job),
            Answer::Ended(end) => client.end = Some(end),
        }
    }

    /// Publishes that a request is accepted.
    pub(super) fn acknowledge(&mut self, request: usize, job: JobId) {
        if self.is_undone(request, &Answer::Accepted(job)) {
            return;
        }
        let known = *self.published.acknowledged.entry(request).or_insert(job);
        assert_eq!(known, job, "I4: request {request} is answered with two jobs");
        self.answer(request, Answer::Accepted(job));
    }

    /// Publishes an end that the callers rely on.
    pub(super) fn publish(&mut self, request: usize, end: End) {
        if self.is_undone(request, &Answer::Ended(end.clone())) {
            return;
        }
        let known = self.published.ends.entry(request).or_insert_with(|| end.clone());
        assert_eq!(*known, end, "I2: request {request} has two ends");
        self.answer(request, Answer::Ended(end));
    }

    /// Whether a standby without some commits has made the answer void. A client would notice that
    /// its job is unknown, and begin again.
    fn is_undone(&self, request: usize, answer: &Answer) -> bool {
        let jobs = &self.database.state.jobs;
        let row = jobs.requests.get(&request).map(|job| (job, &jobs.rows[job]));
        let is_kept = match answer {
            Answer::Accepted(job) => row.is_some_and(|(known, _)| known == job),
            Answer::Ended(end) => row.is_some_and(|(_, row)| row.end.as_ref() == Some(end)),
        };
        !self.plan.sync_standby && self.database.generation > 0 && !is_kept
    }

    pub(super) fn answer(&mut self, request: usize, answer: Answer) {
        let delay = self.random.range(1, TENTH / 5);
        self.later(delay, Happening::ToClient { request, answer });
    }
}
