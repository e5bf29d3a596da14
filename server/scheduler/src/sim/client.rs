//! Simulated clients. Clients repeat a request until it is acknowledged, and sometimes afterwards
//! too.

use super::world::{Happening, World};
use crate::types::JobId;

/// A request as its client sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Client {
    pub(super) acknowledged: Option<JobId>,
}

impl World {
    /// Sends the client's request, and schedules a repetition if needed.
    pub(super) fn client_sends(&mut self, request: usize) {
        let again = self.clients[request].acknowledged.is_none() || (self.now < self.plan.quiet_at && self.percent(20));
        if again {
            let delay = self.random.range(1, 20_000);
            self.later(delay, Happening::Submit { request });
            let pause = self.random.range(2, 8) * super::plan::TENTH;
            self.later(pause, Happening::ClientSends { request });
        }
    }

    pub(super) fn client_hears(&mut self, request: usize, job: JobId) {
        let known = self.clients[request].acknowledged.get_or_insert(job);
        assert_eq!(*known, job, "I4: request {request} was answered with two jobs");
    }
}
