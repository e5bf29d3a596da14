//! The thread that hashes, verifies and writes one upload.

use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, mpsc},
    task::JoinHandle,
};

use super::registry::Presence;
use crate::{
    Digest, Error, UploadId,
    staging::open_file,
    store::remove_if_there,
    verify::{Content, Policy, Verifier},
};

/// A message to the receiving thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// The next bytes, and their permit of the window.
    Data(Bytes, OwnedSemaphorePermit),
    /// All bytes have been sent.
    Finish,
    /// Wakes the thread, which then checks whether it must stop.
    Wake,
}

/// Outcome of an upload's thread.
pub(super) enum Received {
    /// The upload is incomplete, and more bytes may follow.
    Part {
        /// Number of bytes that were kept.
        committed_bytes: u64,
    },
    /// All bytes are present, verified and fsynced.
    Whole(Content),
}

/// Receives one upload, from its committed offset on.
pub(super) struct Receiver {
    pub(super) id: UploadId,
    pub(super) path: PathBuf,
    pub(super) digest: Digest,
    pub(super) committed_bytes: u64,
    pub(super) policy: Policy,
    pub(super) presence: Presence,
    pub(super) inbox: mpsc::Receiver<Message>,
}

impl Receiver {
    /// Runs until the sender finishes, goes away or is stopped. A blob that cannot become valid
    /// leaves no bytes.
    pub(super) fn run(self) -> Result<Received, Error> {
        let (path, start) = (self.path.clone(), self.committed_bytes);
        let received = self.receive();
        match &received {
            Err(error) if error.condemns() => remove_if_there(&path)?,
            Err(Error::StorageFull) => give_back(&path, start)?,
            _ => {}
        }
        received
    }

    fn receive(mut self) -> Result<Received, Error> {
        let mut file = StagedFile::open(&self.path)?;
        let mut verifier = Verifier::new(self.digest, self.policy);
        self.read_again(&mut file.file, &mut verifier)?;
        // Bytes of the header, which stay in memory until the whole header is known not to be of a
        // secret key.
        let mut held = Vec::new();
        loop {
            self.presence.set_idle(true);
            let message = self.inbox.blocking_recv();
            self.presence.set_idle(false);
            self.presence.check(&self.id)?;
            match message {
                Some(Message::Data(bytes, _place)) => {
                    verifier.push(&bytes)?;
                    if !verifier.header_accepted() {
                        held.extend_from_slice(&bytes);
                        continue;
                    }
                    if !held.is_empty() {
                        file.write(&std::mem::take(&mut held))?;
                    }
                    file.write(&bytes)?;
                }
                Some(Message::Wake) => {}
                Some(Message::Finish) => {
                    let content = verifier.finish()?;
                    file.file.sync_all()?;
                    return Ok(Received::Whole(content));
                }
                None => {
                    file.file.sync_data()?;
                    return Ok(Received::Part { committed_bytes: file.file.metadata()?.len() });
                }
            }
        }
    }

    /// Reads the staged bytes again, to bring the verifier to the committed offset.
    fn read_again(&self, file: &mut File, verifier: &mut Verifier) -> Result<(), Error> {
        let mut left = self.committed_bytes;
        let mut buffer = vec![0; READ_AGAIN_BYTES.min(usize::try_from(left).unwrap_or(READ_AGAIN_BYTES))];
        while left > 0 {
            self.presence.check(&self.id)?;
            let step = file.read(&mut buffer)?;
            if step == 0 {
                return Err(Error::failed("a staged file is shorter than it was a moment ago"));
            }
            verifier.push(&buffer[..step])?;
            left = left.saturating_sub(step as u64);
        }
        Ok(())
    }
}

/// A file that is fsynced in the background, so that little is left for the final fsync.
struct StagedFile {
    file: File,
    unsynced: usize,
    syncing: Option<JoinHandle<()>>,
}

impl StagedFile {
    fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { file: open_file(path)?, unsynced: 0, syncing: None })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes)?;
        self.unsynced += bytes.len();
        if self.unsynced >= SYNC_BYTES && self.syncing.as_ref().is_none_or(JoinHandle::is_finished) {
            self.unsynced = 0;
            let file = self.file.try_clone()?;
            // The result of the final fsync counts, so this result is dropped.
            self.syncing = Some(Handle::current().spawn_blocking(move || drop(file.sync_data())));
        }
        Ok(())
    }
}

/// Frees some space of a full disk. Otherwise the catalogue could not even record a deletion. Bytes
/// that were committed before this writer are kept.
fn give_back(path: &Path, start: u64) -> Result<(), Error> {
    let file = open_file(path)?;
    let length = file.metadata()?.len();
    Ok(file.set_len(length.saturating_sub(GIVE_BACK_BYTES).max(start.min(length)))?)
}

/// Number of bytes that a full disk gets back.
const GIVE_BACK_BYTES: u64 = 1 << 20;

/// Number of bytes after which the next background fsync begins.
const SYNC_BYTES: usize = 16 << 20;

/// Size in bytes of a read from the staged file.
const READ_AGAIN_BYTES: usize = 1 << 20;
