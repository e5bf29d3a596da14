//! Blocks of a large upload, which a thread of their own writes past the page cache.
//!
//! Memory of the page cache is slow to fill: each page is allocated, and a virtual machine may have
//! to obtain it from its host first. Blocks are reused instead, and the disk reads straight from
//! them. The receiving thread fills one block while the other is on its way.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    sync::mpsc,
    thread::{self, JoinHandle},
};

/// Writes a file in order, block by block.
#[derive(Debug)]
pub(super) struct BlockWriter {
    /// Block to fill; `None` after a failure or the end.
    filling: Option<Block>,
    /// Blocks to write; `None` after the end.
    full: Option<mpsc::SyncSender<Block>>,
    written: mpsc::Receiver<Block>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Bytes of a file, from an offset to at most the next multiple of [`BLOCK_BYTES`].
#[derive(Debug)]
struct Block {
    offset: u64,
    length: usize,
    length_max: usize,
    buffer: Vec<u8>,
}

impl BlockWriter {
    /// Starts a thread that writes to the end of a file of `length` bytes. `appending` appends to
    /// the file, and `direct` has the file open without the page cache.
    pub(super) fn start(length: u64, appending: File, direct: File) -> io::Result<Self> {
        let (full, blocks) = mpsc::sync_channel(BLOCKS);
        let (back, written) = mpsc::sync_channel(BLOCKS);
        for _ in 1..BLOCKS {
            let _ = back.send(Block::new());
        }
        let write = move || write_all(blocks, back, appending, direct);
        let thread = thread::Builder::new().name("write".to_owned()).spawn(write)?;
        let filling = Some(Block::new().at(length));
        Ok(Self { filling, full: Some(full), written, thread: Some(thread) })
    }

    /// Takes the next bytes. An error may concern bytes of an earlier call.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some(block) = &mut self.filling else { return Err(io::Error::other("the blocks have ended")) };
            bytes = block.fill(bytes);
            if block.is_full() {
                self.hand_over()?;
            }
        }
        Ok(())
    }

    /// Writes the rest, and waits until all blocks are written. The thread has ended then.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if let (Some(block), Some(full)) = (self.filling.take(), &self.full) {
            // If the thread has ended, its own error gives the reason.
            let _ = full.send(block);
        }
        self.full = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err(io::Error::other("a writing thread panicked")))
    }

    /// Hands the full block to the thread, and waits for a block that is written.
    fn hand_over(&mut self) -> io::Result<()> {
        let next = self.filling.as_ref().map_or(0, Block::end);
        if let (Some(block), Some(full)) = (self.filling.take(), &self.full)
            && full.send(block).is_ok()
            && let Ok(block) = self.written.recv()
        {
            self.filling = Some(block.at(next));
            return Ok(());
        }
        self.end().and(Err(io::Error::other("a writing thread ended early")))
    }
}

impl Drop for BlockWriter {
    /// The next writer of the file must not meet this thread.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Block {
    /// An empty block, with room to start at an aligned address.
    fn new() -> Self {
        Self { offset: 0, length: 0, length_max: 0, buffer: vec![0; BLOCK_BYTES + ALIGNMENT] }
    }

    /// Empties the block, and moves it to an offset.
    fn at(self, offset: u64) -> Self {
        let length_max = BLOCK_BYTES - (offset % BLOCK_BYTES as u64) as usize;
        Self { offset, length: 0, length_max, ..self }
    }

    /// Takes as many bytes as there is room for, and returns the rest.
    fn fill<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(self.length_max - self.length));
        let start = self.start() + self.length;
        self.buffer[start..start + taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        rest
    }

    fn is_full(&self) -> bool {
        self.length == self.length_max
    }

    /// Whether offset, length and address have the alignment that a disk needs.
    fn is_aligned(&self) -> bool {
        self.length == BLOCK_BYTES
    }

    fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start()..][..self.length]
    }

    /// Index of the first byte with an aligned address.
    fn start(&self) -> usize {
        self.buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT)
    }
}

/// Writes the blocks in order, and passes each one back.
fn write_all(
    full: mpsc::Receiver<Block>,
    written: mpsc::SyncSender<Block>,
    mut appending: File,
    direct: File,
) -> io::Result<()> {
    for block in full {
        let done = if block.is_aligned() { write_direct(&block, &direct)? } else { 0 };
        appending.write_all(&block.bytes()[done..])?;
        // At the end, no block is needed any more.
        let _ = written.send(block);
    }
    Ok(())
}

/// Writes a block past the page cache, and returns how many bytes are written. Some file systems
/// refuse this only at the write, and leave the rest to the page cache.
fn write_direct(block: &Block, direct: &File) -> io::Result<usize> {
    let bytes = block.bytes();
    let mut done = 0;
    while done < bytes.len() {
        match direct.write_at(&bytes[done..], block.offset + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Size in bytes of a block. Smaller blocks are slower, because the disk rests between two of them.
pub(super) const BLOCK_BYTES: usize = 2 << 20;

/// Number of blocks of an upload.
pub(super) const BLOCKS: usize = 2;

/// Alignment in bytes of a block in memory, which is enough for every disk.
const ALIGNMENT: usize = 4096;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::staging::{open_direct, open_file};

    fn content(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn writer(path: &Path) -> BlockWriter {
        let appending = open_file(path).expect("a file");
        let length = appending.metadata().expect("a file").len();
        let direct = open_direct(path).or_else(|| open_file(path).ok()).expect("a file");
        BlockWriter::start(length, appending, direct).expect("a thread")
    }

    #[test]
    fn pieces_and_starts_of_any_length_give_the_same_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        let bytes = content(3 * BLOCK_BYTES + 777);
        for (starts, piece) in [
            (vec![0], BLOCK_BYTES),
            (vec![0], 1_000_003),
            (vec![0, 1, 4096, BLOCK_BYTES, 2 * BLOCK_BYTES + 5], 70_001),
            (vec![0, BLOCK_BYTES - 1, 3 * BLOCK_BYTES], 2 * BLOCK_BYTES + 9),
        ] {
            let _ = std::fs::remove_file(&path);
            let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
            for (start, end) in starts.iter().zip(ends) {
                let mut writer = writer(&path);
                bytes[*start..end].chunks(piece).for_each(|piece| writer.write(piece).expect("written"));
                writer.end().expect("written");
                assert_eq!(std::fs::metadata(&path).expect("a file").len(), end as u64);
            }
            assert!(std::fs::read(&path).expect("a file") == bytes, "{starts:?} {piece}");
        }
    }

    #[test]
    fn a_file_without_direct_writes_gets_the_bytes_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        std::fs::write(&path, "x").expect("a file");
        let (appending, direct) = (open_file(&path).expect("a file"), open_direct(&path));
        // No file system with direct writes takes one at this offset.
        let mut block = Block { offset: 1, length_max: BLOCK_BYTES, ..Block::new() };
        block.fill(&content(BLOCK_BYTES));
        assert!(block.is_aligned());
        let ((full, blocks), (back, _written)) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
        full.send(block).expect("room");
        drop(full);
        let direct = direct.unwrap_or_else(|| open_file(&path).expect("a file"));
        write_all(blocks, back, appending, direct).expect("written");
        assert!(std::fs::read(&path).expect("a file")[1..] == content(BLOCK_BYTES));
    }

    #[test]
    fn a_failed_write_is_reported_and_nothing_follows_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        let full_disk = File::options().write(true).open("/dev/full").expect("a device that takes no byte");
        let mut writer = BlockWriter::start(0, open_file(&path).expect("a file"), full_disk).expect("a thread");
        let bytes = content(BLOCK_BYTES);
        let failed = (0..=BLOCKS).find_map(|_| writer.write(&bytes).err()).expect("the disk is full");
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        writer.write(&bytes).expect_err("the writer has ended");
        writer.end().expect("it has ended");
        assert_eq!(std::fs::metadata(&path).expect("a file").len(), 0, "later bytes would leave a gap");
    }

    #[test]
    fn a_dropped_writer_has_written_its_bytes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("staged");
        let bytes = content(BLOCK_BYTES + 5);
        let mut writer = writer(&path);
        writer.write(&bytes).expect("written");
        drop(writer);
        assert!(std::fs::read(&path).expect("a file") == bytes);
    }
}
