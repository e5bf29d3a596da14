//! The commands that the dispatcher accepts.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cloakwork_params::ParameterSet;
use cloakwork_proto::v1;
use cloakwork_scheduler::{JobId, Report, Retry, WorkerId};
use cloakwork_share::Share;
use tokio::sync::{oneshot, watch};

use super::{
    Watched,
    checks::Sample,
    live::{Leased, Wish},
    operate::Snapshot,
    placement::Seat,
    submit::Admitted,
};
use crate::{error::ApiError, jobs::Content};

/// Each command belongs to the method of the same name on [`super::Dispatcher`].
pub(super) enum Command {
    Submit {
        job: Box<Admitted>,
        promised: bool,
        share: Share<Arc<str>>,
        reply: oneshot::Sender<Result<Submitted, ApiError>>,
    },
    Confirm {
        tenant: Arc<str>,
        job: JobId,
        reply: oneshot::Sender<Result<Option<Watched>, ApiError>>,
    },
    Cancel {
        tenant: Arc<str>,
        job: JobId,
        reply: oneshot::Sender<Result<Option<Watched>, ApiError>>,
    },
    Watch {
        tenant: Arc<str>,
        job: JobId,
        reply: oneshot::Sender<Option<Watched>>,
    },
    Settled {
        reply: oneshot::Sender<()>,
    },
    RefuseQuarantined {
        worker: WorkerId,
        reply: oneshot::Sender<Result<(), ApiError>>,
    },
    Attach {
        report: Arc<WorkerReport>,
        seat: Seat,
        turn: Share<WorkerId>,
        reply: oneshot::Sender<Result<(watch::Receiver<Wish>, u64), ApiError>>,
    },
    Report {
        stream: u64,
        report: Arc<WorkerReport>,
        turn: Share<WorkerId>,
        reply: oneshot::Sender<()>,
    },
    Detach {
        worker: WorkerId,
        stream: u64,
    },
    Leased {
        worker: WorkerId,
        job: JobId,
        epoch: u64,
        reply: oneshot::Sender<Result<Option<Arc<Leased>>, ApiError>>,
    },
    Commit {
        outcome: Box<Outcome>,
        share: Share<Arc<str>>,
        reply: oneshot::Sender<Result<bool, ApiError>>,
    },
    Snapshot {
        reply: oneshot::Sender<Snapshot>,
    },
    SetDrained {
        worker: WorkerId,
        is_drained: bool,
        reply: oneshot::Sender<bool>,
    },
    Drain,
    Stop {
        embedded: Option<WorkerId>,
    },
}

/// The job of a submission.
pub(super) enum Submitted {
    /// A new job, or the unfinished job of an earlier request.
    Live(Watched),
    /// The job of an earlier request, which has ended. Only the store has its end.
    Ended(JobId),
}

impl Submitted {
    pub(super) fn job(&self) -> JobId {
        match self {
            Self::Live(watched) => watched.borrow().meta.id,
            Self::Ended(job) => *job,
        }
    }
}

/// A worker's report about itself.
#[derive(Debug)]
pub struct WorkerReport {
    /// The worker.
    pub worker: WorkerId,
    /// Name for display.
    pub name: Arc<str>,
    /// The part of the report that the scheduler uses.
    pub report: Report,
    /// Measured points of the worker's wave-time curve.
    pub waves: Vec<WavePoint>,
    /// Groups whose keys are resident, each once.
    pub resident: Vec<Bytes>,
    /// Bytes that its resident keys take.
    pub resident_bytes: u64,
}

/// A measured point of a worker's wave-time curve.
#[derive(Clone, Copy, Debug)]
pub struct WavePoint {
    /// The parameter set of the wave.
    pub set: &'static ParameterSet,
    /// Number of bootstraps in the wave.
    pub width: u32,
    /// Time of the wave.
    pub micros: u64,
}

/// How an attempt at a job ended, as the worker reports.
#[derive(Debug)]
pub struct Outcome {
    /// The worker that made the attempt.
    pub worker: WorkerId,
    /// The job.
    pub job: JobId,
    /// The attempt's fencing epoch.
    pub epoch: u64,
    /// The outputs, or the failure.
    pub result: Result<Vec<Content>, Failure>,
    /// Counts the bytes of the outputs in memory, until the outcome is in the store.
    pub memory: Option<Share<WorkerId>>,
    /// The rows that are computed a second time.
    pub sample: Option<Sample>,
    /// For the outcome of a check, a digest of its rows for each output.
    pub check: Option<Vec<[u8; 32]>>,
    /// The form in which the worker has computed a program on blocks.
    pub lowering: v1::Lowering,
    /// The stages that the worker measured.
    pub latency: v1::LatencyRecord,
    /// The worker's attestation of the outputs. `None` for a failure.
    pub attestation: Option<v1::Attestation>,
    /// When the outcome began to arrive.
    pub returned: Instant,
    /// When the outputs were stored.
    pub stored: Instant,
}

/// Why an attempt failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Reason code and message.
    pub error: v1::JobError,
    /// Whether another attempt may succeed.
    pub retry: Retry,
}
