//! Secret randomness: key bits and noise.

use chacha20::{
    ChaCha20,
    cipher::{KeyIvInit, StreamCipher},
};
use zeroize::{Zeroize, Zeroizing};

use super::{OsRandomError, fill_from_os};

const KEY_BYTES: usize = 32;
const POOL_BYTES: usize = 2048;

/// A generator for secrets: ChaCha20 keyed by the operating system, rekeyed at every refill.
///
/// ChaCha20 is chosen over AES because ChaCha20 is constant-time on every processor and its state
/// can be wiped. Each refill overwrites the key with fresh output, so the state reveals no earlier
/// output.
pub struct SecretRng {
    key: [u8; KEY_BYTES],
    pool: [u8; POOL_BYTES],
    /// Bytes of `pool` that are already consumed.
    used: usize,
}

impl SecretRng {
    /// A generator keyed with 256 bits from the operating system.
    pub fn from_os() -> Result<Self, OsRandomError> {
        let mut rng = Self::empty();
        fill_from_os(&mut rng.key)?;
        Ok(rng)
    }

    /// A generator with reproducible output. For tests only: such output protects nothing.
    #[cfg(any(test, feature = "insecure-test-randomness"))]
    pub fn insecure_for_tests(seed: u64) -> Self {
        let mut rng = Self::empty();
        rng.key[..8].copy_from_slice(&seed.to_le_bytes());
        rng
    }

    /// Mixes 256 fresh bits of the operating system into the key, and discards the pool.
    ///
    /// Copies of a generator, on both sides of a fork or in copies of a virtual machine, give
    /// different bytes from here on.
    pub fn mix_from_os(&mut self) -> Result<(), OsRandomError> {
        let mut fresh = Zeroizing::new([0; KEY_BYTES]);
        fill_from_os(&mut *fresh)?;
        for (key, fresh) in self.key.iter_mut().zip(&*fresh) {
            *key ^= fresh;
        }
        self.pool.zeroize();
        self.used = POOL_BYTES;
        Ok(())
    }

    /// A generator for another thread, keyed by 256 bits of this generator.
    pub fn fork(&mut self) -> Self {
        let mut child = Self::empty();
        self.fill_bytes(&mut child.key);
        child
    }

    /// Fills `bytes` with uniform random bytes.
    pub fn fill_bytes(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            if self.used == POOL_BYTES {
                self.refill();
            }
            let taken = bytes.len().min(POOL_BYTES - self.used);
            let (head, rest) = bytes.split_at_mut(taken);
            let given = &mut self.pool[self.used..][..taken];
            head.copy_from_slice(given);
            given.fill(0);
            self.used += taken;
            bytes = rest;
        }
    }

    /// A uniform random word.
    pub fn word(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn empty() -> Self {
        Self { key: [0; KEY_BYTES], pool: [0; POOL_BYTES], used: POOL_BYTES }
    }

    fn refill(&mut self) {
        self.pool.fill(0);
        // A key is used for one refill only, so the nonce may be constant.
        ChaCha20::new(&self.key.into(), &[0; 12].into()).apply_keystream(&mut self.pool);
        self.key.copy_from_slice(&self.pool[..KEY_BYTES]);
        self.pool[..KEY_BYTES].fill(0);
        self.used = KEY_BYTES;
    }

    fn wipe(&mut self) {
        self.key.zeroize();
        self.pool.zeroize();
    }
}

impl Drop for SecretRng {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refill_is_the_published_chacha20_stream() {
        // RFC 8439 (errata-free test vector A.1 #1): key 0, nonce 0, counter 0. The output of this
        // generator begins at byte 32.
        let mut bytes = [0; 32];
        SecretRng::insecure_for_tests(0).fill_bytes(&mut bytes);
        let expected = [
            0xda, 0x41, 0x59, 0x7c, 0x51, 0x57, 0x48, 0x8d, 0x77, 0x24, 0xe0, 0x3f, 0xb8, 0xd8, 0x4a, 0x37, 0x6a, 0x43,
            0xb8, 0xf4, 0x15, 0x18, 0xa1, 0x1c, 0xc3, 0x87, 0xb6, 0x69, 0xb2, 0xee, 0x65, 0x86,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_refill_replaces_the_key_and_consumed_bytes_are_wiped() {
        let mut rng = SecretRng::insecure_for_tests(5);
        let mut bytes = [0; 3000];
        rng.fill_bytes(&mut bytes);
        let old = SecretRng::insecure_for_tests(5).key;
        assert_ne!(rng.key, old);
        assert!(rng.pool[..rng.used].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn generators_from_the_operating_system_and_forks_differ() {
        let mut first = SecretRng::from_os().unwrap();
        let mut second = SecretRng::from_os().unwrap();
        let mut child = first.fork();
        let words: std::collections::HashSet<_> =
            (0..100).flat_map(|_| [first.word(), second.word(), child.word()]).collect();
        assert_eq!(words.len(), 300);
    }

    #[test]
    fn copies_diverge_after_fresh_bytes_are_mixed_in() {
        let mut copies = [1, 2, 3].map(|_| {
            let mut copy = SecretRng::insecure_for_tests(7);
            copy.word();
            copy
        });
        let [left, right, _] = &mut copies;
        left.mix_from_os().unwrap();
        right.mix_from_os().unwrap();
        let words: std::collections::HashSet<_> =
            copies.iter_mut().flat_map(|copy| [copy.word(), copy.word()]).collect();
        assert_eq!(words.len(), 6);
    }

    #[test]
    fn dropping_wipes_the_state() {
        assert!(std::mem::needs_drop::<SecretRng>());
        let mut rng = SecretRng::insecure_for_tests(9);
        rng.word();
        rng.wipe(); // all that `drop` does
        assert_eq!(rng.key, [0; KEY_BYTES]);
        assert!(rng.pool.iter().all(|&byte| byte == 0));
    }
}
