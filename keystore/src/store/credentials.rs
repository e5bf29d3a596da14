//! Credentials of an S3-compatible store, from a file.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use object_store::{CredentialProvider, aws::AwsCredential};

/// A file with credentials in the form of `~/.aws/credentials`. The file is read for each request,
/// so new credentials take effect at once.
pub(crate) struct CredentialsFile {
    path: PathBuf,
    /// The credentials of the last readable file, in use while the file is being replaced.
    latest: Mutex<Arc<AwsCredential>>,
}

impl CredentialsFile {
    /// Reads the file. Fails if it holds no credentials.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let latest = read(path)?;
        Ok(Self { path: path.to_owned(), latest: Mutex::new(Arc::new(latest)) })
    }

    fn current(&self) -> Arc<AwsCredential> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match read(&self.path) {
            Ok(found) if found != **latest => *latest = Arc::new(found),
            Ok(_) => {}
            Err(problem) => tracing::warn!(problem, "the credentials of the store stay in use"),
        }
        latest.clone()
    }
}

#[async_trait::async_trait]
impl CredentialProvider for CredentialsFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        Ok(self.current())
    }
}

impl fmt::Debug for CredentialsFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The credentials are left out.
        out.debug_struct("CredentialsFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Reads credentials. The error names the file, and contains nothing of it.
fn read(path: &Path) -> Result<AwsCredential, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
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

    #[test]
    fn new_credentials_take_effect_and_a_broken_file_does_not() {
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
        assert_eq!(file.current().key_id, "one");
        write("two");
        assert_eq!(file.current().key_id, "two");
        fs::write(&path, "").expect("a file");
        assert_eq!(file.current().key_id, "two");
        fs::remove_file(&path).expect("a file");
        assert_eq!(file.current().key_id, "two");
        write("three");
        assert_eq!(file.current().key_id, "three");
    }
}
