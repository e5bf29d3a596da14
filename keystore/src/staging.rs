//! Staging: one file for each upload in progress, always on local disk.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use cloakwork_storage::private;

use crate::{Error, TenantId, UploadId};

/// The staging directory. The length of an upload's file is its committed offset.
#[derive(Debug)]
pub(crate) struct Staging {
    root: PathBuf,
    occupied: Arc<Occupied>,
}

/// The bytes that count towards the limit of the directory: the length of each file, and what open
/// writers may still add. Without the limit, uploads of several tenants together could fill the
/// volume. Kubernetes ends a server whose volume exceeds its size.
#[derive(Debug)]
struct Occupied {
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Room for one file to grow, until dropped. After that, the file counts with its length. The owner
/// is the only writer of the file, and drops this value after its last write.
#[derive(Debug)]
pub(crate) struct Growth {
    occupied: Arc<Occupied>,
    path: PathBuf,
    /// Bytes that count for the file: its length at the beginning, and the bytes that may follow.
    bytes: u64,
}

impl Staging {
    /// Opens a directory whose files may have `bytes_max` bytes together. Its leftovers do not
    /// count before [`Self::keep`].
    pub(crate) async fn open(root: PathBuf, bytes_max: u64) -> Result<Self, Error> {
        let occupied = Arc::new(Occupied { bytes: AtomicU64::new(0), bytes_max });
        Ok(Self { root: private::open_tree(root).await?, occupied })
    }

    /// Takes room for a file of `length` bytes that gets at most `more` bytes, or fails with
    /// `StorageFull`.
    pub(crate) fn grow(&self, path: PathBuf, length: u64, more: u64) -> Result<Growth, Error> {
        self.occupied.take(more)?;
        Ok(Growth { occupied: self.occupied.clone(), path, bytes: length.saturating_add(more) })
    }

    /// Counts the file that an earlier process has left for an open upload.
    pub(crate) fn keep(&self, tenant: &TenantId, id: &UploadId) -> Result<(), Error> {
        self.occupied.replace(0, self.committed_bytes(tenant, id)?);
        Ok(())
    }

    pub(crate) fn path(&self, tenant: &TenantId, id: &UploadId) -> PathBuf {
        self.root.join(tenant.as_str()).join(id.as_str())
    }

    /// Path for bytes that are committed at once. No upload has a name of this form, so a sweep
    /// removes leftovers.
    pub(crate) fn unnamed_path(&self, tenant: &TenantId, number: u64) -> PathBuf {
        self.root.join(tenant.as_str()).join(format!("put-{number}"))
    }

    /// Number of staged bytes; 0 if there is no file.
    pub(crate) fn committed_bytes(&self, tenant: &TenantId, id: &UploadId) -> Result<u64, Error> {
        match fs::metadata(self.path(tenant, id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            metadata => Ok(metadata?.len()),
        }
    }

    /// Lists the tenant and the upload of every file. Files with any other name are removed.
    pub(crate) fn sweep(&self) -> Result<Vec<(TenantId, UploadId)>, Error> {
        let mut uploads = Vec::new();
        for tenant in fs::read_dir(&self.root)? {
            let tenant = tenant?;
            let Ok(name) = TenantId::new(&tenant.file_name().to_string_lossy()) else { continue };
            for file in fs::read_dir(tenant.path())? {
                let file = file?;
                match UploadId::parse(&file.file_name().to_string_lossy()) {
                    Ok(id) => uploads.push((name.clone(), id)),
                    Err(_) => fs::remove_file(file.path())?,
                }
            }
        }
        Ok(uploads)
    }

    /// Removes a file that is no longer needed and has no writer. Tokio removes the file on a
    /// thread for blocking work, because the removal of gigabytes takes long. The caller ensures
    /// that this ends. Otherwise bytes that are gone would go on to count.
    ///
    /// A failure is only logged: the caller's own work has succeeded or failed already. The next
    /// start removes the file.
    pub(crate) async fn remove(&self, path: &Path) {
        let length = tokio::fs::metadata(path).await.map_or(0, |metadata| metadata.len());
        match tokio::fs::remove_file(path).await {
            Ok(()) => self.occupied.replace(length, 0),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %path.display(), %error, "staged file stays until the next start");
            }
            Err(_) => {}
        }
    }
}

impl Occupied {
    fn take(&self, more: u64) -> Result<(), Error> {
        // An upload without further bytes needs no room, also if a lower limit came with a restart.
        let sum = |bytes: u64| bytes.checked_add(more).filter(|sum| more == 0 || *sum <= self.bytes_max);
        match self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum) {
            Ok(_) => Ok(()),
            Err(bytes) => {
                tracing::warn!(bytes, more, limit = self.bytes_max, "unfinished uploads leave no room (staged_bytes)");
                Err(Error::StorageFull)
            }
        }
    }

    /// Counts `now` bytes in place of `before`. An operator may have changed files by hand, so the
    /// sum stops at 0.
    fn replace(&self, before: u64, now: u64) {
        let sum = |bytes: u64| Some(bytes.saturating_add(now).saturating_sub(before));
        let _ = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum);
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        let length = fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        self.occupied.replace(self.bytes, length);
    }
}

/// Opens a staged file for reading from its start and for appending.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        private::create_directory(directory)?;
    }
    private::file_options().read(true).append(true).create(true).open(path)
}

/// Opens a staged file for writes past the page cache; `None` where the file system has none.
#[cfg(target_os = "linux")]
pub(crate) fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).ok()?;
    private::file_options().write(true).custom_flags(direct).open(path).ok()
}

/// Other systems have no such writes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_direct(_path: &Path) -> Option<File> {
    None
}

/// Writes and fsyncs a whole file.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_file(path)?;
    file.set_len(0)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn staging(root: &Path, bytes_max: u64) -> Staging {
        Staging::open(root.to_owned(), bytes_max).await.expect("it opens")
    }

    fn occupied(staging: &Staging) -> u64 {
        staging.occupied.bytes.load(Ordering::Acquire)
    }

    #[tokio::test]
    async fn a_file_counts_with_its_room_and_then_with_its_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = staging(directory.path(), 100).await;
        let path = directory.path().join("staged");
        let growth = staging.grow(path.clone(), 0, 60).expect("there is room");
        assert_eq!(occupied(&staging), 60);
        assert_eq!(staging.grow(directory.path().join("other"), 0, 41).err(), Some(Error::StorageFull));
        drop(staging.grow(directory.path().join("other"), 0, 40).expect("there is room"));
        fs::write(&path, [0_u8; 25]).expect("a file");
        drop(growth);
        assert_eq!(occupied(&staging), 25);
        let growth = staging.grow(path.clone(), 25, 75).expect("there is room");
        assert_eq!(occupied(&staging), 100);
        // Bytes that the writer has discarded do not count.
        fs::write(&path, [0_u8; 5]).expect("a file");
        drop(growth);
        assert_eq!(occupied(&staging), 5);
        staging.remove(&path).await;
        assert_eq!(occupied(&staging), 0);
        staging.remove(&path).await;
        assert_eq!(occupied(&staging), 0, "there was nothing to remove");
    }

    /// All its bytes are there, and its commit frees them.
    #[tokio::test]
    async fn an_upload_without_further_bytes_needs_no_room() {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = staging(directory.path(), 100).await;
        let (tenant, id) = (TenantId::new("alice").expect("a name"), UploadId::parse(&"0".repeat(32)).expect("an id"));
        let path = staging.path(&tenant, &id);
        write_whole(&path, &[0; 200]).expect("a file");
        staging.keep(&tenant, &id).expect("a file");
        assert_eq!(occupied(&staging), 200, "leftovers may exceed a lower limit");
        let growth = staging.grow(path.clone(), 200, 0).expect("it needs no room");
        assert_eq!(staging.grow(directory.path().join("other"), 0, 1).err(), Some(Error::StorageFull));
        drop(growth);
        staging.remove(&path).await;
        assert_eq!(occupied(&staging), 0);
    }

    #[tokio::test]
    async fn files_that_an_operator_changes_do_not_turn_the_sum_around() {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = staging(directory.path(), 100).await;
        let path = directory.path().join("staged");
        fs::write(&path, [0_u8; 50]).expect("a file");
        staging.remove(&path).await;
        assert_eq!(occupied(&staging), 0);
        staging.grow(path, 0, 100).expect("there is room");
    }
}
