//! Client keys on disk: an envelope of the secret kind, its payload optionally sealed with a passphrase.
//!
//! A file is made with mode 0600, never replaces another, and is not read when others may use it. A server refuses
//! one by its kind.

mod content;
mod error;
mod seal;

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::Path,
};

use cloakwork_params::{
    EnvelopeReader, EnvelopeWriter, Header, ObjectKind,
    envelope::{DIMENSIONS, HEADER_BYTES, TRAILER_BYTES},
};
use zeroize::Zeroizing;

pub use error::KeyFileError;

use crate::ClientKey;

/// Longest payload that is read; the largest key there can be takes a few kilobytes.
const PAYLOAD_MAX: u64 = 1 << 20;

/// First dimension of the header: how the payload is protected.
const PLAIN: u32 = 0;
const SEALED: u32 = 1;

impl ClientKey {
    /// Writes the key to a new file, readable by its owner only. An existing file is never touched.
    ///
    /// With a passphrase the content is sealed: XChaCha20-Poly1305 under a key from Argon2id. An empty one is
    /// refused: it would be a mistake, and the seal open to everybody.
    pub fn save(&self, path: &Path, passphrase: Option<&str>) -> Result<(), KeyFileError> {
        let bytes = self.to_file_bytes(passphrase)?;
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

    /// Reads a key file, unless others than its owner may use it.
    pub fn load(path: &Path, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        let file = File::open(path).map_err(|error| KeyFileError::io(path, &error))?;
        check_mode(&file, path)?;
        Self::from_file_bytes(file, passphrase)
    }

    /// Reads the content of a key file from anywhere.
    pub fn from_file_bytes(input: impl Read, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        let mut envelope = EnvelopeReader::open_secret(input)?;
        let header = envelope.header().clone();
        if header.kind != ObjectKind::ClientKey {
            return Err(KeyFileError::NotAKey { got: header.kind });
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
        content::decode(header.key_id, header.set, &content)
    }

    fn to_file_bytes(&self, passphrase: Option<&str>) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
        if passphrase == Some("") {
            return Err(KeyFileError::PassphraseEmpty);
        }
        let content = content::encode(self);
        let (protection, overhead) = match passphrase {
            None => (PLAIN, 0),
            Some(_) => (SEALED, seal::OVERHEAD),
        };
        let mut dimensions = [0; DIMENSIONS];
        dimensions[0] = protection;
        let header = Header {
            kind: ObjectKind::ClientKey,
            set: self.first_set().id,
            key_id: self.key_id(),
            dimensions,
            seed: None,
            payload_len: (content.len() + overhead) as u64,
        };
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
