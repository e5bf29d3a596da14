//! Blobs of leased jobs, read from the server.

use std::{
    io::{self, Read},
    sync::Arc,
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use cloakwork_proto::v1;
use cloakwork_retry::Pauses;
use cloakwork_trace::TraceContext;
use tokio::{runtime::Handle, sync::mpsc, time::Instant};
use tonic::{Request, Status};

use crate::{connection::Client, direct::Direct, failure::JobFailure, job_trace::add_to};

/// Reads blobs under one lease.
#[derive(Clone)]
pub(crate) struct BlobReader {
    pub(crate) client: Client,
    pub(crate) worker_id: Bytes,
    pub(crate) lease: v1::Lease,
    /// The store, for large blobs.
    pub(crate) store: Option<Arc<Direct>>,
    /// The span of the job, if the job is traced.
    pub(crate) trace: Option<TraceContext>,
}

/// Pieces of a blob that may wait to be read. At a megabyte per piece, the channel bounds the
/// memory of a load beside the key itself.
const PIECES: usize = 8;
/// Time without a byte after which the read fails. A takeover takes 5 s, and a database may be away
/// for longer. Each failed read counts as an attempt at its job, and a job has few attempts. A
/// worker that loses the lease meanwhile drops the read.
const STALLED_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the next piece.
const PIECE_TIMEOUT: Duration = Duration::from_secs(30);

impl BlobReader {
    /// Reads and verifies a whole blob. For ciphertexts; keys are streamed.
    pub(crate) async fn read(&self, digest: &v1::Digest) -> Result<Bytes, JobFailure> {
        let (sender, mut pieces) = mpsc::channel(PIECES);
        let fetch = self.fetch(digest.clone(), sender);
        let gather = async {
            let mut check = Check::new(digest);
            let mut bytes = Vec::new();
            while let Some(piece) = pieces.recv().await {
                let piece = piece.map_err(|status| JobFailure::passing("BLOB_UNAVAILABLE", status.message()))?;
                check.take(&piece).map_err(|problem| JobFailure::passing("BLOB_CORRUPT", problem))?;
                bytes.extend_from_slice(&piece);
            }
            check.end().map_err(|problem| JobFailure::passing("BLOB_CORRUPT", problem))?;
            Ok(bytes.into())
        };
        tokio::join!(fetch, gather).1
    }

    /// Streams a blob and verifies its digest at the end. The reader blocks, and must be used
    /// outside of the runtime.
    pub(crate) fn open(&self, digest: &v1::Digest, runtime: &Handle) -> impl Read + use<> {
        let (sender, pieces) = mpsc::channel(PIECES);
        let (blobs, wanted) = (self.clone(), digest.clone());
        runtime.spawn(async move { blobs.fetch(wanted, sender).await });
        PieceReader { pieces, piece: Bytes::new(), check: Check::new(digest) }
    }

    /// Sends the pieces of a blob, and resumes after a break at the current offset. The store is
    /// tried once, and the server sends what the store did not. Ends early when the receiver is
    /// dropped.
    async fn fetch(&self, digest: v1::Digest, sender: mpsc::Sender<Result<Bytes, Status>>) {
        let (mut offset, mut store) = (0, self.store.as_deref());
        let mut pauses = Pauses::new(Duration::from_millis(50), Duration::from_secs(1));
        let mut stalled_since = Instant::now();
        loop {
            let before = offset;
            let status = match self.fetch_from(store.take(), &digest, &mut offset, &sender).await {
                Ok(()) => return,
                Err(status) => status,
            };
            if offset > before {
                stalled_since = Instant::now();
                pauses.reset();
            }
            if stalled_since.elapsed() >= STALLED_TIME_MAX || !crate::connection::passes(&status) {
                let _ = sender.send(Err(status)).await;
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pauses.next_pause()) => {}
                () = sender.closed() => return,
            }
        }
    }

    async fn fetch_from(
        &self,
        store: Option<&Direct>,
        digest: &v1::Digest,
        offset: &mut u64,
        sender: &mpsc::Sender<Result<Bytes, Status>>,
    ) -> Result<(), Status> {
        let request = v1::ReadBlobRequest {
            worker_id: self.worker_id.clone(),
            lease: Some(self.lease.clone()),
            digest: Some(digest.clone()),
            offset_bytes: *offset,
            wants_url: store.is_some(),
        };
        let late = |_| Status::deadline_exceeded("the server sent nothing for too long");
        let mut client = self.client.clone();
        let mut request = Request::new(request);
        if let Some(trace) = self.trace {
            add_to(trace, request.metadata_mut());
        }
        let call = client.read_blob(request);
        let mut stream = tokio::time::timeout(PIECE_TIMEOUT, call).await.map_err(late)??.into_inner();
        while let Some(message) = tokio::time::timeout(PIECE_TIMEOUT, stream.message()).await.map_err(late)?? {
            if let (Some(store), false) = (store, message.url.is_empty()) {
                return store.fetch(&message.url, digest.size_bytes, offset, sender).await.map_err(|problem| {
                    tracing::warn!(problem, "a blob cannot be read from the store: the server sends it");
                    Status::unavailable(problem)
                });
            }
            *offset += message.data.len() as u64;
            if sender.send(Ok(message.data)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Verifies streamed bytes against their digest.
struct Check {
    expected: Bytes,
    size: u64,
    got: u64,
    hasher: blake3::Hasher,
}

impl Check {
    fn new(digest: &v1::Digest) -> Self {
        Self { expected: digest.blake3.clone(), size: digest.size_bytes, got: 0, hasher: blake3::Hasher::new() }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.got += bytes.len() as u64;
        if self.got > self.size {
            return Err(format!("the blob has more bytes than the {} of its digest", self.size));
        }
        self.hasher.update(bytes);
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        if self.got != self.size {
            return Err(format!("the blob has {} bytes, its digest says {}", self.got, self.size));
        }
        if self.hasher.finalize().as_bytes()[..] != self.expected[..] {
            return Err("the blob's bytes do not have its digest".to_owned());
        }
        Ok(())
    }
}

/// Returns pieces as they come. The stream ends without an error only if all pieces together match
/// the digest.
struct PieceReader {
    pieces: mpsc::Receiver<Result<Bytes, Status>>,
    piece: Bytes,
    check: Check,
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let invalid = |problem| io::Error::new(io::ErrorKind::InvalidData, problem);
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(Ok(piece)) => {
                    self.check.take(&piece).map_err(invalid)?;
                    self.piece = piece;
                }
                Some(Err(status)) => return Err(io::Error::other(status.message().to_owned())),
                None => return self.check.end().map(|()| 0).map_err(invalid),
            }
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use cloakwork_proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
    use tokio_stream::Stream;
    use tonic::{Request, Response, Streaming};

    use super::*;
    use crate::connection::{Uplink, client};

    /// A server that has one blob, and refuses all reads until a time.
    struct Away {
        until: Instant,
        blob: Bytes,
    }

    #[tonic::async_trait]
    impl WorkerService for Away {
        type AttachStream = tokio_stream::Empty<Result<v1::AttachResponse, Status>>;
        type ReadBlobStream = Pin<Box<dyn Stream<Item = Result<v1::ReadBlobResponse, Status>> + Send>>;

        async fn attach(
            &self,
            _: Request<Streaming<v1::AttachRequest>>,
        ) -> Result<Response<Self::AttachStream>, Status> {
            Err(Status::unimplemented(""))
        }

        /// Each stream that is not refused breaks after one byte.
        async fn read_blob(
            &self,
            request: Request<v1::ReadBlobRequest>,
        ) -> Result<Response<Self::ReadBlobStream>, Status> {
            if Instant::now() < self.until {
                return Err(Status::unavailable("away"));
            }
            let offset = request.get_ref().offset_bytes as usize;
            let data = self.blob.slice(offset..self.blob.len().min(offset + 1));
            let is_last = offset + data.len() == self.blob.len();
            let piece = Ok(v1::ReadBlobResponse { data, url: String::new() });
            let end = (!is_last).then(|| Err(Status::unavailable("broken")));
            Ok(Response::new(Box::pin(tokio_stream::iter([piece].into_iter().chain(end)))))
        }

        async fn commit_result(
            &self,
            _: Request<Streaming<v1::CommitResultRequest>>,
        ) -> Result<Response<v1::CommitResultResponse>, Status> {
            Err(Status::unimplemented(""))
        }
    }

    /// A blob, and a reader of it from a server that is away for this time.
    fn away_for(away: Duration) -> (v1::Digest, BlobReader) {
        let blob = Bytes::from_static(b"ciphertexts");
        let digest = v1::Digest {
            blake3: Bytes::copy_from_slice(blake3::hash(&blob).as_bytes()),
            size_bytes: blob.len() as u64,
        };
        let server = WorkerServiceServer::new(Away { until: Instant::now() + away, blob });
        let client = client(Uplink::new(server), None).expect("a client");
        let lease = v1::Lease::default();
        (digest, BlobReader { client, worker_id: Bytes::new(), lease, store: None, trace: None })
    }

    async fn read_after(away: Duration) -> Result<Bytes, JobFailure> {
        let (digest, reader) = away_for(away);
        reader.read(&digest).await
    }

    /// Otherwise the reads of lost leases would go on beside those of the next ones.
    #[tokio::test(start_paused = true)]
    async fn a_read_that_nobody_awaits_ends_at_once() {
        let (digest, reader) = away_for(Duration::from_secs(3600));
        let (sender, pieces) = mpsc::channel(PIECES);
        let reading = tokio::spawn(async move { reader.fetch(digest, sender).await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!reading.is_finished());
        drop(pieces);
        tokio::time::timeout(Duration::from_millis(10), reading).await.expect("at once").expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_outlasts_a_takeover_and_broken_streams() {
        let begun = Instant::now();
        let bytes = read_after(STALLED_TIME_MAX - Duration::from_secs(2)).await.unwrap_or_else(|_| panic!("read"));
        assert_eq!(&bytes[..], b"ciphertexts");
        assert!(begun.elapsed() < STALLED_TIME_MAX + Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_fails_in_the_end() {
        let begun = Instant::now();
        let Err(failure) = read_after(Duration::from_secs(3600)).await else { panic!("nothing to read") };
        assert_eq!((failure.reason, failure.retryable), ("BLOB_UNAVAILABLE", true));
        assert!(begun.elapsed() < STALLED_TIME_MAX + Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    fn reader(pieces: &[&[u8]], of: &[u8]) -> PieceReader {
        let (sender, receiver) = mpsc::channel(PIECES);
        pieces.iter().for_each(|piece| sender.try_send(Ok(Bytes::copy_from_slice(piece))).expect("room"));
        let blake3 = Bytes::copy_from_slice(blake3::hash(of).as_bytes());
        let digest = v1::Digest { blake3, size_bytes: of.len() as u64 };
        PieceReader { pieces: receiver, piece: Bytes::new(), check: Check::new(&digest) }
    }

    #[test]
    fn bytes_that_differ_from_their_digest_are_invalid_data() {
        let mut text = String::new();
        reader(&[b"clo", b"", b"ak"], b"cloak").read_to_string(&mut text).expect("the right bytes");
        assert_eq!(text, "cloak");
        for (pieces, what) in [(&[&b"cloa"[..]][..], "short"), (&[b"cloaks"], "long"), (&[b"clock"], "other")] {
            let error = reader(pieces, b"cloak").read_to_end(&mut Vec::new()).expect_err(what);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{what}");
        }
    }

    #[test]
    fn a_broken_stream_is_not_reported_as_corruption() {
        let (sender, pieces) = mpsc::channel(PIECES);
        sender.try_send(Err(Status::unavailable("gone"))).expect("room");
        let digest = v1::Digest { blake3: Bytes::new(), size_bytes: 5 };
        let mut reader = PieceReader { pieces, piece: Bytes::new(), check: Check::new(&digest) };
        assert_ne!(reader.read(&mut [0; 8]).expect_err("a break").kind(), io::ErrorKind::InvalidData);
    }
}
