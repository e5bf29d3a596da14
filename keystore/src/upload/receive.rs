//! The thread that hashes and verifies one upload, and writes it or fills the blocks to write.

use std::{fs::File, io::Read, path::PathBuf};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    registry::Presence,
    staged::{StagedFile, settle},
};
use crate::{
    Digest, Error, UploadId,
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
    /// Whether blocks are written, as for a large upload.
    pub(super) in_blocks: bool,
    pub(super) inbox: mpsc::Receiver<Message>,
}

impl Receiver {
    /// Runs until the sender finishes, goes away or is stopped. A blob that cannot become valid
    /// leaves no bytes. Neither does one whose bytes may be missing on disk.
    pub(super) fn run(self) -> Result<Received, Error> {
        let start = self.committed_bytes;
        let mut file = StagedFile::open(&self.path, self.in_blocks.then_some(self.committed_bytes))?;
        let received = self.receive(&mut file);
        settle(start, file, received)
    }

    fn receive(mut self, file: &mut StagedFile) -> Result<Received, Error> {
        let mut verifier = Verifier::new(self.digest, self.policy);
        self.read_again(file.readable(), &mut verifier)?;
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
                    file.sync(File::sync_all)?;
                    return Ok(Received::Whole(content));
                }
                None => {
                    file.sync(File::sync_data)?;
                    return Ok(Received::Part { committed_bytes: file.length()? });
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

/// Size in bytes of a read from the staged file.
const READ_AGAIN_BYTES: usize = 1 << 20;
