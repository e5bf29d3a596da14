//! Digests, which name blobs.

use std::{fmt, fs::File, io::Read as _, path::Path};

use bytes::Bytes;
use cloakwork_proto::v1;

use crate::{ClientError, Result};

/// Identifies a blob by its content: BLAKE3 and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    /// BLAKE3 of the bytes.
    pub blake3: [u8; 32],
    /// Number of bytes.
    pub size_bytes: u64,
}

impl Digest {
    /// Digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self { blake3: *blake3::hash(bytes).as_bytes(), size_bytes: bytes.len() as u64 }
    }

    /// Digest of a file, read in pieces. This call blocks.
    pub fn of_file(path: &Path) -> Result<Self> {
        let failed = |error| ClientError::io(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let (mut hasher, mut piece) = (blake3::Hasher::new(), vec![0; 1 << 20]);
        let mut size_bytes = 0;
        loop {
            match file.read(&mut piece).map_err(failed)? {
                0 => return Ok(Self { blake3: *hasher.finalize().as_bytes(), size_bytes }),
                got => {
                    hasher.update(&piece[..got]);
                    size_bytes += got as u64;
                }
            }
        }
    }

    pub(crate) fn message(self) -> v1::Digest {
        v1::Digest { blake3: Bytes::copy_from_slice(&self.blake3), size_bytes: self.size_bytes }
    }

    /// Decodes the digest of a message.
    pub(crate) fn from_message(message: &v1::Digest) -> Result<Self> {
        let blake3 = message.blake3[..].try_into();
        let blake3 = blake3.map_err(|_| ClientError::malformed("a digest that is not 32 bytes long"))?;
        Ok(Self { blake3, size_bytes: message.size_bytes })
    }
}

/// The hash in hexadecimal, as in resource names.
impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blake3.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}
