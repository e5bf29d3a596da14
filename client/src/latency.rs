//! Latency records of jobs.

use std::time::Duration;

use cloakwork_proto::v1::{Job, JobState, LatencyRecord};

/// Names of the stages, in the order in which a job passes through them.
pub const STAGES: [&str; 12] = [
    "transit",
    "validate",
    "queue",
    "dispatch",
    "key_load",
    "fetch",
    "wave_wait",
    "key_switch",
    "blind_rotate",
    "other_compute",
    "store",
    "commit",
];

/// Nanoseconds in each stage, in the order of [`STAGES`]. All except the first add up to the
/// server's wall time.
pub fn stage_nanos(record: &LatencyRecord) -> [u64; STAGES.len()] {
    [
        record.transit_nanos,
        record.validate_nanos,
        record.queue_nanos,
        record.dispatch_nanos,
        record.key_load_nanos,
        record.fetch_nanos,
        record.wave_wait_nanos,
        record.key_switch_nanos,
        record.blind_rotate_nanos,
        record.other_compute_nanos,
        record.store_nanos,
        record.commit_nanos,
    ]
}

/// Fills in the transit time: the client's wall time minus the server's.
pub fn add_transit(record: &mut LatencyRecord, client_wall: Duration) {
    let wall = u64::try_from(client_wall.as_nanos()).unwrap_or(u64::MAX);
    record.transit_nanos = wall.saturating_sub(record.wall_nanos);
}

/// Whether the job is in a final state.
pub fn has_ended(job: &Job) -> bool {
    matches!(job.state(), JobState::Succeeded | JobState::Failed | JobState::Cancelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transit_is_what_the_server_does_not_account_for() {
        let mut record = LatencyRecord { wall_nanos: 700, queue_nanos: 300, commit_nanos: 400, ..Default::default() };
        add_transit(&mut record, Duration::from_nanos(1000));
        assert_eq!(stage_nanos(&record).iter().sum::<u64>(), 1000);
        assert_eq!(stage_nanos(&record)[0], 300);
        // Clocks of two machines may differ in speed, but the transit time is never negative.
        add_transit(&mut record, Duration::from_nanos(500));
        assert_eq!(record.transit_nanos, 0);
    }
}
