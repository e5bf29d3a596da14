//! The lease that a worker names in a call.

use std::{sync::Arc, time::Duration};

use cloakwork_proto::v1;
use cloakwork_scheduler::{JobId, WorkerId};

use super::report::{lease_id, worker_id};
use crate::{
    dispatch::{Dispatcher, Leased},
    error::{ApiError, STALE_LEASE, WORKER_UNKNOWN},
};

/// Delay after which a worker may repeat a call that was refused because of its other calls.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A worker, and a lease that it names as its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseName {
    pub(super) worker: WorkerId,
    job: JobId,
    epoch: u64,
}

impl LeaseName {
    /// Reads the lease from a request. Keeps none of the request's bytes.
    pub(super) fn parse(worker: &[u8], lease: Option<&v1::Lease>) -> Result<Self, ApiError> {
        let worker = worker_id(worker)?;
        let (job, epoch) = lease_id(lease)?;
        Ok(Self { worker, job, epoch })
    }

    /// The leased job. Fails with `STALE_LEASE` if the worker does not hold the lease.
    pub(super) async fn leased(self, dispatcher: &Dispatcher) -> Result<Arc<Leased>, ApiError> {
        let leased = dispatcher.leased(self.worker, self.job, self.epoch).await?;
        leased.ok_or_else(stale)
    }

    /// Returns after the worker has lost the lease, which this checks at each `interval`.
    pub(super) async fn lost(self, dispatcher: &Dispatcher, interval: Duration) -> ApiError {
        loop {
            tokio::time::sleep(interval).await;
            match self.leased(dispatcher).await {
                Ok(_) => {}
                // The worker itself is gone, and its leases with it.
                Err(error) if error.reason() == WORKER_UNKNOWN => return stale(),
                Err(error) => return error,
            }
        }
    }
}

fn stale() -> ApiError {
    STALE_LEASE.error("the job is no longer leased to this worker")
}
