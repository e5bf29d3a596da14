//! Client keys on disk: an envelope of a secret kind, whose payload a passphrase optionally seals.
//!
//! A key file is created with mode 0600, never replaces another file, and is not read if other
//! users may use it. A server refuses key files by their kind.

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

/// Maximum payload length that is read. The largest possible key takes a few kilobytes.
const PAYLOAD_MAX: u64 = 1 << 20;

/// Values of the header's first dimension: how the payload is protected.
const PLAIN: u32 = 0;
const SEALED: u32 = 1;

/// A key that can be stored in a file.
trait FileKey: Sized {
    /// Kind of the key in the envelope's header.
    const KIND: ObjectKind;

    /// Set and key id for the header.
    fn names(&self) -> (SetId, KeyId);

    /// Payload of the file, before sealing.
    fn content(&self) -> Zeroizing<Vec<u8>>;

    /// Decodes the key in `content`, with the key id and the set from the header.
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
    /// Writes the key to a new file that only its owner can read. An existing file is never
    /// touched.
    ///
    /// With a passphrase the content is sealed: XChaCha20-Poly1305 under a key from Argon2id. An
    /// empty passphrase is refused, since it is a mistake and anyone could open the seal.
    pub fn save(&self, path: &Path, passphrase: Option<&str>) -> Result<(), KeyFileError> {
        save(self, path, passphrase)
    }

    /// Reads a key file, unless users other than its owner may use it.
    pub fn load(path: &Path, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        load(path, passphrase)
    }

    /// Reads the content of a key file from any source.
    pub fn from_file_bytes(input: impl Read, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        from_file_bytes(input, passphrase)
    }
}

impl ckks::SecretKey {
    /// Writes the key to a new file, as [`ClientKey::save`] does.
    pub fn save(&self, path: &Path, passphrase: Option<&str>) -> Result<(), KeyFileError> {
        save(self, path, passphrase)
    }

    /// Reads a key file, unless users other than its owner may use it.
    pub fn load(path: &Path, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        load(path, passphrase)
    }

    /// Reads the content of a key file from any source.
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
        // Remove the useless file: it may hold only half of the key.
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
    // Allocate the full length at once: a vector that grows would leave copies of secrets behind.
    let bytes = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + payload.len() + TRAILER_BYTES));
    let mut envelope = EnvelopeWriter::new(Wiped(bytes), &header)?;
    envelope.write_all(&payload).map_err(cloakwork_params::EnvelopeError::from)?;
    Ok(envelope.finish()?.0)
}

/// A writer into memory that is wiped on drop.
struct Wiped(Zeroizing<Vec<u8>>);

impl Write for Wiped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Refuses a file that its group or other users may read or write, sealed or not. On systems
/// without such modes, only the directory protects the file.
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

/// Makes the new file's name survive a loss of power.
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
