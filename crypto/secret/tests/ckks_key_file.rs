//! Files of CKKS keys: like those of TFHE keys, with their own kind.

use std::{fs, path::PathBuf};

use cloakwork_ckks::{Complex, Ring};
use cloakwork_params::{EnvelopeError, EnvelopeReader, KeyId, ObjectKind, ckks};
use cloakwork_secret::{ClientKey, Randomness, ckks::SecretKey, file::KeyFileError};

/// A directory that is removed after the test.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cloakwork-ckks-key-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key() -> SecretKey {
    let set = ckks::by_name("TOY_CKKS_54_60").unwrap();
    SecretKey::generate(set, &mut Randomness::insecure_for_tests(5)).unwrap()
}

fn file_bytes(passphrase: Option<&str>, test: &str) -> Vec<u8> {
    let directory = Directory::new(test);
    let path = directory.0.join("key");
    key().save(&path, passphrase).unwrap();
    fs::read(&path).unwrap()
}

#[test]
fn plain_and_sealed_key_files_load() {
    let (key, mut randomness) = (key(), Randomness::insecure_for_tests(6));
    let ring = Ring::new(key.set());
    let numbers = [Complex::new(0.5, -0.25), Complex::new(-1.0, 0.125)];
    let ciphertext = key.encrypt(&ring, &numbers, 2, &mut randomness).unwrap();
    let expected = key.decrypt(&ring, &ciphertext).unwrap();
    for passphrase in [None, Some("correct horse")] {
        let directory = Directory::new(&format!("back-{}", passphrase.is_some()));
        let path = directory.0.join("key");
        key.save(&path, passphrase).unwrap();
        let again = SecretKey::load(&path, passphrase).unwrap();
        assert_eq!((again.key_id(), again.set()), (key.key_id(), key.set()));
        assert_eq!(again.decrypt(&ring, &ciphertext).unwrap(), expected);
        assert!(matches!(key.save(&path, passphrase), Err(KeyFileError::Exists { .. })));
        let wrong = SecretKey::load(&path, Some("wrong horse")).unwrap_err();
        let expected = if passphrase.is_some() { KeyFileError::WrongPassphrase } else { KeyFileError::NotSealed };
        assert_eq!(wrong, expected);
    }
}

#[test]
fn a_server_and_the_other_scheme_refuse_the_file() {
    let bytes = file_bytes(None, "server");
    let refused = EnvelopeReader::open(&bytes[..]).err();
    assert_eq!(refused, Some(EnvelopeError::SecretKeyRefused { got: 0x8001 }));
    let (expected, got) = (ObjectKind::ClientKey, ObjectKind::CkksClientKey);
    assert_eq!(ClientKey::from_file_bytes(&bytes[..], None).unwrap_err(), KeyFileError::NotAKey { expected, got });
}

#[test]
fn every_truncation_and_every_flipped_byte_is_noticed() {
    let bytes = file_bytes(None, "broken");
    for len in 0..bytes.len() {
        assert!(SecretKey::from_file_bytes(&bytes[..len], None).is_err(), "cut to {len}");
    }
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 1 << (at % 8);
        let error = SecretKey::from_file_bytes(&broken[..], None).unwrap_err();
        // The message does not contain the digests of the content.
        assert!(!format!("{error} {error:?}").contains("DigestMismatch"), "{error:?}");
    }
}

/// Applies a change to a file and renews its length and digest.
fn resealed(bytes: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = bytes[..bytes.len() - 32].to_vec();
    change(&mut bytes);
    let payload_len = (bytes.len() - CONTENT) as u64;
    bytes[104..112].copy_from_slice(&payload_len.to_le_bytes());
    bytes.extend(blake3::hash(&bytes).as_bytes());
    bytes
}

/// Offset of the content in the file.
const CONTENT: usize = 112;

/// Secrets used to have any number of nonzero coefficients, about 2/3 of all. Files hold the
/// coefficients, so old keys load unchanged.
#[test]
fn keys_from_before_sets_had_a_weight_load_unchanged() {
    // The coefficients are -1, 0, 1, 0 and so on: two bits each, from the lowest up, with a weight
    // of 512.
    let old = resealed(&file_bytes(None, "old"), |bytes| bytes[CONTENT..].fill(0b00_01_00_11));
    let key = SecretKey::from_file_bytes(&old[..], None).unwrap();
    let directory = Directory::new("old-again");
    let path = directory.0.join("key");
    key.save(&path, None).unwrap();
    assert_eq!(fs::read(&path).unwrap(), old);
    // The secret is -1 + X^2 - X^4 + ... Decryption must use exactly these coefficients.
    let ring = Ring::new(key.set());
    let numbers = [Complex::new(0.5, -0.25), Complex::new(-1.0, 0.125)];
    let ciphertext = key.encrypt(&ring, &numbers, 0, &mut Randomness::insecure_for_tests(6)).unwrap();
    let [mut body, mut mask] = ciphertext.polys.clone();
    [&mut body, &mut mask].into_iter().for_each(|poly| ring.inverse(poly));
    let modulus = ring.prime(0).modulus();
    let size = key.set().size();
    let phase: Vec<f64> = (0..size)
        .map(|place| {
            let terms = (0..size).step_by(2).map(|power| {
                let (from, is_wrapped) = ((place + size - power) % size, power > place);
                let is_added = (power % 4 == 2) != is_wrapped;
                let word = mask.row(0)[from];
                if is_added { word } else { modulus.sub(0, word) }
            });
            modulus.to_signed(terms.fold(body.row(0)[place], |sum, term| modulus.add(sum, term))) as f64
        })
        .collect();
    assert_eq!(phase, key.coefficients_of(&ring, &ciphertext).unwrap());
}

/// Files with a correct digest and wrong content, as a malicious writer would make them.
#[test]
fn invalid_content_is_refused() {
    let bytes = file_bytes(None, "format");
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let rewritten = |change: Change<'_>| SecretKey::from_file_bytes(&resealed(&bytes, change)[..], None).err();
    assert_eq!(rewritten(&|_| {}), None);
    let malformed: [Change<'_>; 7] = [
        // 2 is not a valid coefficient.
        &|bytes| bytes[CONTENT + 77] = bytes[CONTENT + 77] & !0x30 | 0x20,
        // The weight is lower than that of the set.
        &|bytes| bytes[CONTENT..].fill(0),
        &|bytes| bytes[CONTENT..CONTENT + 128].fill(0),
        &|bytes| bytes.push(0),
        &|bytes| bytes.truncate(300),
        &|bytes| bytes[16..32].copy_from_slice(&KeyId::NONE.0),
        &|bytes| bytes[36] = 1,
    ];
    for (index, change) in malformed.into_iter().enumerate() {
        let error = rewritten(change);
        assert!(matches!(error, Some(KeyFileError::Malformed { .. })), "change {index}: {error:?}");
    }
    let error = rewritten(&|bytes| bytes[12] = 0x42);
    assert!(matches!(error, Some(KeyFileError::UnknownSet { .. })), "{error:?}");
    assert_eq!(rewritten(&|bytes| bytes[32] = 7), Some(KeyFileError::UnknownProtection { got: 7 }));
    let error = rewritten(&|bytes| bytes.resize(2 << 20, 0));
    assert!(matches!(error, Some(KeyFileError::TooLong { .. })), "{error:?}");
}
