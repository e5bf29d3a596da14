//! Directories and files that only the user of this process can access.
//!
//! The database holds hashes of tokens and records of which tenant computes what, and blobs are
//! tenants' data. Other users of the machine must not read either. A user with write access could
//! replace the hash of a token by the hash of a token of its own.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Reason for refusing a directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Other users could have changed the content of the directory.
    #[error(
        "group or others may write to {path} (mode {mode:04o}): check that nobody changed what is in it, then run \
         `chmod 700 {path}`", path = path.display()
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Mode of the directory.
        mode: u32,
    },
    /// Another user owns the directory, and could change its content at any time. Only root may use
    /// a directory of another user.
    #[error(
        "{path} belongs to user {owner}, and this process runs as user {user}: run it as user {owner}, or give it a \
         directory of its own", path = path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Numeric id of the owner.
        owner: u32,
        /// Numeric id of this process's user.
        user: u32,
    },
    /// The directory cannot be made or read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Makes a missing directory for this user alone, and closes an existing directory to other users.
///
/// Refuses a directory that others could have written to, and does so for the subdirectories named
/// in `inside`. A subdirectory is out of others' reach, whatever its own mode, if they cannot enter
/// the outer directory.
pub fn open_directory(path: &Path, inside: &[&str]) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
    make_directory(path).map_err(failed)?;
    // Mode and owner are those of the open directory. The path may name another directory
    // meanwhile.
    let directory = File::open(path).map_err(failed)?;
    let mode = check(path, &directory, true)?;
    for inner in inside.iter().map(|name| path.join(name)) {
        let Ok(found) = fs::symlink_metadata(&inner) else { continue };
        let opened = File::open(&inner).map_err(|source| DirectoryError::Io { path: inner.clone(), source })?;
        check(&inner, &opened, mode & 0o011 != 0 || found.is_symlink())?;
    }
    if mode & OTHERS != 0 {
        tracing::info!(directory = %path.display(), "closing the directory to other users");
        directory.set_permissions(Permissions::from_mode(DIRECTORY_MODE)).map_err(failed)?;
    }
    Ok(())
}

/// Returns the mode of a directory, or refuses the directory. `reachable` says whether other users
/// can reach it.
fn check(path: &Path, directory: &File, reachable: bool) -> Result<u32, DirectoryError> {
    let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
    let metadata = directory.metadata().map_err(failed)?;
    if !metadata.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let (owner, user) = (metadata.uid(), user());
    // Root can read and write all files anyway. Refusing root would only block an administrator's
    // `token list`, and containers that run as root on a directory of the host. The documentation
    // describes what the directory's owner can do to root.
    if owner != user && user != ROOT {
        return Err(DirectoryError::Foreign { path: path.to_owned(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    match reachable && mode & OTHERS_WRITE != 0 {
        true => Err(DirectoryError::Writable { path: path.to_owned(), mode }),
        false => Ok(mode),
    }
}

/// Makes a directory and its missing parents for this user alone. Errors name the path.
pub fn create_directory(path: &Path) -> io::Result<()> {
    make_directory(path).map_err(|error| naming(path, error))
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Options that create a file for this user alone, from the first moment on.
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Closes a file to other users. A missing file, or a file of another user, is left alone.
///
/// Refuses anything but a regular file. Behind a link, the target file would stay open to others.
pub fn close_file(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file: put the file itself there, not a link to it"));
    }
    if metadata.uid() != user() || metadata.mode() & OTHERS == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(FILE_MODE)) {
        // Another task of this process has removed the file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Makes a missing directory, and closes the directory and its content to other users. The first
/// start after an upgrade changes every file, which may take long. The work runs on a blocking
/// thread so that other tasks continue.
pub async fn open_tree(root: PathBuf) -> io::Result<PathBuf> {
    let open = move || {
        create_directory(&root)?;
        close_tree(&root)?;
        Ok(root)
    };
    tokio::task::spawn_blocking(open).await?
}

/// Closes a directory and its content, which an earlier version left readable. Links are not
/// followed.
///
/// A directory is closed after its content, so the content of a closed directory is closed too. A
/// closed directory is not searched: with millions of files, each start would take minutes.
/// Directories of other users, such as the `lost+found` of a file system, are left alone. Errors
/// name the path.
pub fn close_tree(root: &Path) -> io::Result<()> {
    let named = |error| naming(root, error);
    let metadata = fs::metadata(root).map_err(named)?;
    if metadata.uid() != user() || metadata.mode() & OTHERS == 0 {
        return Ok(());
    }
    for entry in fs::read_dir(root).map_err(named)? {
        let entry = entry.map_err(named)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(named)?);
        if kind.is_dir() {
            close_tree(&path)?;
        } else if kind.is_file() {
            close_file(&path).map_err(|error| naming(&path, error))?;
        }
    }
    fs::set_permissions(root, Permissions::from_mode(DIRECTORY_MODE)).map_err(named)
}

/// Adds the path to an error, and keeps the error's kind.
pub fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Numeric id of this process's user.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

const ROOT: u32 = 0;
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// All permission bits of group and others.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused_with_the_remedy() {
        let home = tempfile::tempdir().expect("a directory");
        let data = home.path().join("data");
        for writable in [0o777, 0o1777, 0o770, 0o702] {
            fs::create_dir_all(&data).expect("a directory");
            set_mode(&data, writable);
            let error = open_directory(&data, &[]).expect_err("others may write to it").to_string();
            assert!(error.contains(&format!("chmod 700 {}", data.display())), "{error}");
            assert_eq!(mode(&data), writable & 0o777, "its mode is evidence");
        }
        set_mode(&data, 0o755);
        open_directory(&data, &[]).expect("others could only read");
        assert_eq!(mode(&data), 0o700);
    }

    #[test]
    fn a_directory_inside_is_refused_where_others_can_reach_it() {
        let home = tempfile::tempdir().expect("a directory");
        let (data, blobs) = (home.path().join("data"), home.path().join("data/blobs"));
        fs::create_dir_all(&blobs).expect("a directory");
        set_mode(&data, 0o755);
        set_mode(&blobs, 0o777);
        let error = open_directory(&data, &["blobs", "missing"]).expect_err("others may write to it").to_string();
        assert!(error.contains(&format!("chmod 700 {}", blobs.display())), "{error}");
        // With a umask of 002, an earlier version made directories of this mode, inside a directory
        // that no other user can enter.
        set_mode(&data, 0o700);
        set_mode(&blobs, 0o775);
        open_directory(&data, &["blobs", "missing"]).expect("nobody else could reach it");
        // The link leads to a directory outside.
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a directory");
        set_mode(&elsewhere, 0o777);
        std::os::unix::fs::symlink(&elsewhere, data.join("linked")).expect("a link");
        open_directory(&data, &["linked"]).expect_err("others may write to it");
    }

    #[test]
    fn a_directory_of_another_user_is_for_root_alone() {
        if user() != ROOT {
            let error = open_directory(Path::new("/"), &[]).expect_err("it belongs to root");
            assert!(matches!(error, DirectoryError::Foreign { owner: ROOT, .. }), "{error}");
            assert!(error.to_string().contains("run it as user 0"), "{error}");
            return;
        }
        let home = tempfile::tempdir().expect("a directory");
        let data = home.path().join("data");
        fs::create_dir(&data).expect("a directory");
        set_mode(&data, 0o755);
        std::os::unix::fs::chown(&data, Some(12_345), None).expect("root gives it away");
        open_directory(&data, &[]).expect("root takes it");
        assert_eq!(mode(&data), 0o700);
        set_mode(&data, 0o775);
        let error = open_directory(&data, &[]).expect_err("the group may write to it");
        assert!(matches!(error, DirectoryError::Writable { .. }), "{error}");
    }

    #[test]
    fn a_tree_is_closed_from_within_and_no_link_is_followed() {
        let home = tempfile::tempdir().expect("a directory");
        let (root, outside) = (home.path().join("blobs"), home.path().join("outside"));
        let shard = root.join("tenant/ab");
        fs::create_dir_all(&shard).expect("directories");
        for path in [&outside, &shard.join("blob")] {
            fs::write(path, "x").expect("a file");
            set_mode(path, 0o644);
        }
        std::os::unix::fs::symlink(&outside, shard.join("link")).expect("a link");
        for directory in [&root, &root.join("tenant"), &shard] {
            set_mode(directory, 0o775);
        }
        close_tree(&root).expect("closed");
        let modes = [&root, &root.join("tenant"), &shard, &shard.join("blob")].map(|path| mode(path));
        assert_eq!(modes, [0o700, 0o700, 0o700, 0o600]);
        assert_eq!(mode(&outside), 0o644);
    }

    #[test]
    fn a_closed_tree_is_not_searched_and_directories_of_others_are_left_alone() {
        let home = tempfile::tempdir().expect("a directory");
        let (root, inner) = (home.path().join("staging"), home.path().join("staging/inner"));
        fs::create_dir_all(&inner).expect("directories");
        let set_modes =
            |modes: [u32; 2]| [&root, &inner].into_iter().zip(modes).for_each(|(it, mode)| set_mode(it, mode));
        set_modes([0o700, 0o755]);
        close_tree(&root).expect("closed");
        assert_eq!(mode(&inner), 0o755, "nobody else can reach it");
        // Only root can give a directory to another user.
        if std::os::unix::fs::chown(&inner, Some(12_345), None).is_ok() {
            set_modes([0o755, 0o755]);
            close_tree(&root).expect("closed");
            assert_eq!([mode(&root), mode(&inner)], [0o700, 0o755]);
        }
        let missing = home.path().join("missing");
        let error = close_tree(&missing).expect_err("it is missing").to_string();
        assert!(error.contains("missing: "), "{error}");
    }

    #[test]
    fn a_link_is_no_file_to_close() {
        let home = tempfile::tempdir().expect("a directory");
        let (file, link) = (home.path().join("file"), home.path().join("link"));
        fs::write(&file, "x").expect("a file");
        set_mode(&file, 0o644);
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let error = close_file(&link).expect_err("it is a link").to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert_eq!(mode(&file), 0o644);
        close_file(&file).expect("closed");
        assert_eq!(mode(&file), 0o600);
    }
}
