//! The thread that hashes, verifies and writes one upload.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

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
    /// leaves no bytes. Neither does one whose bytes may be missing on disk.
    pub(super) fn run(self) -> Result<Received, Error> {
        let start = self.committed_bytes;
        let mut file = StagedFile::open(&self.path)?;
        let received = self.receive(&mut file);
        settle(start, file, received)
    }

    fn receive(mut self, file: &mut StagedFile) -> Result<Received, Error> {
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
                    file.sync(File::sync_all)?;
                    return Ok(Received::Whole(content));
                }
                None => {
                    file.sync(File::sync_data)?;
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
///
/// The system reports a failed write to the disk in one fsync only, and then counts the bytes as
/// written. So the result of every fsync counts: without it, the final fsync could succeed although
/// bytes are missing on disk. The missing bytes can still be read from memory, so that verifying
/// them again proves nothing.
struct StagedFile {
    path: PathBuf,
    file: File,
    unsynced: usize,
    syncing: Option<JoinHandle<io::Result<()>>>,
    /// Whether an fsync has failed.
    has_lost_bytes: bool,
}

impl StagedFile {
    fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned(), file: open_file(path)?, unsynced: 0, syncing: None, has_lost_bytes: false })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes)?;
        self.unsynced += bytes.len();
        if self.unsynced >= SYNC_BYTES && self.syncing.as_ref().is_none_or(JoinHandle::is_finished) {
            self.end_background_sync()?;
            self.unsynced = 0;
            let (file, path) = (self.file.try_clone()?, self.path.clone());
            // The thread discards the bytes itself, in case this process ends before the writer.
            let sync = move || file.sync_data().inspect_err(|_| drop(discard(&path)));
            // Without a thread, the final fsync has more to do.
            self.syncing = thread::Builder::new().name("fsync".to_owned()).spawn(sync).ok();
        }
        Ok(())
    }

    /// Fsyncs all bytes by `sync`, and fails if any earlier fsync has failed.
    fn sync(&mut self, sync: fn(&File) -> io::Result<()>) -> Result<(), Error> {
        self.end_background_sync()?;
        self.note(sync(&self.file))
    }

    /// Waits for the fsync in the background, if one is running.
    fn end_background_sync(&mut self) -> Result<(), Error> {
        let Some(syncing) = self.syncing.take() else { return Ok(()) };
        let synced = syncing.join();
        self.note(synced.unwrap_or_else(|_| Err(io::Error::other("an fsync panicked"))))
    }

    fn note(&mut self, synced: io::Result<()>) -> Result<(), Error> {
        self.has_lost_bytes |= synced.is_err();
        Ok(synced?)
    }
}

/// Ends a writer, and removes bytes that the next writer must not build on: all bytes, if an fsync
/// failed or the blob cannot become valid. On a full disk, some of this writer's bytes are removed.
/// Earlier writers committed the first `start` bytes.
fn settle(start: u64, mut file: StagedFile, received: Result<Received, Error>) -> Result<Received, Error> {
    let synced = file.end_background_sync();
    let received = received.and_then(|received| synced.map(|()| received));
    match &received {
        Err(error) if error.condemns() || file.has_lost_bytes => discard(&file.path)?,
        Err(Error::StorageFull) => give_back(&file.path, start)?,
        _ => {}
    }
    received
}

/// Removes a staged file, or at least its bytes.
fn discard(path: &Path) -> io::Result<()> {
    remove_if_there(path).or_else(|error| open_file(path).and_then(|file| file.set_len(0)).map_err(|_| error))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file at a path whose background fsync fails.
    fn failing(path: &Path) -> StagedFile {
        // The null device takes all bytes and fails every fsync.
        let file = File::options().write(true).open("/dev/null").expect("the null device");
        let mut staged = StagedFile { path: path.to_owned(), file, unsynced: 0, syncing: None, has_lost_bytes: false };
        staged.write(&vec![1; SYNC_BYTES]).expect("a device that takes all bytes");
        staged
    }

    #[test]
    fn bytes_do_not_stay_after_a_failed_fsync_however_the_writer_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        let ends: [fn() -> Result<Received, Error>; 3] = [
            || Ok(Received::Part { committed_bytes: 1 }),
            || Err(Error::StorageFull),
            || Err(Error::failed("a writer that ends for another reason")),
        ];
        for end in ends {
            std::fs::write(&path, "bytes that may be missing on disk").expect("a file");
            assert!(settle(0, failing(&path), end()).is_err());
            assert!(!path.exists(), "the next writer would go on after these bytes");
        }
    }

    #[test]
    fn the_background_fsync_itself_discards_the_bytes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        std::fs::write(&path, "bytes that may be missing on disk").expect("a file");
        let staged = failing(&path);
        staged.syncing.expect("a thread").join().expect("no panic").expect_err("a failed fsync");
        assert!(!path.exists(), "although the writer has not ended");
    }

    #[test]
    fn a_background_fsync_that_failed_fails_the_final_one() {
        let mut staged = failing(Path::new("/nonexistent/staged"));
        // The system has reported the failure, so from here on each fsync succeeds.
        staged.file = tempfile::tempfile().expect("a file");
        let synced = staged.sync(File::sync_all);
        assert!(matches!(synced, Err(Error::StorageFailed { .. })), "{synced:?}");
        assert!(staged.has_lost_bytes);
    }

    /// Otherwise each small piece would cost an fsync.
    #[test]
    fn a_small_piece_begins_no_background_fsync() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut staged = StagedFile::open(&directory.path().join("staged")).expect("a file");
        staged.write(b"a small piece").expect("written");
        assert!(staged.syncing.is_none());
    }
}
