//! Blobs in a directory.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::{Bytes, BytesMut};
use cloakwork_storage::private;
use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{ByteStream, MARKER, MARKER_BYTES_MAX, READ_CHUNK_BYTES};
use crate::{Error, staging};

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
        self.make_directory(directory, sync_directory)?;
        remove_if_there(&new)?;
        let moved = link_or_copy(staged, &new).and_then(|()| fs::rename(&new, &target));
        // A failed copy leaves a part of the file. A rename of one link of a file onto another link
        // of that file does nothing, and leaves both.
        let removed = remove_if_there(&new);
        moved.and(removed)?;
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

    pub(crate) async fn has(&self, name: &str) -> Result<bool, Error> {
        Ok(tokio::fs::try_exists(self.root.join(name)).await?)
    }

    pub(crate) async fn marker(&self) -> Result<Option<String>, Error> {
        let file = match tokio::fs::File::open(self.root.join(MARKER)).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(MARKER_BYTES_MAX).read_to_end(&mut bytes).await?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub(crate) fn place_marker(&self, text: &str) -> Result<(), Error> {
        let target = self.root.join(MARKER);
        let new = target.with_extension(NEW);
        staging::write_whole(&new, text.as_bytes())?;
        fs::rename(&new, &target)?;
        Ok(sync_directory(&self.root)?)
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

    /// Makes a directory, and fsyncs the entries that lead to it by `sync`. The lock is free
    /// meanwhile: otherwise the commits of all tenants would wait for the disk. Two commits may
    /// then do the same work.
    fn make_directory(&self, directory: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        if self.known().contains(directory) {
            return Ok(());
        }
        private::create_directory(directory)?;
        for above in directory.ancestors().skip(1).take_while(|above| above.starts_with(&self.root)) {
            sync(above)?;
        }
        // Only now may other commits rely on the directory.
        self.known().insert(directory.to_owned());
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a file of the same content, which a power failure does not undo.
fn link_or_copy(staged: &Path, new: &Path) -> io::Result<()> {
    if fs::hard_link(staged, new).is_err() {
        // The staging directory is on another file system, or the file system has no links.
        fs::copy(staged, new)?;
        File::open(new)?.sync_all()?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc},
        thread,
        time::Duration,
    };

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    async fn store(directory: &tempfile::TempDir) -> Arc<LocalStore> {
        Arc::new(LocalStore::open(directory.path().join("blobs")).await.expect("it opens"))
    }

    #[tokio::test]
    async fn a_slow_fsync_of_one_directory_does_not_delay_another() {
        let home = tempfile::tempdir().expect("a directory");
        let store = store(&home).await;
        let (slow, fast) = (store.root.join("alice/00"), store.root.join("bob/00"));
        let (reached, at_the_fsync) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let slow_commit = thread::spawn({
            let (store, slow) = (store.clone(), slow.clone());
            move || {
                store.make_directory(&slow, |_| {
                    reached.send(()).expect("the test waits");
                    gate.recv().map_err(io::Error::other)
                })
            }
        });
        at_the_fsync.recv_timeout(DEADLINE).expect("the fsync begins");
        let (done, fast_is_done) = mpsc::channel();
        thread::spawn({
            let (store, fast) = (store.clone(), fast.clone());
            move || done.send(store.make_directory(&fast, sync_directory))
        });
        fast_is_done.recv_timeout(DEADLINE).expect("it does not wait").expect("made");
        assert!(store.known().contains(&fast));
        assert!(!store.known().contains(&slow), "no commit may rely on it yet");
        // The fsync fails, and a later commit repeats it.
        drop(open);
        slow_commit.join().expect("no panic").expect_err("the fsync failed");
        assert!(!store.known().contains(&slow));
        store.make_directory(&slow, sync_directory).expect("made");
        assert!(store.known().contains(&slow));
    }

    #[tokio::test]
    async fn a_failed_commit_leaves_no_file() {
        let home = tempfile::tempdir().expect("a directory");
        let store = store(&home).await;
        let staged = home.path().join("staged");
        fs::write(&staged, "bytes").expect("a file");
        // No file can replace a directory.
        fs::create_dir_all(store.root.join("alice/ab/abcd")).expect("a directory");
        store.commit(&staged, "alice/ab/abcd").expect_err("it is a directory");
        assert_eq!(store.names().expect("names"), ["alice/ab/abcd"]);
    }

    #[tokio::test]
    async fn a_missing_file_reads_as_none_and_counts_as_removed() {
        let home = tempfile::tempdir().expect("a directory");
        let store = store(&home).await;
        assert!(store.read("alice/ab/abcd", 0).await.expect("no failure").is_none());
        store.remove("alice/ab/abcd").await.expect("there is nothing to remove");
    }

    #[tokio::test]
    async fn a_failed_removal_is_an_error() {
        let home = tempfile::tempdir().expect("a directory");
        let store = store(&home).await;
        // No removal of a file removes a directory.
        fs::create_dir_all(store.root.join("alice/ab/abcd")).expect("a directory");
        store.remove("alice/ab/abcd").await.expect_err("it is a directory");
    }
}
