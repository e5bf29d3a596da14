//! Job IDs as they are stored, sent and printed.

use std::sync::Mutex;

use cloakwork_scheduler::JobId;
use uuid::{ContextV7, Timestamp, Uuid};

/// A new unique ID of a job that is created at this Unix time. IDs grow with each call within a
/// process, also where the clock is set back meanwhile. A tenant's newest jobs then have its
/// highest IDs.
pub fn new(created_micros: i64) -> JobId {
    static LATEST: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    after(&LATEST, created_micros)
}

/// An ID above the one of `latest`.
fn after(latest: &Mutex<ContextV7>, created_micros: i64) -> JobId {
    let micros = created_micros.max(0).unsigned_abs();
    let (seconds, nanos) = (micros / 1_000_000, micros % 1_000_000 * 1000);
    JobId(Uuid::new_v7(Timestamp::from_unix(latest, seconds, nanos as u32)).as_u128())
}

/// The ID as it is stored and sent.
pub fn to_bytes(id: JobId) -> [u8; 16] {
    id.0.to_be_bytes()
}

/// Parses an ID that was stored or sent.
pub fn from_bytes(bytes: &[u8]) -> Option<JobId> {
    Some(JobId(u128::from_be_bytes(bytes.try_into().ok()?)))
}

/// The ID as it appears in resource names.
pub fn to_text(id: JobId) -> String {
    Uuid::from_u128(id.0).to_string()
}

/// The holder of the pins of a job's outputs. The pins of its inputs have the job ID as holder.
pub fn output_holder(id: JobId) -> [u8; 16] {
    let hash = blake3::derive_key("cloakwork server, holder of a job's outputs", &to_bytes(id));
    std::array::from_fn(|index| hash[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_hold_the_time_of_creation_and_grow_although_the_clock_goes_back() {
        let latest = Mutex::new(ContextV7::new());
        let created_micros = 1_700_000_000_123_456;
        let times = [created_micros, created_micros, created_micros - 3_600_000_000, created_micros + 1_000_000];
        let ids = times.map(|micros| after(&latest, micros));
        assert!(ids.is_sorted_by(|earlier, later| earlier < later), "{ids:?}");
        let of_id = |id: JobId| id.0 >> 80;
        assert_eq!((of_id(ids[0]), of_id(ids[3])), (1_700_000_000_123, 1_700_000_001_123), "in milliseconds");
    }
}
