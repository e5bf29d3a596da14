//! Unfinished jobs, and the leases that workers receive for them.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use bytes::Bytes;
use cloakwork_attestation::Subject;
use cloakwork_keystore::Digest;
use cloakwork_params::{AnySet, table::companion_of};
use cloakwork_proto::v1::{self, assigned_input::Source};
use cloakwork_scheduler::JobId;
use cloakwork_share::{FairShare, Share};
use cloakwork_trace::TraceContext;
use tokio::sync::watch;

use super::{checks::CheckedRows, lease_calls::LeaseCalls, spans, submit::Admitted};
use crate::{
    digest,
    jobs::{Content, JobMeta, JobView, Timeline, group_bytes},
    store::LiveJob,
};

/// An unfinished job.
pub(super) struct Live {
    pub(super) meta: Arc<JobMeta>,
    pub(super) timeline: Timeline,
    pub(super) epoch: u64,
    /// Whether a party relies on the job besides the call that created it and waits for its result.
    pub(super) promised: bool,
    pub(super) view: watch::Sender<JobView>,
    /// Label of the pool of the job's last worker.
    pub(super) pool: Option<&'static str>,
    /// The job's work. Absent while the job waits and memory is short; the store has it.
    pub(super) work: Option<Kept>,
}

/// Work that stays in memory until the job has ended.
pub(super) struct Kept {
    pub(super) work: Arc<Work>,
    /// The memory that the work takes.
    _bytes: Share<Arc<str>>,
}

/// Maximum bytes of kept work, of all tenants together and of each tenant. Further work is read
/// back from the store. A tenant that could fill the memory would slow down the jobs of all others.
pub(super) const WORK_BYTES_MAX: u64 = 256 << 20;
pub(super) const TENANT_WORK_BYTES_MAX: u64 = 64 << 20;

/// Bytes of work at which a worker gets no further leases. The work of a leased job is in memory,
/// counted above or not. The inline inputs of a thousand jobs of 256 KiB reach this limit.
pub(super) const LEASED_BYTES_PER_WORKER_MAX: u64 = 256 << 20;

/// The program, inputs and key parts of a job.
#[derive(Debug)]
pub struct Work {
    /// The program's bytes.
    pub program: Bytes,
    /// Its inputs.
    pub inputs: Arc<[Content]>,
    /// Parts of the key that the job needs.
    pub key_parts: Vec<Digest>,
    /// Key parts of the companion set, which a worker may do without. Empty where the key has none.
    pub companion_parts: Vec<Digest>,
}

/// A job that is leased to a worker.
#[derive(Debug)]
pub struct Leased {
    /// The job's metadata.
    pub meta: Arc<JobMeta>,
    /// The attempt's fencing epoch.
    pub epoch: u64,
    /// The program, inputs and key parts.
    pub work: Arc<Work>,
    /// When the attempt began.
    pub since: Instant,
    /// The job's deadline, at which the server gives up on it.
    pub deadline: Instant,
    /// The calls that the worker makes under the lease.
    pub calls: Arc<LeaseCalls>,
    /// The rows to compute a second time, if this is a check. Its outputs are compared and
    /// dropped.
    pub check: Option<CheckedRows>,
    /// Class of the workers whose results have the same bits, as the worker stated it when this
    /// process first gave it the lease. Empty if the worker's results are not reproducible, so that
    /// no rows of them can be checked.
    pub class: Arc<str>,
}

/// Every lease that a worker is to hold, or `None` before the first decision.
pub type Wish = Option<Arc<Leases>>;

/// Leased jobs by job ID and epoch.
pub type Leases = BTreeMap<(JobId, u64), Arc<Leased>>;

impl Live {
    /// A newly accepted job, and its work.
    pub(super) fn new(job: &Admitted, promised: bool) -> (Self, Arc<Work>) {
        let work = Work {
            program: job.program.clone(),
            inputs: job.inputs.clone(),
            key_parts: job.key_parts.clone(),
            companion_parts: job.companion_parts.clone(),
        };
        let view = view(job.meta.clone(), v1::JobState::Queued);
        let (meta, timeline) = (job.meta.clone(), job.timeline);
        let live = Self { meta, timeline, epoch: 0, promised, view, pool: None, work: None };
        (live, Arc::new(work))
    }

    /// A job as the store has it. If the job was in memory `before`, its watchers and its other
    /// state are kept.
    pub(super) fn restored(stored: &LiveJob, before: Option<Self>) -> Self {
        let running = stored.worker.is_some();
        let state = if running { v1::JobState::Running } else { v1::JobState::Queued };
        let mut live = before.unwrap_or_else(|| Self {
            meta: stored.meta.clone(),
            timeline: Timeline::restart(),
            epoch: 0,
            promised: true,
            view: view(stored.meta.clone(), state),
            pool: None,
            work: None,
        });
        live.epoch = stored.epoch;
        live.timeline.forget_attempt(running);
        let attempts = u32::try_from(stored.epoch).unwrap_or(u32::MAX);
        live.publish(|view| (view.state, view.attempts) = (state, attempts));
        live
    }

    /// Changes the view that watchers see.
    pub(super) fn publish(&self, change: impl FnOnce(&mut JobView)) {
        self.view.send_modify(change);
    }
}

impl Kept {
    /// Keeps the work of a tenant's job if `bytes` has room for it.
    pub(super) fn of(tenant: &Arc<str>, work: Arc<Work>, bytes: &Arc<FairShare<Arc<str>>>) -> Option<Self> {
        let share = bytes.try_take(tenant, work.bytes() as u64).ok()?;
        Some(Self { work, _bytes: share })
    }
}

impl Work {
    /// Bytes that the work takes in memory.
    pub fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().filter_map(|input| input.bytes.as_ref()).map(Bytes::len);
        self.program.len() + inputs.sum::<usize>() + self.all_key_parts().map(size_of_val).sum::<usize>()
    }

    /// Parts of the key that a worker may read for the job.
    pub fn all_key_parts(&self) -> impl Iterator<Item = &Digest> {
        self.key_parts.iter().chain(&self.companion_parts)
    }
}

impl Leased {
    /// The lease as a protocol message.
    pub fn lease(&self) -> v1::Lease {
        v1::Lease { job_id: Bytes::copy_from_slice(&crate::jobs::id::to_bytes(self.meta.id)), epoch: self.epoch }
    }

    /// The job's content that the worker needs.
    pub fn content(&self) -> v1::JobContent {
        let meta = &*self.meta;
        let input = |input: &Content| v1::AssignedInput {
            source: Some(match &input.bytes {
                Some(bytes) => Source::Inline(bytes.clone()),
                None => Source::Blob(input.to_proto_digest()),
            }),
        };
        v1::JobContent {
            program: self.work.program.clone(),
            group: group_bytes(&meta.tenant, meta.key_id, meta.set),
            key_id: Bytes::copy_from_slice(&meta.key_id.0),
            parameter_set: meta.set.name().to_owned(),
            key_parts: self.work.key_parts.iter().map(digest::to_proto).collect(),
            inputs: self.work.inputs.iter().map(input).collect(),
            rows: meta.rows,
            priority: i32::from(meta.priority),
            companion: self.companion(),
            request_id: Bytes::copy_from_slice(&self.request_id()),
            check_rows: self.check.as_ref().map_or_else(Vec::new, |check| check.rows.to_vec()),
            lowering: self.check.as_ref().map_or(v1::Lowering::Unspecified, |check| check.lowering).into(),
            traceparent: self.trace().map(|trace| trace.to_string()).unwrap_or_default(),
        }
    }

    /// The span of the attempt, if the job is traced. A check is no part of the job's trace.
    fn trace(&self) -> Option<TraceContext> {
        spans::attempt(&self.meta, self.epoch).filter(|_| self.check.is_none())
    }

    /// The id of the client's request. A check has none, so that nobody can show the statement
    /// about a check to a client.
    pub fn request_id(&self) -> [u8; 16] {
        if self.check.is_some() { Subject::NO_REQUEST } else { self.meta.request_id }
    }

    /// The companion set's key, if the job has its parts.
    fn companion(&self) -> Option<v1::CompanionKey> {
        let meta = &*self.meta;
        let companion = companion_of(meta.set.tfhe()?).filter(|_| !self.work.companion_parts.is_empty())?.set;
        Some(v1::CompanionKey {
            parameter_set: companion.name.to_owned(),
            group: group_bytes(&meta.tenant, meta.key_id, AnySet::Tfhe(companion)),
            key_parts: self.work.companion_parts.iter().map(digest::to_proto).collect(),
        })
    }

    /// Number of rows of the outputs.
    pub fn output_rows(&self) -> u64 {
        let checked = self.check.as_ref().map(|check| check.rows.len() as u64);
        checked.filter(|rows| *rows > 0).unwrap_or(self.meta.rows)
    }

    /// Whether the worker may read this blob for the job.
    pub fn needs(&self, blob: &Digest) -> bool {
        let mut inputs = self.work.inputs.iter().filter(|input| input.bytes.is_none());
        self.work.all_key_parts().any(|part| part == blob) || inputs.any(|input| input.blob() == *blob)
    }
}

fn view(meta: Arc<JobMeta>, state: v1::JobState) -> watch::Sender<JobView> {
    watch::Sender::new(JobView { meta, state, rows_done: 0, stage: None, attempts: 0, end: None })
}

/// Live jobs by job ID.
pub(super) type Jobs = std::collections::HashMap<JobId, Live>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_fills_its_memory_for_work_leaves_the_rest_to_others() {
        let bytes = FairShare::new(100, 60);
        let keep = |tenant: &str, size: usize| {
            let (program, inputs) = (Bytes::from(vec![0; size]), [].into());
            let work = Work { program, inputs, key_parts: Vec::new(), companion_parts: Vec::new() };
            Kept::of(&tenant.into(), Arc::new(work), &bytes)
        };
        let first = keep("a", 60).expect("room");
        assert!(keep("a", 1).is_none());
        let second = keep("b", 40).expect("room for another tenant");
        assert!(keep("b", 1).is_none(), "all memory is in use");
        drop(first);
        assert!(keep("a", 61).is_none() && keep("a", 60).is_some());
        drop(second);
        assert_eq!(bytes.held(), 0);
    }
}
