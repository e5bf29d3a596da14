//! Key files on disk, valid and damaged.

use std::{fs, path::PathBuf};

use crate::common::*;
use cloakwork_params::{EnvelopeError, EnvelopeReader, table};
use cloakwork_secret::{ClientKey, Randomness, file::KeyFileError};

/// A directory that is removed after the test.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cloakwork-key-file-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn client() -> ClientKey {
    let mut randomness = Randomness::insecure_for_tests(1);
    let mut client = ClientKey::generate(set(CLASSICAL_2_2), &mut randomness).unwrap();
    client.add(set_like(&["GROUP_3", "MESSAGE_2_CARRY_2", "TUNIFORM"]), &mut randomness).unwrap();
    client.add(set(KS32_2_2), &mut randomness).unwrap();
    client.add_compression(table::compression_for(set(CLASSICAL_2_2)).unwrap(), &mut randomness).unwrap();
    client
}

fn assert_same(one: &ClientKey, two: &ClientKey) {
    assert_eq!(one.key_id(), two.key_id());
    assert_eq!(one.big().bits(), two.big().bits());
    assert_eq!(one.big().polynomial_size(), two.big().polynomial_size());
    assert_eq!(one.sets().map(|set| set.id).collect::<Vec<_>>(), two.sets().map(|set| set.id).collect::<Vec<_>>());
    for set in one.sets() {
        assert_eq!(one.small(set).unwrap().bits(), two.small(set).unwrap().bits());
    }
    assert_eq!(one.compression_sets().count(), two.compression_sets().count());
    for set in one.compression_sets() {
        assert_eq!(one.packing(set).unwrap().bits(), two.packing(set).unwrap().bits());
    }
}

fn file_bytes(client: &ClientKey, passphrase: Option<&str>, test: &str) -> Vec<u8> {
    let directory = Directory::new(test);
    let path = directory.0.join("key");
    client.save(&path, passphrase).unwrap();
    fs::read(&path).unwrap()
}

#[test]
fn saved_keys_load_unchanged() {
    let directory = Directory::new("round-trip");
    let client = client();
    for (name, passphrase) in [("plain", None), ("sealed", Some("correct horse"))] {
        let path = directory.0.join(name);
        client.save(&path, passphrase).unwrap();
        assert_same(&client, &ClientKey::load(&path, passphrase).unwrap());
    }
    // Files of every set can be read.
    for set in table::SETS {
        let client = ClientKey::generate(set, &mut Randomness::insecure_for_tests(2)).unwrap();
        let path = directory.0.join(set.name);
        client.save(&path, None).unwrap();
        assert_same(&client, &ClientKey::load(&path, None).unwrap());
    }
}

#[cfg(unix)]
#[test]
fn a_new_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("mode");
    let path = directory.0.join("key");
    client().save(&path, None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[cfg(unix)]
#[test]
fn a_file_open_to_others_is_refused_with_the_remedy() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("open");
    let path = directory.0.join("key");
    client().save(&path, None).unwrap();
    for (mode, accepted) in
        [(0o640, false), (0o604, false), (0o620, false), (0o602, false), (0o644, false), (0o600, true), (0o400, true)]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match ClientKey::load(&path, None) {
            Ok(_) => assert!(accepted, "{mode:o}"),
            Err(error) => {
                assert_eq!(error, KeyFileError::OpenToOthers { path: path.clone(), mode }, "{mode:o}");
                let way_out = format!("(mode {mode:03o}): run chmod 600 {}", path.display());
                assert!(error.to_string().ends_with(&way_out), "{error}");
            }
        }
    }
}

#[test]
fn a_file_is_never_overwritten() {
    let directory = Directory::new("overwrite");
    let path = directory.0.join("key");
    fs::write(&path, "precious").unwrap();
    let refused = client().save(&path, None).unwrap_err();
    assert_eq!(refused, KeyFileError::Exists { path: path.clone() });
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let nowhere = directory.0.join("missing").join("key");
    assert!(matches!(client().save(&nowhere, None), Err(KeyFileError::Io { .. })));
    assert!(matches!(ClientKey::load(&nowhere, None), Err(KeyFileError::Io { .. })));
}

#[test]
fn passphrases_must_match_the_file() {
    let read = |bytes: &[u8], passphrase| ClientKey::from_file_bytes(bytes, passphrase).err();
    let plain = file_bytes(&client(), None, "plain");
    assert_eq!(read(&plain, Some("any")), Some(KeyFileError::NotSealed));
    let sealed = file_bytes(&client(), Some("correct horse"), "sealed");
    assert_eq!(read(&sealed, None), Some(KeyFileError::PassphraseNeeded));
    assert_eq!(read(&sealed, Some("wrong horse")), Some(KeyFileError::WrongPassphrase));
    assert_eq!(read(&sealed, Some("correct horse")), None);
    let directory = Directory::new("empty-passphrase");
    let path = directory.0.join("key");
    assert_eq!(client().save(&path, Some("")), Err(KeyFileError::PassphraseEmpty));
    assert!(!path.exists());
    // No run of the key's packed bits occurs in a sealed file.
    let content = &plain[112..][..256];
    assert!(content.windows(8).all(|window| !sealed.windows(8).any(|sealed| sealed == window)));
}

#[test]
fn a_server_refuses_the_file() {
    let bytes = file_bytes(&client(), None, "server");
    let refused = EnvelopeReader::open(&bytes[..]).err();
    assert_eq!(refused, Some(EnvelopeError::SecretKeyRefused { got: 0x8000 }));
}

#[test]
fn every_truncation_and_every_flipped_bit_is_noticed() {
    let bytes = file_bytes(&client(), None, "broken");
    for len in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        assert!(ClientKey::from_file_bytes(&bytes[..len], None).is_err(), "cut to {len}");
    }
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 1 << (at % 8);
        let error = ClientKey::from_file_bytes(&broken[..], None).unwrap_err();
        // The message does not contain the digests of the content.
        assert!(!format!("{error} {error:?}").contains("DigestMismatch"), "{error:?}");
        if at >= 112 {
            assert_eq!(error, KeyFileError::Damaged, "byte {at}");
        }
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(ClientKey::from_file_bytes(&longer[..], None), Err(KeyFileError::Envelope(_))));
}

/// Files with a correct digest and wrong content, as a malicious writer would make them.
#[test]
fn content_that_breaks_the_format_is_refused() {
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let bytes = file_bytes(&client(), None, "format");
    let rewritten = |change: Change<'_>| {
        let mut bytes = bytes[..bytes.len() - 32].to_vec();
        change(&mut bytes);
        let payload_len = (bytes.len() - 112) as u64;
        bytes[104..112].copy_from_slice(&payload_len.to_le_bytes());
        bytes.extend(blake3::hash(&bytes).as_bytes());
        ClientKey::from_file_bytes(&bytes[..], None).err()
    };
    assert_eq!(rewritten(&|_| {}), None);
    // The big key takes 256 bytes from offset 112 on. The number of small keys and the first set
    // follow.
    let (count, first) = (112 + 256, 112 + 258);
    let malformed: [Change<'_>; 7] = [
        &|bytes| bytes[count] = 0,
        &|bytes| bytes[count] = 200,
        &|bytes| bytes[first] = 9,
        // 918 bits leave two unused bits in the last byte.
        &|bytes| bytes[first + 2 + 114] |= 0x80,
        &|bytes| bytes.push(0),
        &|bytes| bytes.truncate(120),
        &|bytes| bytes[36] = 1,
    ];
    for (index, change) in malformed.into_iter().enumerate() {
        let error = rewritten(change);
        assert!(matches!(error, Some(KeyFileError::Malformed { .. })), "change {index}: {error:?}");
    }
    let error = rewritten(&|bytes| bytes[first + 1] = 0x7f);
    assert!(matches!(error, Some(KeyFileError::UnknownSet { .. })), "{error:?}");
    assert_eq!(rewritten(&|bytes| bytes[32] = 7), Some(KeyFileError::UnknownProtection { got: 7 }));
    let error = rewritten(&|bytes| bytes.resize(2 << 20, 0));
    assert!(matches!(error, Some(KeyFileError::TooLong { .. })), "{error:?}");
    let error = rewritten(&|bytes| bytes[10..12].copy_from_slice(&1_u16.to_le_bytes()));
    assert!(matches!(error, Some(KeyFileError::NotAKey { .. })), "{error:?}");
}
