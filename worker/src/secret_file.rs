//! Files that hold a token or a private key.

use std::{io, path::Path};

/// Warns if other users of the machine may read or change a secret.
///
/// The exposure is not an error. Some systems hand secrets to a process in files of such a mode, in
/// a directory that no other user can enter. A missing file is reported by the code that reads it.
pub fn warn_if_exposed(setting: &str, file: &Path) {
    if is_exposed(file).unwrap_or(false) {
        let file = file.display().to_string();
        tracing::warn!(setting, file, "other users may read this secret, or change it: run `chmod 600` on the file");
    }
}

/// Whether users other than the owner and the group may read a file, or users other than the owner
/// may write it.
///
/// Group members may read, because service managers hand secrets to a service through its group.
/// False on systems without such modes.
fn is_exposed(path: &Path) -> io::Result<bool> {
    let metadata = std::fs::metadata(path)?;
    #[cfg(unix)]
    return Ok(std::os::unix::fs::MetadataExt::mode(&metadata) & 0o026 != 0);
    #[cfg(not(unix))]
    return Ok(false);
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::logging::test_log::log_of;

    #[test]
    fn a_secret_that_others_may_read_or_the_group_may_write_causes_a_warning() {
        let path = std::env::temp_dir().join(format!("cloakwork-secret-file-{}", std::process::id()));
        fs::write(&path, "secret").expect("a file");
        let modes = [0o600, 0o400, 0o640, 0o644, 0o604, 0o660, 0o602];
        let warned = modes.map(|mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            log_of(|| warn_if_exposed("--token-file", &path)).contains("chmod 600")
        });
        fs::remove_file(&path).expect("removed");
        assert_eq!(warned, [false, false, false, true, true, true, true]);
    }
}
