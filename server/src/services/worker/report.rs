//! Reports of workers, parsed and cut to what is kept of them.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use cloakwork_params::{AnySet, KeyId, table};
use cloakwork_proto::{
    is_deceptive, printable, printable_at_most,
    v1::{self, AttachRequest},
};
use cloakwork_scheduler::{JobId, LeaseReport, Report, Stage, WorkerId};

use crate::{
    dispatch::WorkerReport,
    error::{ApiError, FIELD_MISSING, INVALID_ARGUMENT},
    jobs::{GROUP_BYTES, id},
};

/// The report in a message.
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
    let resident = message
        .resident_keys
        .iter()
        .filter_map(|key| Some((KeyId(key.key_id.as_ref().try_into().ok()?), set(&key.parameter_set)?)));
    Ok(WorkerReport {
        worker: worker_id(&message.worker_id)?,
        name: label(&message.name, "name")?.into(),
        report: Report {
            pool: label(&message.pool, "pool")?,
            sets: message.parameter_sets.iter().filter_map(set).collect::<BTreeSet<_>>().into_iter().collect(),
            wanted_cost: message.wanted_cost,
            leases: leases.collect::<Result<_, ApiError>>()?,
            resident: resident.take(RESIDENT_MAX).collect(),
            draining: message.draining,
        },
        resident: message.resident_keys.iter().take(RESIDENT_MAX).map(|key| group(&key.group)).collect(),
        resident_bytes: message.resident_keys.iter().map(|key| key.bytes).fold(0, u64::saturating_add),
        waves: message
            .waves
            .iter()
            .filter(|wave| table::by_name(&wave.parameter_set).is_some())
            .take(WAVES_MAX)
            .cloned()
            .collect(),
    })
}

/// The leases that a worker lists in a message.
pub(super) fn shown(message: &AttachRequest) -> HashSet<(JobId, u64)> {
    message.leases.iter().filter_map(|lease| lease_id(lease.lease.as_ref()).ok()).collect()
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
    let operations = record.operations.iter_mut().map(|operation| &mut operation.name);
    for name in operations.chain([&mut record.worker, &mut record.device]) {
        *name = printable_at_most(name, NAME_MAX);
    }
    record
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

/// Maximum numbers of leases, resident keys and time-curve points in a worker's report. Further
/// entries are ignored.
const LEASES_MAX: usize = 8192;
const RESIDENT_MAX: usize = 256;
const WAVES_MAX: usize = 1024;

/// Maximum number of characters kept of a worker's names.
const NAME_MAX: usize = 64;

/// Maximum number of waves, and of kinds of operations, in a latency record.
const RECORDED_WAVES_MAX: usize = 64;
