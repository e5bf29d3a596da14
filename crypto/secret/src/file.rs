//! Client keys on disk: an envelope of the secret kind, its payload optionally sealed with a passphrase.
//!
//! A file is made with mode 0600, never replaces another, and is not read when others may use it. A server refuses
//! one by its kind.

mod content;
mod error;
mod seal;
mod ternary;

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::Path,
};

use cloakwork_params::{
    EnvelopeReader, EnvelopeWriter, Header, KeyId, ObjectKind, SetId,
    envelope::{DIMENSIONS, HEADER_BYTES, TRAILER_BYTES},
};
use zeroize::Zeroizing;

pub use error::KeyFileError;

use crate::{ClientKey, ckks};

/// Longest payload that is read; the largest key there can be takes a few kilobytes.
const PAYLOAD_MAX: u64 = 1 << 20;

/// First dimension of the header: how the payload is protected.
const PLAIN: u32 = 0;
const SEALED: u32 = 1;

/// A key that is kept in a file.
trait FileKey: Sized {
    /// What the envelope calls it.
    const KIND: ObjectKind;

    /// Set and public name that the header gives.
    fn names(&self) -> (SetId, KeyId);

    /// The content of its file.
    fn content(&self) -> Zeroizing<Vec<u8>>;

    /// The key that `content` holds, under the name and the set that the header gives.
    fn of_content(key_id: KeyId, set: SetId, content: &[u8]) -> Result<Self, KeyFileError>;
}

impl FileKey for ClientKey {
    const KIND: ObjectKind = ObjectKind::ClientKey;

    fn names(&self) -> (SetId, KeyId) {
        (self.first_set().id, self.key_id())
    }

    fn content(&self) -> Zeroizing<Vec<u8>> {
        content::encode(self)
    }

    fn of_content(key_id: KeyId, set: SetId, content: &[u8]) -> Result<Self, KeyFileError> {
        content::decode(key_id, set, content)
    }
}

impl FileKey for ckks::SecretKey {
    const KIND: ObjectKind = ObjectKind::CkksClientKey;

    fn names(&self) -> (SetId, KeyId) {
        (self.set().id, self.key_id())
    }

    fn content(&self) -> Zeroizing<Vec<u8>> {
        ternary::encode(self)
    }

    fn of_content(key_id: KeyId, set: SetId, content: &[u8]) -> Result<Self, KeyFileError> {
        ternary::decode(key_id, set, content)
    }
}

impl ClientKey {
    /// Writes the key to a new file, readable by its owner only. An existing file is never touched.
    ///
    /// With a passphrase the content is sealed: XChaCha20-Poly1305 under a key from Argon2id. An empty one is
    /// refused: it would be a mistake, and the seal open to everybody.
    pub fn save(&self, path: &Path, passphrase: Option<&str>) -> Result<(), KeyFileError> {
        save(self, path, passphrase)
    }

    /// Reads a key file, unless others than its owner may use it.
    pub fn load(path: &Path, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        load(path, passphrase)
    }

    /// Reads the content of a key file from anywhere.
    pub fn from_file_bytes(input: impl Read, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        from_file_bytes(input, passphrase)
    }
}

impl ckks::SecretKey {
    /// Writes the key to a new file, as [`ClientKey::save`] does.
    pub fn save(&self, path: &Path, passphrase: Option<&str>) -> Result<(), KeyFileError> {
        save(self, path, passphrase)
    }

    /// Reads a key file, unless others than its owner may use it.
    pub fn load(path: &Path, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        load(path, passphrase)
    }

    /// Reads the content of a key file from anywhere.
    pub fn from_file_bytes(input: impl Read, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        from_file_bytes(input, passphrase)
    }
}

fn save(key: &impl FileKey, path: &Path, passphrase: Option<&str>) -> Result<(), KeyFileError> {
    let bytes = to_file_bytes(key, passphrase)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.into() },
        _ => KeyFileError::io(path, &error),
    })?;
    let written = file.write_all(&bytes).and_then(|()| file.sync_all()).and_then(|()| sync_parent(path));
    if let Err(error) = &written {
        // What is there is of no use, and the key may be only half on disk.
        let _ = fs::remove_file(path);
        return Err(KeyFileError::io(path, error));
    }
    Ok(())
}

fn load<K: FileKey>(path: &Path, passphrase: Option<&str>) -> Result<K, KeyFileError> {
    let file = File::open(path).map_err(|error| KeyFileError::io(path, &error))?;
    check_mode(&file, path)?;
    from_file_bytes(file, passphrase)
}

fn from_file_bytes<K: FileKey>(input: impl Read, passphrase: Option<&str>) -> Result<K, KeyFileError> {
    let mut envelope = EnvelopeReader::open_secret(input)?;
    let header = envelope.header().clone();
    if header.kind != K::KIND {
        return Err(KeyFileError::NotAKey { expected: K::KIND, got: header.kind });
    }
    if header.payload_len > PAYLOAD_MAX {
        return Err(KeyFileError::TooLong { limit: PAYLOAD_MAX, got: header.payload_len });
    }
    let mut payload = Zeroizing::new(vec![0; header.payload_len as usize]);
    envelope.fill(&mut payload)?;
    envelope.finish_at_end()?;
    if header.dimensions[1..].iter().any(|&unused| unused != 0) {
        return Err(KeyFileError::Malformed { what: "dimensions that a key file does not have" });
    }
    let content = match (header.dimensions[0], passphrase) {
        (PLAIN, None) => payload,
        (PLAIN, Some(_)) => return Err(KeyFileError::NotSealed),
        (SEALED, None) => return Err(KeyFileError::PassphraseNeeded),
        (SEALED, Some(passphrase)) => seal::open(&payload, passphrase, &header.to_bytes())?,
        (got, _) => return Err(KeyFileError::UnknownProtection { got }),
    };
    K::of_content(header.key_id, header.set, &content)
}

fn to_file_bytes<K: FileKey>(key: &K, passphrase: Option<&str>) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    if passphrase == Some("") {
        return Err(KeyFileError::PassphraseEmpty);
    }
    let content = key.content();
    let (protection, overhead) = match passphrase {
        None => (PLAIN, 0),
        Some(_) => (SEALED, seal::OVERHEAD),
    };
    let mut dimensions = [0; DIMENSIONS];
    dimensions[0] = protection;
    let (set, key_id) = key.names();
    let header =
        Header { kind: K::KIND, set, key_id, dimensions, seed: None, payload_len: (content.len() + overhead) as u64 };
    let payload = match passphrase {
        None => content,
        Some(passphrase) => seal::seal(&content, passphrase, &header.to_bytes())?,
    };
    // All of it at once: a vector that grows would leave copies behind.
    let bytes = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + payload.len() + TRAILER_BYTES));
    let mut envelope = EnvelopeWriter::new(Wiped(bytes), &header)?;
    envelope.write_all(&payload).map_err(cloakwork_params::EnvelopeError::from)?;
    Ok(envelope.finish()?.0)
}

/// A writer into memory that is wiped.
struct Wiped(Zeroizing<Vec<u8>>);

impl Write for Wiped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Refuses a file that its group or everybody may read or write, sealed or not. Where there are no such modes,
/// the directory is all that protects it.
fn check_mode(file: &File, path: &Path) -> Result<(), KeyFileError> {
    #[cfg(unix)]
    {
        let metadata = file.metadata().map_err(|error| KeyFileError::io(path, &error))?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::OpenToOthers { path: path.into(), mode });
        }
    }
    #[cfg(not(unix))]
    let _ = (file, path);
    Ok(())
}

/// Makes the new file's name last through a loss of power.
fn sync_parent(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
