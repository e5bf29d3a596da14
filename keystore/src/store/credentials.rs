//! Credentials of an S3-compatible store, from a file.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cloakwork_storage::{read_small_file, read_small_file_now};
use object_store::{CredentialProvider, aws::AwsCredential};

/// A file with credentials in the form of `~/.aws/credentials`. The file is read for each request,
/// so new credentials take effect at once.
pub(crate) struct CredentialsFile {
    path: PathBuf,
    /// The credentials of the last readable file, in use while the file is being replaced.
    latest: Mutex<Arc<AwsCredential>>,
    /// Locked until a reading of the file has ended, however long this takes. Other requests use
    /// the latest credentials meanwhile. Otherwise a file that does not answer would take one
    /// thread after another.
    reading: Arc<tokio::sync::Mutex<()>>,
}

/// Maximum length of the file. A file may have profiles of other programs.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Longest wait for the content of the file.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

impl CredentialsFile {
    /// Reads the file. Fails if it holds no credentials.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let latest = found(path, read_small_file_now(path, FILE_BYTES_MAX))?;
        let latest = Mutex::new(Arc::new(latest));
        Ok(Self { path: path.to_owned(), latest, reading: Arc::default() })
    }

    async fn current(&self) -> Arc<AwsCredential> {
        let Ok(reading) = self.reading.clone().try_lock_owned() else { return self.latest() };
        let read = read_small_file(self.path.clone(), FILE_BYTES_MAX, READ_TIMEOUT, reading).await;
        match found(&self.path, read) {
            Ok(found) => *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found),
            Err(problem) => tracing::warn!(problem, "the credentials of the store stay in use"),
        }
        self.latest()
    }

    fn latest(&self) -> Arc<AwsCredential> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait::async_trait]
impl CredentialProvider for CredentialsFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        Ok(self.current().await)
    }
}

impl fmt::Debug for CredentialsFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The credentials are left out.
        out.debug_struct("CredentialsFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The credentials of a file. The error names the file, and contains nothing of it.
fn found(path: &Path, read: io::Result<String>) -> Result<AwsCredential, String> {
    let text = read.map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))
}

/// Credentials of the profile `default`, or of a file without profiles.
fn parse(text: &str) -> Result<AwsCredential, String> {
    let (mut is_default, mut values) = (true, [None, None, None]);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            is_default = line == "[default]";
            continue;
        }
        let (name, value) = line.split_once('=').ok_or("expected lines such as aws_access_key_id = ...")?;
        if let Some(place) = NAMES.iter().position(|known| is_default && *known == name.trim()) {
            values[place] = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    let [key_id, secret_key, token] = values;
    let missing = |name| format!("it has no {name}");
    Ok(AwsCredential {
        key_id: key_id.ok_or_else(|| missing(NAMES[0]))?,
        secret_key: secret_key.ok_or_else(|| missing(NAMES[1]))?,
        token,
    })
}

const NAMES: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_profile_default_is_read() {
        let texts = [
            "aws_access_key_id = id\naws_secret_access_key = a=b\n",
            "# of the store\n[other]\naws_access_key_id = x\n\n[default]\nregion = r\naws_access_key_id=id\n\
             aws_secret_access_key=a=b\n[last]\naws_secret_access_key = y",
        ];
        for text in texts {
            let AwsCredential { key_id, secret_key, token } = parse(text).expect(text);
            assert_eq!((&*key_id, &*secret_key, token), ("id", "a=b", None), "{text}");
        }
        let text = "aws_access_key_id = id\naws_secret_access_key = s\naws_session_token = t";
        assert_eq!(parse(text).expect("credentials").token.as_deref(), Some("t"));
    }

    #[test]
    fn a_file_without_credentials_is_refused_and_not_quoted() {
        for (text, problem) in [
            ("", "no aws_access_key_id"),
            ("aws_access_key_id = hunter2", "no aws_secret_access_key"),
            ("aws_access_key_id = hunter2\naws_secret_access_key =", "no aws_secret_access_key"),
            ("[other]\naws_access_key_id = hunter2\naws_secret_access_key = hunter2", "no aws_access_key_id"),
            ("hunter2", "expected lines"),
        ] {
            let Err(error) = parse(text) else { panic!("{text}") };
            assert!(error.contains(problem) && !error.contains("hunter2"), "{error}");
        }
    }

    #[tokio::test]
    async fn new_credentials_take_effect_and_a_broken_file_does_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("credentials");
        let write = |id: &str| {
            let text = format!("aws_access_key_id = {id}\naws_secret_access_key = hunter2\n");
            fs::write(&path, text).expect("a file");
        };
        let error = CredentialsFile::open(&path).expect_err("no file");
        assert!(error.contains("credentials: "), "{error}");
        write("one");
        let file = CredentialsFile::open(&path).expect("credentials");
        assert!(!format!("{file:?}").contains("hunter2"));
        assert_eq!(file.current().await.key_id, "one");
        write("two");
        assert_eq!(file.current().await.key_id, "two");
        fs::write(&path, "").expect("a file");
        assert_eq!(file.current().await.key_id, "two");
        fs::remove_file(&path).expect("a file");
        assert_eq!(file.current().await.key_id, "two");
        // A directory, and any other file that is not regular, could keep a reader waiting.
        fs::create_dir(&path).expect("a directory");
        assert_eq!(file.current().await.key_id, "two");
        fs::remove_dir(&path).expect("a directory");
        write("three");
        assert_eq!(file.current().await.key_id, "three");
    }
}
