//! Steps that calls with uploads share, and metrics of uploads and downloads.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use cloakwork_keystore::{BlobInfo, Error, UploadWriter};
use tonic::{Status, Streaming};

use super::intake::Arrived;
use crate::{error::ApiError, metrics::Telemetry};

/// Returns the next message for an upload, or none at the stream's end. If the upload ends
/// meanwhile, the call fails at once. Otherwise a client with nothing more to send would hold its
/// place until it times out.
pub(super) async fn next<M>(messages: &mut Streaming<M>, writer: &mut UploadWriter) -> Result<Option<M>, Status> {
    tokio::select! {
        message = messages.message() => message,
        error = writer.ended() => Err(ApiError::from(error).into()),
    }
}

/// Hands the data of a message on to an upload. All bytes that have arrived since the last call
/// count in the upload's window, because the data are a slice of a buffer that may hold far more.
pub(super) async fn hand_on(writer: &mut UploadWriter, arrived: &mut Arrived, data: Bytes) -> Result<(), Error> {
    // A message without data keeps no buffer, but the next slice may lie in the same buffer.
    if data.is_empty() { Ok(()) } else { writer.write_slice(data, arrived.since_last()).await }
}

/// Counts bytes and uploads of all services together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Transfers {
    telemetry: Arc<Telemetry>,
    /// Number of uploads that are being received. The lock is held while the gauge is set, because
    /// an older number could otherwise overwrite a newer one.
    active: Arc<Mutex<u64>>,
}

/// An upload that is being received, until the value is dropped.
pub struct Receiving {
    transfers: Transfers,
    begun: Instant,
}

impl Transfers {
    /// Counters without active uploads.
    pub fn new(telemetry: Arc<Telemetry>) -> Self {
        telemetry.metrics.blob_urls.add(0, []);
        Self { telemetry, active: Arc::default() }
    }

    /// Counts bytes sent to a tenant or a worker.
    pub fn sent(&self, bytes: usize) {
        self.telemetry.metrics.download_bytes.add(bytes as u64, []);
    }

    /// Counts a blob that a worker reads from the store itself.
    pub(super) fn handed_out(&self) {
        self.telemetry.metrics.blob_urls.add(1, []);
    }

    /// Counts an upload that resumes after its first byte.
    pub fn resumed(&self) {
        self.telemetry.metrics.uploads_resumed.add(1, []);
    }

    /// Counts an upload as active until the returned value is dropped.
    pub fn receive(&self) -> Receiving {
        self.change(1);
        Receiving { transfers: self.clone(), begun: Instant::now() }
    }

    fn change(&self, by: i64) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        *active = active.saturating_add_signed(by);
        self.telemetry.metrics.uploads_active.set(*active, []);
    }
}

impl Receiving {
    /// Counts received bytes.
    pub fn bytes(&self, bytes: usize) {
        self.transfers.telemetry.metrics.upload_bytes.add(bytes as u64, []);
    }

    /// Records the result of an upload whose bytes have all arrived.
    pub fn finished(&self, ended: Result<BlobInfo, Error>) -> Result<BlobInfo, Error> {
        let metrics = &self.transfers.telemetry.metrics;
        match &ended {
            Ok(_) => metrics.upload_time.record(self.begun.elapsed().as_secs_f64(), []),
            Err(error) => {
                if let Error::DigestMismatch { .. } = error {
                    metrics.digest_mismatches.add(1, []);
                }
                self.failed(error);
            }
        }
        ended
    }

    /// Counts an upload that ends with an error. Returns the error for the caller.
    pub fn failed(&self, error: &Error) -> ApiError {
        let error = ApiError::from(error.clone());
        self.transfers.telemetry.metrics.uploads_failed.add(1, [error.reason().code]);
        error
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.transfers.change(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_ends_where_it_began_however_uploads_overlap() {
        let telemetry = Arc::new(Telemetry::new(10).unwrap());
        let transfers = Transfers::new(telemetry.clone());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..500).for_each(|_| drop(transfers.receive())));
            }
        });
        let shown =
            |line: &str| telemetry.scrape(cloakwork_telemetry::Format::Prometheus).lines().any(|found| found == line);
        assert!(shown("cloakwork_uploads_active 0"));
        let _one = transfers.receive();
        assert!(shown("cloakwork_uploads_active 1"));
    }
}
