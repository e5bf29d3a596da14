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

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// The next bytes, and their place in the window.
    Data(Bytes, OwnedSemaphorePermit),
    /// All bytes have come.
    Finish,
    /// Look whether you are to stop.
    Look,
}

/// How an upload's thread ended.
pub(super) enum Received {
    /// There may be more to come.
    Part {
        /// Bytes that were kept.
        committed_bytes: u64,
    },
    /// All bytes are there, verified and synced.
    Whole(Content),
}

/// One upload, from its committed offset on.
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
    /// Runs until the sender is done, gone or stopped. Of a blob that cannot become good nothing stays.
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
        // A header's bytes, kept in memory until the whole header is known not to be of a secret key.
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
                Some(Message::Look) => {}
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

    /// Brings the verifier to where the upload was.
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

/// A file that is synced behind the writer's back, so that little is left to sync in the end.
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
            // Whether it fails shows in the last sync, which counts.
            self.syncing = Some(Handle::current().spawn_blocking(move || drop(file.sync_data())));
        }
        Ok(())
    }
}

/// Frees a little of a full disk, or the catalogue could not even write down that something is deleted. Nothing that
/// was committed before is given back.
fn give_back(path: &Path, start: u64) -> Result<(), Error> {
    let file = open_file(path)?;
    let length = file.metadata()?.len();
    Ok(file.set_len(length.saturating_sub(GIVE_BACK_BYTES).max(start.min(length)))?)
}

const GIVE_BACK_BYTES: u64 = 1 << 20;

/// Bytes after which the next sync begins.
const SYNC_BYTES: usize = 16 << 20;

const READ_AGAIN_BYTES: usize = 1 << 20;
