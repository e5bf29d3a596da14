//! Sealing with a passphrase.
//!
//! Argon2id with 64 MiB of memory, 3 passes and 4 lanes (the second recommendation of RFC 9106)
//! derives a key for XChaCha20-Poly1305. The cipher also authenticates the header. The cost is part
//! of the format, so no file can request more.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use chacha20poly1305::{AeadInPlace, KeyInit, XChaCha20Poly1305};
use cloakwork_math::random::fill_from_os;
use zeroize::Zeroizing;

use super::KeyFileError;

const ARGON2_MEMORY_KIB: u32 = 64 * 1024;
const ARGON2_PASSES: u32 = 3;
const ARGON2_LANES: u32 = 4;

const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Bytes that sealing adds before the ciphertext: salt, nonce and tag, in this order.
pub(super) const OVERHEAD: usize = SALT_BYTES + NONCE_BYTES + TAG_BYTES;

/// Seals `content`. [`open`] must receive the same `header`.
pub(super) fn seal(content: &[u8], passphrase: &str, header: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let mut sealed = Zeroizing::new(vec![0; OVERHEAD]);
    sealed.reserve_exact(content.len());
    sealed.extend_from_slice(content);
    let (front, body) = sealed.split_at_mut(OVERHEAD);
    let (salt, rest) = front.split_at_mut(SALT_BYTES);
    let (nonce, tag) = rest.split_at_mut(NONCE_BYTES);
    fill_from_os(salt)?;
    fill_from_os(nonce)?;
    let made = cipher(passphrase, salt)?.encrypt_in_place_detached((&*nonce).into(), header, body);
    tag.copy_from_slice(&made.map_err(|_| KeyFileError::Malformed { what: "more content than can be sealed" })?);
    Ok(sealed)
}

/// Opens a payload that [`seal`] made.
pub(super) fn open(sealed: &[u8], passphrase: &str, header: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    if sealed.len() < OVERHEAD {
        return Err(KeyFileError::Malformed { what: "too short to be sealed" });
    }
    let (front, body) = sealed.split_at(OVERHEAD);
    let (salt, rest) = front.split_at(SALT_BYTES);
    let (nonce, tag) = rest.split_at(NONCE_BYTES);
    let mut content = Zeroizing::new(body.to_vec());
    cipher(passphrase, salt)?
        .decrypt_in_place_detached(nonce.into(), header, &mut content, tag.into())
        .map_err(|_| KeyFileError::WrongPassphrase)?;
    Ok(content)
}

fn cipher(passphrase: &str, salt: &[u8]) -> Result<XChaCha20Poly1305, KeyFileError> {
    let mut key = Zeroizing::new([0; 32]);
    let unusable = |_| KeyFileError::PassphraseUnusable;
    let params = Params::new(ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, Some(key.len())).map_err(unusable)?;
    // Pass own memory, because argon2 does not wipe its own. The last blocks are nearly the key
    // itself.
    let mut memory = Zeroizing::new(Vec::new());
    memory.try_reserve_exact(params.block_count()).map_err(|_| KeyFileError::PassphraseUnusable)?;
    memory.resize(params.block_count(), Block::default());
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(passphrase.as_bytes(), salt, &mut *key, &mut *memory)
        .map_err(unusable)?;
    Ok(XChaCha20Poly1305::new((&*key).into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_authenticated_and_every_seal_is_fresh() {
        let sealed = seal(b"bits", "horse", b"header").unwrap();
        assert_eq!(*open(&sealed, "horse", b"header").unwrap(), b"bits");
        assert_eq!(open(&sealed, "horse", b"Header").unwrap_err(), KeyFileError::WrongPassphrase);
        assert_eq!(open(&sealed, "house", b"header").unwrap_err(), KeyFileError::WrongPassphrase);
        assert!(matches!(open(&sealed[..OVERHEAD - 1], "horse", b"header"), Err(KeyFileError::Malformed { .. })));
        let again = seal(b"bits", "horse", b"header").unwrap();
        assert_ne!(sealed[..SALT_BYTES], again[..SALT_BYTES]);
        assert_ne!(sealed[SALT_BYTES..][..NONCE_BYTES], again[SALT_BYTES..][..NONCE_BYTES]);
        assert_ne!(sealed[OVERHEAD..], *b"bits");
    }
}
