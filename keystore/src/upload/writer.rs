//! The writer through which a caller sends an upload.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    Receiving,
    blocks::{BLOCK_BYTES, BLOCKS},
    receive::{Message, Received, Receiver},
    registry::{Presence, Turn},
};
use crate::{
    BlobInfo, Error, Keystore, abort::Abort, catalogue::uploads, catalogue::uploads::UploadRow, staging::Growth,
};

/// Takes an upload's bytes in order. Dropping the writer keeps the received bytes, as
/// [`UploadWriter::pause`] does.
#[derive(Debug)]
pub struct UploadWriter {
    state: State,
}

#[derive(Debug)]
enum State {
    Receiving(Link),
    /// The blob was already stored; written bytes are ignored.
    Done(Box<BlobInfo>),
    Failed(Error),
}

/// Connection to the receiving thread.
#[derive(Debug)]
struct Link {
    sender: mpsc::Sender<Message>,
    window: Arc<Semaphore>,
    window_bytes: u32,
    task: JoinHandle<Result<Ended, Error>>,
    /// Tells the task, when dropped, that the caller is gone.
    caller: oneshot::Sender<Infallible>,
}

#[derive(Debug)]
enum Ended {
    Part { committed_bytes: u64 },
    Whole(Box<BlobInfo>),
}

impl UploadWriter {
    pub(super) fn start(
        keystore: Keystore,
        upload: UploadRow,
        committed_bytes: u64,
        turn: Turn,
        presence: Presence,
        place: Receiving,
        growth: Growth,
    ) -> Self {
        let rest_bytes = upload.digest.size_bytes.saturating_sub(committed_bytes);
        let (window_bytes, in_blocks) = divide(keystore.limits().window_bytes.max(1), rest_bytes);
        let (sender, inbox) = mpsc::channel(PIECES);
        presence.attach(sender.downgrade());
        let abort = presence.abort().clone();
        let receiver = Receiver {
            id: upload.id.clone(),
            path: keystore.staging().path(&upload.tenant, &upload.id),
            digest: upload.digest,
            committed_bytes,
            policy: keystore.policy(),
            presence,
            in_blocks,
            inbox,
        };
        let (caller, is_caller_gone) = oneshot::channel();
        // A separate task completes a commit that has begun, even if the caller goes away.
        let task = tokio::spawn(async move {
            let ended = drive(&keystore, &upload, receiver, growth, &abort, place, is_caller_gone).await;
            drop(turn);
            ended
        });
        let window = Arc::new(Semaphore::new(window_bytes as usize));
        Self { state: State::Receiving(Link { sender, window, window_bytes, task, caller }) }
    }

    pub(super) fn done(blob: BlobInfo) -> Self {
        Self { state: State::Done(Box::new(blob)) }
    }

    /// Takes the next bytes, and waits while the window is full. An error may concern bytes of an
    /// earlier call.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.write_slice(bytes, 0).await
    }

    /// Like [`UploadWriter::write`], for bytes that are a slice of a larger buffer of
    /// `buffer_bytes` bytes. The slice keeps the whole buffer in memory, so the buffer counts in
    /// the window. Otherwise a few bytes of each large message would take far more memory than the
    /// window allows.
    pub async fn write_slice(&mut self, mut bytes: Bytes, buffer_bytes: u64) -> Result<(), Error> {
        let rest_of_buffer_bytes = buffer_bytes.saturating_sub(bytes.len() as u64);
        while !bytes.is_empty() {
            let link = match &mut self.state {
                State::Receiving(link) => link,
                State::Done(_) => return Ok(()),
                State::Failed(error) => return Err(error.clone()),
            };
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES).min(link.window_bytes as usize));
            // The last piece keeps the buffer for longest, so the rest of the buffer counts there.
            let rest_bytes = if bytes.is_empty() { rest_of_buffer_bytes } else { 0 };
            let counted_bytes = rest_bytes.saturating_add(piece.len() as u64);
            // A buffer that exceeds the window waits until it has the window to itself.
            let counted_bytes = u32::try_from(counted_bytes).unwrap_or(u32::MAX).min(link.window_bytes);
            let place = link.window.clone().acquire_many_owned(counted_bytes).await.map_err(Error::failed)?;
            if link.sender.send(Message::Data(piece, place)).await.is_err() {
                return Err(self.ended().await);
            }
        }
        Ok(())
    }

    /// Returns when the upload has failed without a write by the caller, for example by an abort or
    /// a takeover. A caller that waits for bytes to write must wait for this too, to learn of the
    /// failure before the next bytes. Cancelling the wait loses nothing.
    pub async fn ended(&mut self) -> Error {
        let error = match &mut self.state {
            State::Receiving(link) => {
                link.sender.closed().await;
                match (&mut link.task).await {
                    Ok(Err(error)) => error,
                    Ok(Ok(_)) => Error::failed("the upload's thread ended early"),
                    Err(error) => error.into(),
                }
            }
            State::Done(_) => std::future::pending().await,
            State::Failed(error) => return error.clone(),
        };
        self.state = State::Failed(error.clone());
        error
    }

    /// Keeps the received bytes, and returns the committed offset.
    pub async fn pause(self) -> Result<u64, Error> {
        match self.state {
            State::Receiving(Link { sender, task, .. }) => {
                drop(sender);
                match task.await?? {
                    Ended::Part { committed_bytes } => Ok(committed_bytes),
                    Ended::Whole(blob) => Ok(blob.digest.size_bytes),
                }
            }
            State::Done(blob) => Ok(blob.digest.size_bytes),
            State::Failed(error) => Err(error),
        }
    }

    /// Verifies and commits the blob.
    pub async fn finish(self) -> Result<BlobInfo, Error> {
        match self.state {
            State::Receiving(Link { sender, task, caller: _caller, .. }) => {
                // If the thread has ended, its own error gives the reason.
                let _ = sender.send(Message::Finish).await;
                match task.await?? {
                    Ended::Whole(blob) => Ok(*blob),
                    Ended::Part { .. } => Err(Error::failed("the upload's thread ended early")),
                }
            }
            State::Done(blob) => Ok(*blob),
            State::Failed(error) => Err(error),
        }
    }
}

/// Receives, then commits or cleans up. After an abort this removes nothing: the abort does so
/// after this writer's turn.
async fn drive(
    keystore: &Keystore,
    upload: &UploadRow,
    receiver: Receiver,
    growth: Growth,
    abort: &Abort,
    place: Receiving,
    is_caller_gone: oneshot::Receiver<Infallible>,
) -> Result<Ended, Error> {
    let path = receiver.path.clone();
    // The room ends with the last write. Otherwise the removal of the file would count twice.
    let receive = move || {
        let _growth = growth;
        receiver.run()
    };
    let received = tokio::task::spawn_blocking(receive).await?;
    // A client keeps its place until the commit has ended, which bounds the commits of clients. A
    // result gives its place back at once, because other tenants wait for it.
    let of_client = match place {
        Receiving::Client(place) => Some(place),
        Receiving::Worker(place) => {
            drop(place);
            None
        }
    };
    match received {
        Ok(Received::Part { committed_bytes }) => Ok(pause(keystore, upload, committed_bytes).await),
        Ok(Received::Whole(content)) => {
            let (tenant, digest) = (&upload.tenant, &upload.digest);
            let commits = async {
                match &of_client {
                    Some(_) => None,
                    None => Some(keystore.result_commits().take(tenant, 1).await),
                }
            };
            // Results whose callers are gone leave the line. Otherwise there could be any number of
            // them.
            let _place = tokio::select! {
                biased;
                place = commits => place,
                _ = is_caller_gone => return Ok(pause(keystore, upload, digest.size_bytes).await),
            };
            let blob = keystore.commit(tenant, digest, &path, &content, None, Some((upload, abort))).await?;
            keystore.staging().remove(&path).await;
            Ok(Ended::Whole(Box::new(blob)))
        }
        Err(error) => {
            if error.condemns() {
                tracing::warn!(tenant = %upload.tenant, %error, "upload refused");
            }
            // Sending again can repair damage in transit and nothing else.
            if error.condemns() && !matches!(error, Error::DigestMismatch { .. }) {
                let mut tx = keystore.write(&upload.tenant).await?;
                uploads::remove(&mut tx, &upload.id).await?;
                tx.commit().await?;
            }
            Err(error)
        }
    }
}

/// Ends a writer before its commit, and keeps the received bytes.
async fn pause(keystore: &Keystore, upload: &UploadRow, committed_bytes: u64) -> Ended {
    // Callers that need the upload's place must see that it had a writer until now. No byte depends
    // on the renewal.
    if let Err(error) = keystore.renew(upload).await {
        tracing::warn!(upload = %upload.id, %error, "expiry of an upload not renewed");
    }
    Ended::Part { committed_bytes }
}

/// Divides the bytes that an upload may hold: into the window of its pieces, and blocks if the rest
/// of the upload is large. Returns the window, and whether there are blocks.
///
/// Blocks leave the page cache without the bytes, and a job that reads a small blob soon afterwards
/// would wait for the disk.
fn divide(held_bytes: u32, rest_bytes: u64) -> (u32, bool) {
    let in_blocks = rest_bytes >= IN_BLOCKS_FROM_BYTES && held_bytes >= 2 * BLOCKS_BYTES;
    (if in_blocks { held_bytes - BLOCKS_BYTES } else { held_bytes }, in_blocks)
}

/// Number of bytes from which the rest of an upload is written in blocks.
const IN_BLOCKS_FROM_BYTES: u64 = 32 << 20;

/// Number of bytes of all blocks of an upload.
const BLOCKS_BYTES: u32 = (BLOCKS * BLOCK_BYTES) as u32;

/// Largest piece in bytes that goes to the thread; larger pieces are cut.
const PIECE_BYTES: usize = 1 << 20;

/// Number of pieces in the window if they are too small to fill it.
const PIECES: usize = 64;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const WINDOW_BYTES: u32 = 100;

    /// A writer whose pieces wait in the returned inbox, as if its thread were busy.
    fn stalled() -> (UploadWriter, mpsc::Receiver<Message>) {
        let (sender, inbox) = mpsc::channel(PIECES);
        let window = Arc::new(Semaphore::new(WINDOW_BYTES as usize));
        let task = tokio::spawn(std::future::pending());
        let link = Link { sender, window, window_bytes: WINDOW_BYTES, task, caller: oneshot::channel().0 };
        (UploadWriter { state: State::Receiving(link) }, inbox)
    }

    fn piece(inbox: &mut mpsc::Receiver<Message>) -> usize {
        match inbox.try_recv() {
            Ok(Message::Data(bytes, _)) => bytes.len(),
            other => panic!("{other:?}"),
        }
    }

    /// Otherwise an upload would hold more memory than the limit allows.
    #[test]
    fn blocks_and_window_share_the_bytes_of_an_upload() {
        let (limit, large) = (8 << 20, IN_BLOCKS_FROM_BYTES);
        assert_eq!(divide(limit, large), (limit - BLOCKS_BYTES, true));
        assert_eq!(divide(limit, large - 1), (limit, false));
        assert_eq!(divide(2 * BLOCKS_BYTES - 1, large), (2 * BLOCKS_BYTES - 1, false));
    }

    #[tokio::test]
    async fn a_slice_counts_in_the_window_with_its_whole_buffer() {
        for (buffer_bytes, more_fit) in [(0, true), (1, true), (99, true), (100, false), (u64::MAX, false)] {
            let (mut writer, mut inbox) = stalled();
            writer.write_slice(Bytes::from_static(b"x"), buffer_bytes).await.expect("the window is empty");
            let next = writer.write(Bytes::from_static(b"y")).now_or_never();
            assert_eq!(next.is_some(), more_fit, "{buffer_bytes}");
            // The buffer leaves the window with its piece.
            assert_eq!(piece(&mut inbox), 1);
            writer.write(Bytes::from_static(b"z")).now_or_never().expect("there is room").expect("handed over");
        }
    }

    #[tokio::test]
    async fn the_last_piece_of_a_slice_keeps_its_buffer_in_the_window() {
        let (mut writer, mut inbox) = stalled();
        // Cut into two pieces, of 100 and 20 bytes.
        let mut write = Box::pin(writer.write_slice(Bytes::from_static(&[7; 120]), 200));
        assert!((&mut write).now_or_never().is_none(), "the first piece fills the window");
        assert_eq!(piece(&mut inbox), 100);
        write.now_or_never().expect("there is room").expect("handed over");
        assert!(writer.write(Bytes::from_static(b"x")).now_or_never().is_none(), "20 bytes, and 80 of the buffer");
        assert_eq!(piece(&mut inbox), 20);
        writer.write(Bytes::from_static(b"x")).now_or_never().expect("there is room").expect("handed over");
    }
}
