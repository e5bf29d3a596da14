//! The one-time link for an operator at the server's machine. The link is in a file that only the
//! server's user can read. A user who can read that file can also read the database.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::sessions::Secret;

/// Name of the file with the link in the data directory.
pub const LINK_FILE: &str = "console-link";

/// A link that works once. Its use makes the next one.
pub(super) struct Link {
    file: PathBuf,
    /// Scheme, address and port of the console.
    origin: String,
    code: Mutex<Option<Secret>>,
}

impl Link {
    pub(super) fn new(directory: &Path, origin: &str) -> Self {
        let link = Self { file: directory.join(LINK_FILE), origin: origin.to_owned(), code: Mutex::default() };
        link.renew(&mut link.code.lock().unwrap_or_else(PoisonError::into_inner));
        link
    }

    /// The link, as long as it has not been used.
    pub(super) fn text(&self) -> Option<String> {
        let code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        code.as_ref().map(|code| self.with(code))
    }

    /// Uses the link. Returns false for a code that is not the present one.
    pub(super) fn redeem(&self, code: &str) -> bool {
        let mut present = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let is_right = present.as_ref().is_some_and(|present| present.is(code));
        if is_right {
            self.renew(&mut present);
        }
        is_right
    }

    fn renew(&self, present: &mut Option<Secret>) {
        *present = None;
        match self.write() {
            Ok(code) => *present = Some(code),
            Err(error) => {
                tracing::warn!(%error, "there is no login link for the console; log in with a token");
                // An old link would not work.
                let _ = fs::remove_file(&self.file);
            }
        }
    }

    /// Writes a new link to the file.
    fn write(&self) -> io::Result<Secret> {
        let code = Secret::generate().map_err(|error| io::Error::other(error.to_string()))?;
        let fresh = self.file.with_extension("new");
        // A file that is left over may have other permissions.
        let _ = fs::remove_file(&fresh);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(format!("{}\n", self.with(&code)).as_bytes())?;
        fs::rename(&fresh, &self.file)?;
        Ok(code)
    }

    fn with(&self, code: &Secret) -> String {
        format!("{}/console/#/login?link={}", self.origin, code.reveal())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The next server writes a new link. An error means that there is no file.
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_link_works_once_and_only_its_user_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(LINK_FILE);
        let link = Link::new(directory.path(), "http://127.0.0.1:1");
        let first = link.text().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), first);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let code = first.strip_prefix("http://127.0.0.1:1/console/#/login?link=").unwrap();
        for wrong in ["", &code[1..], &code.to_uppercase().replace(char::is_numeric, "0")] {
            assert!(!link.redeem(wrong), "{wrong}");
        }
        assert!(link.redeem(code));
        assert!(!link.redeem(code), "the second time");
        assert_ne!(link.text().unwrap(), first);
        drop(link);
        assert!(!file.exists());
    }
}
