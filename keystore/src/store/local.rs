//! Blobs in a directory.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use bytes::{Bytes, BytesMut};
use cloakwork_storage::private;
use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{ByteStream, READ_CHUNK_BYTES};
use crate::Error;

/// A directory of blobs. A blob appears in it by a rename, and is never written to afterwards.
#[derive(Debug)]
pub(crate) struct LocalStore {
    root: PathBuf,
    /// Directories that exist and whose entries are fsynced.
    known: Mutex<HashSet<PathBuf>>,
}

impl LocalStore {
    pub(crate) async fn open(root: PathBuf) -> Result<Self, Error> {
        Ok(Self { root: private::open_tree(root).await?, known: Mutex::default() })
    }

    /// Commits through a hard link, so that the staged file still exists if the process dies before
    /// the catalogue has the row.
    pub(crate) fn commit(&self, staged: &Path, name: &str) -> Result<(), Error> {
        let target = self.root.join(name);
        let new = target.with_extension(NEW);
        let directory = target.parent().unwrap_or(&self.root);
        self.make_directory(directory)?;
        remove_if_there(&new)?;
        if fs::hard_link(staged, &new).is_err() {
            // The staging directory is on another file system, or the file system has no links.
            fs::copy(staged, &new)?;
            File::open(&new)?.sync_all()?;
        }
        fs::rename(&new, &target)?;
        // A rename of one link of a file onto another link of that file does nothing, and leaves
        // both.
        remove_if_there(&new)?;
        sync_directory(directory)?;
        Ok(())
    }

    pub(crate) async fn read(&self, name: &str, offset: u64) -> Result<Option<ByteStream>, Error> {
        let mut file = match tokio::fs::File::open(self.root.join(name)).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        file.seek(io::SeekFrom::Start(offset)).await?;
        file.set_max_buf_size(READ_CHUNK_BYTES);
        Ok(Some(Box::pin(stream::try_unfold(file, next_chunk))))
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        match tokio::fs::remove_file(self.root.join(name)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for tenant in directories(&self.root)? {
            for shard in directories(&tenant)? {
                for entry in fs::read_dir(&shard)? {
                    let path = entry?.path();
                    let name = path.strip_prefix(&self.root).unwrap_or(&path);
                    names.push(name.to_string_lossy().into_owned());
                }
            }
        }
        Ok(names)
    }

    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(directory) {
            return Ok(());
        }
        private::create_directory(directory)?;
        for above in directory.ancestors().skip(1).take_while(|above| above.starts_with(&self.root)) {
            sync_directory(above)?;
        }
        known.insert(directory.to_owned());
        Ok(())
    }
}

async fn next_chunk(mut file: tokio::fs::File) -> Result<Option<(Bytes, tokio::fs::File)>, Error> {
    let mut chunk = BytesMut::with_capacity(READ_CHUNK_BYTES);
    while chunk.len() < READ_CHUNK_BYTES {
        if file.read_buf(&mut chunk).await? == 0 {
            break;
        }
    }
    Ok((!chunk.is_empty()).then(|| (chunk.freeze(), file)))
}

fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Fsyncs a directory. Otherwise a power failure can undo the creation or removal of its entries.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Extension of a blob's file until the rename into place.
const NEW: &str = "new";
