//! The staged file of one upload, from its first byte to its last fsync.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use super::{blocks::BlockWriter, receive::Received};
use crate::{
    Error,
    staging::{open_direct, open_file},
    store::remove_if_there,
};

/// The staged file of an upload. A large upload writes whole blocks to the disk. Other uploads
/// write to the page cache, and are fsynced in the background so that little is left for the final
/// fsync.
///
/// The system reports a failed write to the disk in one fsync only, and then counts the bytes as
/// written. So the result of every fsync counts: without it, the final fsync could succeed although
/// bytes are missing on disk. The missing bytes can still be read from memory, so that verifying
/// them again proves nothing.
pub(super) struct StagedFile {
    path: PathBuf,
    file: File,
    /// The blocks of a large upload.
    blocks: Option<BlockWriter>,
    unsynced: usize,
    syncing: Option<JoinHandle<io::Result<()>>>,
    /// Whether an fsync has failed.
    has_lost_bytes: bool,
}

impl StagedFile {
    /// Opens a file, to be written in blocks from `blocks_from` on if that is set. A file system
    /// without direct access gets no blocks.
    pub(super) fn open(path: &Path, blocks_from: Option<u64>) -> Result<Self, Error> {
        let file = open_file(path)?;
        let blocks = blocks_from.and_then(|length| {
            let direct = open_direct(path)?;
            BlockWriter::start(length, file.try_clone().ok()?, direct).ok()
        });
        Ok(Self { path: path.to_owned(), file, blocks, unsynced: 0, syncing: None, has_lost_bytes: false })
    }

    /// The file, to read it from its start.
    pub(super) fn readable(&mut self) -> &mut File {
        &mut self.file
    }

    /// Number of bytes that are written.
    pub(super) fn length(&self) -> Result<u64, Error> {
        Ok(self.file.metadata()?.len())
    }

    /// Takes the next bytes. An error may concern bytes of an earlier call.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.blocks {
            Some(blocks) => Ok(blocks.write(bytes)?),
            None => self.write_to_cache(bytes),
        }
    }

    /// Writes and fsyncs all bytes by `sync`, and fails if any earlier fsync has failed.
    pub(super) fn sync(&mut self, sync: fn(&File) -> io::Result<()>) -> Result<(), Error> {
        self.end_blocks()?;
        self.end_background_sync()?;
        self.note(sync(&self.file))
    }

    fn write_to_cache(&mut self, bytes: &[u8]) -> Result<(), Error> {
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

    /// Writes the rest of the blocks, and ends their thread.
    fn end_blocks(&mut self) -> Result<(), Error> {
        match &mut self.blocks {
            Some(blocks) => Ok(blocks.end()?),
            None => Ok(()),
        }
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
pub(super) fn settle(start: u64, mut file: StagedFile, received: Result<Received, Error>) -> Result<Received, Error> {
    // Both end before the next writer begins, whatever the outcome.
    let written = file.end_blocks();
    let synced = file.end_background_sync();
    let received = received.and_then(|received| written.and(synced).map(|()| received));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file at a path whose background fsync fails.
    fn failing(path: &Path) -> StagedFile {
        // The null device takes all bytes and fails every fsync.
        let file = File::options().write(true).open("/dev/null").expect("the null device");
        let mut staged =
            StagedFile { path: path.to_owned(), file, blocks: None, unsynced: 0, syncing: None, has_lost_bytes: false };
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

    /// A client that resumes continues after these bytes.
    #[test]
    fn bytes_in_blocks_stay_after_a_takeover() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        let mut staged = StagedFile::open(&path, Some(0)).expect("a file");
        staged.write(b"a few bytes").expect("taken");
        let ended = settle(0, staged, Err(Error::UploadTakenOver));
        assert!(matches!(ended, Err(Error::UploadTakenOver)));
        assert_eq!(std::fs::read(&path).expect("a file"), b"a few bytes");
    }

    #[test]
    fn a_failed_write_of_blocks_fails_the_upload() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        let mut staged = StagedFile::open(&path, None).expect("a file");
        let full_disk = || File::options().write(true).open("/dev/full").expect("a device that takes no byte");
        staged.blocks = Some(BlockWriter::start(0, full_disk(), full_disk()).expect("a thread"));
        staged.write(b"a few bytes").expect("taken");
        let ended = settle(0, staged, Ok(Received::Part { committed_bytes: 11 }));
        assert!(matches!(ended, Err(Error::StorageFull)));
    }

    /// Otherwise each small piece would cost an fsync.
    #[test]
    fn a_small_piece_begins_no_background_fsync() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut staged = StagedFile::open(&directory.path().join("staged"), None).expect("a file");
        staged.write(b"a small piece").expect("written");
        assert!(staged.syncing.is_none());
    }
}
