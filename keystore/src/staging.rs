//! Staging: one file for each upload in progress, always on local disk.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use cloakwork_storage::private;

use crate::{Error, TenantId, UploadId};

/// The staging directory. The length of an upload's file is its committed offset.
#[derive(Debug)]
pub(crate) struct Staging {
    root: PathBuf,
}

impl Staging {
    pub(crate) async fn open(root: PathBuf) -> Result<Self, Error> {
        Ok(Self { root: private::open_tree(root).await? })
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

/// Removes a staged file that is no longer needed. Tokio removes it on a thread for blocking work,
/// because the removal of gigabytes takes long.
///
/// A failure is only logged: the caller's own work has succeeded or failed already. The next start
/// removes the file.
pub(crate) async fn remove(path: &Path) {
    match tokio::fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(file = %path.display(), %error, "staged file stays until the next start");
        }
        _ => {}
    }
}

/// Writes and fsyncs a whole file.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_file(path)?;
    file.set_len(0)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}
