//! Resumable uploads of blobs.

mod pump;

use std::path::PathBuf;

use bytes::Bytes;
use cloakwork_proto::v1::{
    self, AbortUploadRequest, BeginUploadRequest, FindMissingRequest, GetUploadRequest, ListUploadsRequest,
};
use futures_util::Stream;
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::{
    Client, ClientError, Digest, Progress, Result, client::request_id, names, pages, response::required,
    retry::Attempts,
};

/// Source of a blob's bytes.
#[derive(Clone, Debug)]
pub enum Source {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A file, which must not change during the upload.
    File(PathBuf),
}

impl Source {
    /// Digest of the bytes. Files are read on a blocking thread.
    pub async fn digest(&self) -> Result<Digest> {
        let source = self.clone();
        let work = move || match source {
            Self::Bytes(bytes) => Ok(Digest::of(&bytes)),
            Self::File(path) => Digest::of_file(&path),
        };
        blocking(work).await
    }
}

impl Client {
    /// Returns which of these blobs the server does not have yet.
    pub async fn find_missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        let request = FindMissingRequest { digests: digests.iter().map(|digest| digest.message()).collect() };
        let send = |client: Self, request| async move { client.blobs().find_missing(request).await };
        self.call(request, send).await?.missing.iter().map(Digest::from_message).collect()
    }

    /// Uploads a blob, unless the server has it.
    ///
    /// The upload resumes where an earlier upload of the same bytes broke off, in this process or
    /// an earlier one. Only a few chunks are in memory, however long the blob is.
    pub async fn upload(&self, what: &str, source: &Source, digest: Digest, progress: &Progress) -> Result<()> {
        let mut attempts = Attempts::new(self.policy());
        let mut upload = self.begin_upload(digest).await?;
        while !upload.complete {
            progress.step(what, upload.committed_bytes, digest.size_bytes);
            let before = upload.committed_bytes;
            upload = match self.write(what, &upload, source, digest, progress).await {
                Ok(upload) => upload,
                Err(error) if resumable(&error) => {
                    let upload = self.committed(&upload.name, digest).await?;
                    if upload.committed_bytes > before {
                        attempts.progress();
                    }
                    attempts.pause_anyway(error).await?;
                    upload
                }
                Err(error) => return Err(error),
            };
        }
        progress.step(what, digest.size_bytes, digest.size_bytes);
        Ok(())
    }

    /// The tenant's open uploads. Further pages are fetched as the stream is read.
    pub fn uploads(&self) -> impl Stream<Item = Result<v1::Upload>> + Send + Unpin {
        let client = self.clone();
        pages::stream(move |page_token| {
            let client = client.clone();
            async move {
                let request = ListUploadsRequest { page_size: 0, page_token };
                let send = |client: Self, request| async move { client.blobs().list_uploads(request).await };
                let answer = client.call(request, send).await?;
                let uploads = answer.uploads.into_iter().map(names::upload);
                Ok((uploads.collect::<Result<_>>()?, answer.next_page_token))
            }
        })
    }

    /// Aborts an upload by its resource name, and deletes the bytes received so far. The upload's
    /// place and bytes are free when this call returns. An upload that does not exist, is complete,
    /// or belongs to no client stays unchanged. A client that is about to resume the upload begins
    /// it again.
    pub async fn abort_upload(&self, name: &str) -> Result<()> {
        let request = AbortUploadRequest { name: name.into() };
        let send = |client: Self, request| async move { client.blobs().abort_upload(request).await };
        self.call(request, send).await.map(drop)
    }

    async fn begin_upload(&self, digest: Digest) -> Result<v1::Upload> {
        let request = BeginUploadRequest { request_id: request_id(), digest: Some(digest.message()) };
        let send = |client: Self, request| async move { client.blobs().begin_upload(request).await };
        checked(required(self.call(request, send).await?.upload, "upload")?, digest)
    }

    /// The committed offset of an upload, or a new upload if the server has forgotten it.
    async fn committed(&self, name: &str, digest: Digest) -> Result<v1::Upload> {
        let request = GetUploadRequest { name: name.to_owned() };
        let send = |client: Self, request| async move { client.blobs().get_upload(request).await };
        match self.call(request, send).await {
            Ok(answer) => checked(required(answer.upload, "upload")?, digest),
            Err(ClientError::Refused(refusal)) if refusal.code == Code::NotFound => self.begin_upload(digest).await,
            Err(error) => Err(error),
        }
    }

    /// Sends all bytes from the committed offset on.
    async fn write(
        &self,
        what: &str,
        upload: &v1::Upload,
        source: &Source,
        digest: Digest,
        progress: &Progress,
    ) -> Result<v1::Upload> {
        let (messages, stream) = tokio::sync::mpsc::channel(CHUNKS_IN_FLIGHT);
        let (failed, mut failure) = oneshot::channel();
        let pump = pump::Pump {
            what: what.to_owned(),
            upload: upload.name.clone(),
            next: upload.committed_bytes,
            size: digest.size_bytes,
            chunk: chunk_bytes(upload.chunk_bytes),
            progress: progress.clone(),
        };
        let source = source.clone();
        // Ends when the call ends, because the channel of messages is then closed.
        tokio::task::spawn_blocking(move || {
            if let Err(error) = pump.run(&source, &messages) {
                // The call fails first because its stream was cut short. This error has the cause.
                let _ = failed.send(error);
            }
        });
        let answer = self.blobs().write(ReceiverStream::new(stream)).await;
        if let Ok(error) = failure.try_recv() {
            return Err(error);
        }
        let upload = checked(required(answer?.into_inner().upload, "upload")?, digest)?;
        if upload.complete {
            Ok(upload)
        } else {
            // The protocol has no such response for a whole blob. Retrying finds out the committed
            // offset.
            Err(ClientError::Transport { problem: "the upload ended before its last byte was stored".into() })
        }
    }
}

/// Whether the upload can resume from its committed offset. Concurrent writers and wrong offsets
/// are resumable as well.
fn resumable(error: &ClientError) -> bool {
    let mismatch = |code| matches!(code, Code::Aborted | Code::OutOfRange);
    error.is_retryable() || error.refusal().is_some_and(|refusal| mismatch(refusal.code))
}

fn checked(upload: v1::Upload, digest: Digest) -> Result<v1::Upload> {
    if upload.committed_bytes > digest.size_bytes {
        return Err(ClientError::malformed("an upload of more bytes than the blob has"));
    }
    Ok(upload)
}

/// The server's recommended chunk size, limited to a reasonable range.
fn chunk_bytes(hint: u32) -> usize {
    match hint {
        0 => CHUNK_BYTES_DEFAULT,
        hint => (hint as usize).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX),
    }
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // The runtime is shutting down, or the work has panicked. A panic continues here.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ClientError::Transport { problem: "the runtime is shutting down".into() }),
        },
    }
}

/// Number of chunks read ahead of the transport.
const CHUNKS_IN_FLIGHT: usize = 4;
const CHUNK_BYTES_DEFAULT: usize = 1 << 20;
const CHUNK_BYTES_MIN: usize = 4 << 10;
const CHUNK_BYTES_MAX: usize = 4 << 20;
