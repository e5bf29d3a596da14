//! The stage of a job that fetches its keys and inputs.

use std::sync::atomic::{AtomicBool, Ordering};

use cloakwork_proto::v1::LeaseStage;

use crate::engine::JobStatus;

/// Progress of fetching keys and inputs. The job counts as waiting only if nothing moves: its
/// inputs are here, and a key waits for room that other jobs occupy.
pub(super) struct FetchState<'a> {
    status: &'a JobStatus,
    inputs_here: AtomicBool,
    key_waits: AtomicBool,
    keys_here: AtomicBool,
}

impl<'a> FetchState<'a> {
    pub(super) fn new(status: &'a JobStatus) -> Self {
        let no = || AtomicBool::new(false);
        Self { status, inputs_here: no(), key_waits: no(), keys_here: no() }
    }

    /// Counts a step of progress.
    pub(super) fn advance(&self) {
        self.status.advance();
    }

    pub(super) fn key_waits(&self, waits: bool) {
        self.key_waits.store(waits, Ordering::Relaxed);
        self.update_status();
    }

    pub(super) fn keys_are_here(&self) {
        self.keys_here.store(true, Ordering::Relaxed);
        self.update_status();
    }

    pub(super) fn inputs_are_here(&self) {
        self.inputs_here.store(true, Ordering::Relaxed);
        self.update_status();
    }

    fn update_status(&self) {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let (inputs_here, keys_here, key_waits) = (is(&self.inputs_here), is(&self.keys_here), is(&self.key_waits));
        self.status.enter(match inputs_here && !keys_here {
            true if key_waits => LeaseStage::Waiting,
            true => LeaseStage::LoadingKey,
            false => LeaseStage::Fetching,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_names_the_fetch_that_is_still_missing() {
        let status = JobStatus::default();
        let fetch_state = FetchState::new(&status);
        let is_at = |stage| assert!(status.is_in(stage), "{} instead of {stage:?}", status.read().0);
        fetch_state.key_waits(true);
        is_at(LeaseStage::Fetching);
        fetch_state.inputs_are_here();
        is_at(LeaseStage::Waiting);
        fetch_state.key_waits(false);
        is_at(LeaseStage::LoadingKey);
        fetch_state.keys_are_here();
        is_at(LeaseStage::Fetching);
    }
}
