//! What the dispatcher can be asked.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cloakwork_proto::v1;
use cloakwork_scheduler::{JobId, Report, Retry, WorkerId};
use tokio::sync::{oneshot, watch};

use super::{
    Watched,
    live::{Leased, Wish},
    submit::Admitted,
};
use crate::{error::ApiError, jobs::Content};

/// See the methods of the same names.
pub(super) enum Command {
    Submit { job: Box<Admitted>, promised: bool, reply: oneshot::Sender<Result<Watched, ApiError>> },
    Confirm { tenant: Arc<str>, job: JobId, reply: oneshot::Sender<Result<Option<Watched>, ApiError>> },
    Cancel { tenant: Arc<str>, job: JobId, reply: oneshot::Sender<Result<Option<Watched>, ApiError>> },
    Watch { tenant: Arc<str>, job: JobId, reply: oneshot::Sender<Option<Watched>> },
    Settled { reply: oneshot::Sender<()> },
    Attach { report: WorkerReport, reply: oneshot::Sender<Result<(watch::Receiver<Wish>, u64), ApiError>> },
    Report { stream: u64, report: WorkerReport },
    Detach { worker: WorkerId, stream: u64 },
    Leased { worker: WorkerId, job: JobId, epoch: u64, reply: oneshot::Sender<Result<Option<Arc<Leased>>, ApiError>> },
    Commit { outcome: Box<Outcome>, reply: oneshot::Sender<Result<bool, ApiError>> },
    Drain,
    Stop { embedded: Option<WorkerId> },
}

/// What a worker said of itself.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    /// Who.
    pub worker: WorkerId,
    /// Name for people.
    pub name: Arc<str>,
    /// What the scheduler needs to know.
    pub report: Report,
    /// Points of its time curve.
    pub waves: Vec<v1::DeviceWave>,
    /// Groups whose keys are resident.
    pub resident: Vec<Bytes>,
    /// What its resident keys take.
    pub resident_bytes: u64,
}

/// How an attempt at a job ended, as the worker says.
#[derive(Debug)]
pub struct Outcome {
    /// Who.
    pub worker: WorkerId,
    /// What.
    pub job: JobId,
    /// Which attempt.
    pub epoch: u64,
    /// What came of it.
    pub result: Result<Vec<Content>, Failure>,
    /// The stages that the worker measured.
    pub latency: v1::LatencyRecord,
    /// When it began to come in.
    pub returned: Instant,
    /// When the outputs were stored.
    pub stored: Instant,
}

/// Why an attempt failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Code and sentence.
    pub error: v1::JobError,
    /// Would another attempt have a chance?
    pub retry: Retry,
}
