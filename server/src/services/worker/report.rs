//! Reports of workers, parsed and cut to what is kept of them.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use cloakwork_attestation::{Certificate, PublicKey};
use cloakwork_params::{AnySet, KeyId, table};
use cloakwork_proto::{
    is_deceptive, printable, printable_at_most,
    v1::{self, AttachRequest},
};
use cloakwork_scheduler::{JobId, LeaseReport, Report, Stage, WorkerId};

use crate::{
    dispatch::{WavePoint, WorkerReport},
    error::{ApiError, FIELD_MISSING, INVALID_ARGUMENT},
    jobs::{GROUP_BYTES, id},
};

/// The report in a message. Each list is cut before its entries are read: a message of the largest
/// size may have several hundred thousand of them.
pub(super) fn report(message: &AttachRequest) -> Result<WorkerReport, ApiError> {
    let leases = message.leases.iter().take(LEASES_MAX).map(|lease| {
        let (job, epoch) = lease_id(lease.lease.as_ref())?;
        let stage = match lease.stage() {
            v1::LeaseStage::Waiting => Stage::Waiting,
            v1::LeaseStage::Computing => Stage::Computing,
            v1::LeaseStage::Committing => Stage::Committing,
            v1::LeaseStage::LoadingKey => Stage::LoadingKey,
            v1::LeaseStage::Fetching | v1::LeaseStage::Unspecified => Stage::Fetching,
        };
        Ok(LeaseReport { job, epoch, stage, progress: lease.progress, rows_done: lease.rows_done })
    });
    let set = |name: &String| AnySet::by_name(name).map(AnySet::id);
    let sets = message.parameter_sets.iter().take(SETS_MAX).filter_map(set);
    let keys = || message.resident_keys.iter().take(RESIDENT_MAX);
    let resident =
        keys().filter_map(|key| Some((KeyId(key.key_id.as_ref().try_into().ok()?), set(&key.parameter_set)?)));
    let point = |wave: &v1::DeviceWave| {
        let set = table::by_name(&wave.parameter_set)?;
        Some(WavePoint { set, width: wave.width, micros: wave.micros })
    };
    Ok(WorkerReport {
        worker: worker_id(&message.worker_id)?,
        name: label(&message.name, "name")?.into(),
        report: Report {
            pool: label(&message.pool, "pool")?,
            sets: sets.collect::<BTreeSet<_>>().into_iter().collect(),
            wanted_cost: message.wanted_cost,
            leases: leases.collect::<Result<_, ApiError>>()?,
            resident: resident.collect(),
            draining: message.draining,
            class: label(&message.result_class, "result_class")?,
        },
        resident: keys().map(|key| group(&key.group)).collect::<BTreeSet<_>>().into_iter().collect(),
        resident_bytes: message.resident_keys.iter().map(|key| key.bytes).fold(0, u64::saturating_add),
        waves: message.waves.iter().take(WAVES_MAX).filter_map(point).collect(),
    })
}

/// The leases that a worker lists in a message, as far as a report takes them.
pub(super) fn shown(message: &AttachRequest) -> HashSet<(JobId, u64)> {
    message.leases.iter().take(LEASES_MAX).filter_map(|lease| lease_id(lease.lease.as_ref()).ok()).collect()
}

/// The worker's name for itself or its parts. The text goes into logs and to clients, so a text
/// with deceptive characters is refused.
pub(super) fn label(text: &str, field: &'static str) -> Result<String, ApiError> {
    let label: String = text.chars().take(NAME_MAX).collect();
    if label.contains(is_deceptive) {
        let message = format!("the worker's {field} has control or invisible characters: '{}'", printable(&label));
        return Err(INVALID_ARGUMENT.error(message).field(field, "no control or invisible characters"));
    }
    Ok(label)
}

/// Truncates a worker's latency record to the lengths that are kept, and its names to one line
/// each. Deceptive characters are escaped, not refused: a bad text must not cost the job its
/// result.
pub(super) fn record(mut record: v1::LatencyRecord) -> v1::LatencyRecord {
    record.waves.truncate(RECORDED_WAVES_MAX);
    record.cuts.truncate(RECORDED_WAVES_MAX);
    record.operations.truncate(RECORDED_WAVES_MAX);
    // The record stays with its job. A truncated list keeps the memory of all its entries.
    record.waves.shrink_to_fit();
    record.cuts.shrink_to_fit();
    record.operations.shrink_to_fit();
    let operations = record.operations.iter_mut().map(|operation| &mut operation.name);
    for name in operations.chain([&mut record.worker, &mut record.device]) {
        *name = printable_at_most(name, NAME_MAX);
    }
    record
}

/// The public key that a worker signs its results with. Workers of earlier versions have none, and
/// their results would be refused. Fails unless the worker has proved that the key, and so the
/// worker's ID, is its own.
pub(super) fn attestation_key(message: &AttachRequest) -> Result<PublicKey, ApiError> {
    let key = message.attestation_key.as_ref().try_into().map(PublicKey).map_err(|_| {
        let got = message.attestation_key.len();
        FIELD_MISSING
            .error(format!("an attestation key of {got} bytes: expected 32; use a worker of the server's version"))
            .field("attestation_key", "32 bytes")
    })?;
    if message.worker_id != key.worker_id()[..] {
        let error = INVALID_ARGUMENT.error("the worker's id is not that of its attestation key");
        return Err(error.field("worker_id", "the id of the attestation key"));
    }
    match key.is_proved_by(&message.possession) {
        true => Ok(key),
        false => Err(INVALID_ARGUMENT
            .error("the worker has not proved that it has the secret part of its attestation key")
            .field("possession", "a signature by the attestation key")),
    }
}

/// The worker's latest certificate. Bytes that are no certificate count as none.
pub(super) fn latest_certificate(message: &AttachRequest) -> Option<Certificate> {
    Certificate::decode(&message.certificate).ok()
}

/// The ID of a worker, from a request.
pub(super) fn worker_id(bytes: &[u8]) -> Result<WorkerId, ApiError> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| {
        INVALID_ARGUMENT
            .error(format!("a worker id of {} bytes: expected 16", bytes.len()))
            .field("worker_id", "16 bytes")
    })?;
    Ok(WorkerId(u128::from_be_bytes(bytes)))
}

/// The job and the attempt of a lease, from a request.
pub(super) fn lease_id(lease: Option<&v1::Lease>) -> Result<(JobId, u64), ApiError> {
    let lease = lease.ok_or_else(|| FIELD_MISSING.error("a lease is missing").field("lease", "missing"))?;
    let job = id::from_bytes(&lease.job_id)
        .ok_or_else(|| INVALID_ARGUMENT.error("a job id is not 16 bytes long").field("lease.job_id", "16 bytes"))?;
    Ok((job, lease.epoch))
}

/// A group's ID, cut to the standard length. A copy, because the bytes are a slice of the
/// whole report.
fn group(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(&bytes[..bytes.len().min(GROUP_BYTES)])
}

/// Maximum numbers of leases, parameter sets, resident keys and time-curve points in a worker's
/// report. Further entries are ignored.
pub(super) const LEASES_MAX: usize = 8192;
const SETS_MAX: usize = 256;
const RESIDENT_MAX: usize = 256;
const WAVES_MAX: usize = 1024;

/// Maximum number of characters kept of a worker's names.
const NAME_MAX: usize = 64;

/// Maximum number of waves, and of kinds of operations, in a latency record.
const RECORDED_WAVES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::auth::policy::REPORT_MESSAGE_BYTES_MAX;

    /// A report with lists of these lengths, and numbers as large as those of a worker that has run
    /// for years.
    fn message(leases: usize, keys: usize, waves: usize) -> AttachRequest {
        let longest = table::SETS.iter().map(|set| set.name).max_by_key(|name| name.len()).unwrap();
        let lease = |number: usize| v1::LeaseReport {
            lease: Some(v1::Lease {
                job_id: Bytes::copy_from_slice(&(number as u128).to_be_bytes()),
                epoch: u64::from(u16::MAX),
            }),
            stage: v1::LeaseStage::LoadingKey.into(),
            progress: 1 << 40,
            rows_done: 1 << 24,
        };
        let key = |number: usize| v1::ResidentKey {
            key_id: Bytes::copy_from_slice(&[7; 16]),
            parameter_set: longest.to_owned(),
            bytes: 1 << 40,
            group: Bytes::copy_from_slice(&(number as u128).to_be_bytes()),
        };
        let wave =
            |number: usize| v1::DeviceWave { parameter_set: longest.to_owned(), width: number as u32, micros: 1 << 40 };
        AttachRequest {
            worker_id: Bytes::from_static(&[1; 16]),
            leases: (0..leases).map(lease).collect(),
            resident_keys: (0..keys).map(key).collect(),
            waves: (0..waves).map(wave).collect(),
            ..AttachRequest::default()
        }
    }

    #[test]
    fn a_report_with_full_lists_is_below_the_limit_of_its_message() {
        let bytes = message(LEASES_MAX, RESIDENT_MAX, WAVES_MAX).encoded_len();
        assert!(bytes < REPORT_MESSAGE_BYTES_MAX as usize, "{bytes} bytes");
    }

    #[test]
    fn entries_beyond_the_limits_are_ignored() {
        let message = message(LEASES_MAX + 1, RESIDENT_MAX + 1, WAVES_MAX + 1);
        let taken = report(&message).unwrap();
        assert_eq!((taken.report.leases.len(), shown(&message).len()), (LEASES_MAX, LEASES_MAX));
        assert_eq!((taken.report.resident.len(), taken.resident.len()), (RESIDENT_MAX, RESIDENT_MAX));
        assert_eq!(taken.waves.len(), WAVES_MAX);
    }

    #[test]
    fn a_group_counts_once_and_sums_do_not_overflow() {
        let key = v1::ResidentKey { bytes: u64::MAX, group: Bytes::from_static(&[3; 40]), ..Default::default() };
        let message = AttachRequest { resident_keys: vec![key; 10], ..message(0, 0, 0) };
        let taken = report(&message).unwrap();
        assert_eq!((taken.resident.len(), taken.resident[0].len()), (1, GROUP_BYTES));
        assert_eq!(taken.resident_bytes, u64::MAX);
    }

    #[test]
    fn a_truncated_record_gives_its_memory_back() {
        const ENTRIES: usize = 100_000;
        let record = record(v1::LatencyRecord {
            waves: vec![Default::default(); ENTRIES],
            cuts: vec![Default::default(); ENTRIES],
            operations: vec![Default::default(); ENTRIES],
            ..Default::default()
        });
        let capacities = [record.waves.capacity(), record.cuts.capacity(), record.operations.capacity()];
        assert!(capacities.iter().all(|capacity| *capacity <= 2 * RECORDED_WAVES_MAX), "{capacities:?}");
    }
}
