//! Reads of the blobs that leased jobs need.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_keystore::TenantId;
use cloakwork_proto::v1::{ReadBlobRequest, ReadBlobResponse};
use cloakwork_scheduler::WorkerId;
use cloakwork_share::{FairShare, Share};
use tokio_stream::StreamExt as _;
use tonic::Status;

use super::{
    Stream_, Transfers, Workers,
    lease::{LeaseName, RETRY_DELAY},
};
use crate::{
    digest,
    dispatch::LeaseRead,
    error::{ApiError, DEADLINE_EXCEEDED, OVERLOADED, STALE_LEASE},
};

/// Maximum number of blobs that are read at the same time, by all workers and by each worker. A
/// read holds an open file and up to three pieces of the blob. Further reads wait.
pub const READS_MAX: u64 = 512;
const WORKER_READS_MAX: u64 = 64;

/// Maximum duration of a read. A worker resumes the read where it ended, if it still holds the
/// lease. Without the limit, slow reads could keep their places for days.
const READ_TIME_MAX: Duration = Duration::from_secs(600);

/// Size in bytes from which a worker may read a blob from the store itself. A smaller blob comes
/// sooner on the connection that the worker has.
const URL_FROM_BYTES: u64 = 1 << 20;

/// How long a URL of a blob is valid. The read must begin in this time. The clocks of this machine
/// and of the store differ.
const URL_VALID: Duration = Duration::from_secs(300);

/// Places for reads. Clones share the places.
#[derive(Clone, Debug)]
pub struct Reads(Arc<FairShare<WorkerId>>);

/// A running read, until dropped.
struct Read {
    begun: Instant,
    transfers: Transfers,
    _of_lease: LeaseRead,
    _place: Share<WorkerId>,
}

impl Default for Reads {
    fn default() -> Self {
        Self(FairShare::new(READS_MAX, WORKER_READS_MAX))
    }
}

impl Workers {
    /// Reads a blob from an offset on, if the named job is leased to the worker and needs the blob.
    /// A worker that wants one gets a URL of a large blob instead.
    pub(super) async fn read(&self, request: ReadBlobRequest) -> Result<Stream_<ReadBlobResponse>, ApiError> {
        let lease = LeaseName::parse(&request.worker_id, request.lease.as_ref())?;
        let (digest, offset) = (digest::parse(request.digest.as_ref(), "digest")?, request.offset_bytes);
        let wants_url = request.wants_url && digest.size_bytes >= URL_FROM_BYTES;
        // The request's bytes are not kept while the call waits.
        drop(request);
        let leased = lease.leased(&self.dispatcher).await?;
        if !leased.needs(&digest) {
            return Err(STALE_LEASE.error("the leased job does not need this blob"));
        }
        let too_many = || OVERLOADED.error("the worker reads too many blobs under this lease").retry_after(RETRY_DELAY);
        let of_lease = leased.calls.begin_read().ok_or_else(too_many)?;
        let place = self.reads.0.take(&lease.worker, 1).await;
        let tenant = TenantId::new(&leased.meta.tenant)?;
        if wants_url && let Some(url) = self.keystore.url(&tenant, &digest, URL_VALID).await? {
            self.transfers.handed_out();
            let message = ReadBlobResponse { data: Bytes::new(), url };
            return Ok(Box::pin(tokio_stream::once(Ok(message))));
        }
        let chunks = self.keystore.read(&tenant, &digest, offset).await?;
        let transfers = self.transfers.clone();
        let read = Read { begun: Instant::now(), transfers, _of_lease: of_lease, _place: place };
        let messages = chunks.map(move |chunk| {
            let message = chunk.map_err(ApiError::from).and_then(|data| read.message(data, Instant::now()));
            message.map_err(Status::from)
        });
        Ok(Box::pin(messages))
    }
}

impl Read {
    /// The next message, or an error if the read has lasted for too long.
    fn message(&self, data: Bytes, now: Instant) -> Result<ReadBlobResponse, ApiError> {
        if now.saturating_duration_since(self.begun) >= READ_TIME_MAX {
            let message = format!("the read has lasted for {} s: resume it", READ_TIME_MAX.as_secs());
            return Err(DEADLINE_EXCEEDED.error(message));
        }
        self.transfers.sent(data.len());
        Ok(ReadBlobResponse { data, url: String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dispatch::LeaseCalls, metrics::Telemetry};

    #[tokio::test]
    async fn a_read_ends_after_a_while() {
        let calls = Arc::<LeaseCalls>::default();
        let read = Read {
            begun: Instant::now(),
            transfers: Transfers::new(Arc::new(Telemetry::new(10).unwrap())),
            _of_lease: calls.begin_read().unwrap(),
            _place: Reads::default().0.take(&WorkerId(1), 1).await,
        };
        let data = Bytes::from_static(b"data");
        let message_after = |time| read.message(data.clone(), read.begun + time);
        assert_eq!(message_after(READ_TIME_MAX - Duration::from_secs(1)).unwrap().data, data);
        assert_eq!(message_after(READ_TIME_MAX).unwrap_err().reason(), DEADLINE_EXCEEDED);
    }
}
