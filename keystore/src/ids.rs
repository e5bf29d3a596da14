//! Names of blobs, tenants and uploads. Paths on disk and rows consist of names, so each
//! constructor checks its name.

use std::fmt;

use cloakwork_storage::Asker;

use crate::Error;

/// Name of a blob, derived from its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    /// BLAKE3 of the bytes.
    pub blake3: [u8; 32],
    /// Number of bytes.
    pub size_bytes: u64,
}

impl Digest {
    /// Computes the digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self { blake3: *blake3::hash(bytes).as_bytes(), size_bytes: bytes.len() as u64 }
    }

    /// The hash in hexadecimal, as in resource names.
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.blake3).to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.hex(), self.size_bytes)
    }
}

/// Name of a tenant: 1 to 63 of `a-z`, `0-9` and `-`. No other character can become part of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(String);

impl TenantId {
    /// Checks the name.
    pub fn new(name: &str) -> Result<Self, Error> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        match (1..=63).contains(&name.len()) && name.bytes().all(plain) {
            true => Ok(Self(name.to_owned())),
            false => Err(Error::InvalidName { what: "tenant", rule: "1 to 63 of a-z, 0-9 and -" }),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tenant as a party that uses the database.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker::Tenant(&self.0)
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Name of an upload. The tenant and the digest determine the name, so all clients of a tenant
/// share one upload for a blob.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UploadId(String);

impl UploadId {
    /// Name of a blob's upload.
    pub(crate) fn of(tenant: &TenantId, digest: &Digest) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cloakwork keystore, name of an upload");
        hasher.update(tenant.as_str().as_bytes()).update(&[0]);
        hasher.update(&digest.blake3).update(&digest.size_bytes.to_le_bytes());
        Self(hasher.finalize().to_hex()[..32].to_owned())
    }

    /// Checks a name from a request: 32 lower-case hexadecimal digits.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match name.len() == 32 && name.bytes().all(digit) {
            true => Ok(Self(name.to_owned())),
            false => Err(Error::InvalidName { what: "upload", rule: "32 lower-case hexadecimal digits" }),
        }
    }

    /// Makes the name whose hexadecimal digits encode these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(bytes)))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A client's UUID, used as the idempotency key of a call.
pub type RequestId = [u8; 16];

/// Holder of a pin: a job, by its id.
pub type Holder = [u8; 16];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_leave_its_directory() {
        for bad in ["", ".", "..", "a/b", "A", "a_b", "a\0", "ä", "a.b", &"a".repeat(64)] {
            assert!(TenantId::new(bad).is_err(), "{bad:?}");
            assert!(UploadId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(TenantId::new(&"a".repeat(63)).is_ok());
        assert!(UploadId::parse(&"G".repeat(32)).is_err());
        assert!(UploadId::parse(&"0af9".repeat(8)).is_ok());
    }

    #[test]
    fn uploads_of_different_tenants_differ() {
        let digest = Digest::of(b"x");
        let [a, b] = ["a", "b"].map(|name| UploadId::of(&TenantId::new(name).expect("a name"), &digest));
        assert_ne!(a, b);
        assert_eq!(UploadId::parse(a.as_str()).expect("well formed"), a);
    }
}
