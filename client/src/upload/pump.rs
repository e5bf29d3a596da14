//! Sends a blob's bytes as messages, on a thread that may block.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use bytes::Bytes;
use cloakwork_proto::v1::WriteRequest;
use tokio::sync::mpsc::Sender;

use super::Source;
use crate::{ClientError, Progress, Result};

/// Sends the messages from an offset to the end.
pub(super) struct Pump {
    pub(super) what: String,
    pub(super) upload: String,
    pub(super) next: u64,
    pub(super) size: u64,
    pub(super) chunk: usize,
    pub(super) progress: Progress,
}

impl Pump {
    /// Sends until the end, or until the receiver is gone.
    pub(super) fn run(mut self, source: &Source, messages: &Sender<WriteRequest>) -> Result<()> {
        match source {
            Source::Bytes(bytes) => {
                while self.send(messages, |next, len| Ok(bytes.slice(next as usize..next as usize + len)))? {}
            }
            Source::File(path) => {
                let failed = |error| ClientError::io(path, &error);
                let mut file = File::open(path).map_err(failed)?;
                file.seek(SeekFrom::Start(self.next)).map_err(failed)?;
                while self.send(messages, |_, len| read(&mut file, len, path))? {}
            }
        }
        Ok(())
    }

    /// Sends the next chunk. Returns false after the last chunk, or if the receiver is gone.
    fn send(
        &mut self,
        messages: &Sender<WriteRequest>,
        read: impl FnOnce(u64, usize) -> Result<Bytes>,
    ) -> Result<bool> {
        let len = (self.size - self.next).min(self.chunk as u64) as usize;
        let data = read(self.next, len)?;
        let finish = self.next + len as u64 == self.size;
        let upload = std::mem::take(&mut self.upload);
        if messages.blocking_send(WriteRequest { upload, offset_bytes: self.next, data, finish }).is_err() {
            return Ok(false);
        }
        self.next += len as u64;
        self.progress.step(&self.what, self.next, self.size);
        Ok(!finish)
    }
}

fn read(file: &mut File, len: usize, path: &Path) -> Result<Bytes> {
    let mut data = vec![0; len];
    file.read_exact(&mut data).map_err(|error| ClientError::io(path, &error))?;
    Ok(data.into())
}
