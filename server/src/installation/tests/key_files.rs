//! The installation's keys in files.

use std::{fs, os::unix::fs::MetadataExt as _};

use super::*;

fn files(data: &Path) -> KeyFiles {
    KeyFiles::open(data).unwrap()
}

fn public(files: &KeyFiles) -> PublicKey {
    files.current().unwrap().public()
}

#[test]
fn a_key_is_made_once_and_for_this_user_alone() {
    let data = tempfile::tempdir().unwrap();
    let key = public(&files(data.path()));
    assert_eq!(public(&files(data.path())), key);
    assert_eq!(files(data.path()).anchor().unwrap().keys(), [key]);
    let directory = data.path().join(DIRECTORY);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("key"))), (0o700, 0o600));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no other file is left");
    assert_ne!(public(&files(tempfile::tempdir().unwrap().path())), key);
}

#[test]
fn processes_that_start_together_agree_on_one_key() {
    let data = tempfile::tempdir().unwrap();
    let keys: Vec<PublicKey> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| public(&files(data.path())))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn a_rotation_keeps_every_key_in_the_anchor_and_puts_the_current_one_first() {
    let data = tempfile::tempdir().unwrap();
    let files = files(data.path());
    let first = public(&files);
    let prepared = files.prepare().unwrap();
    let second = prepared.keys()[1];
    assert_eq!(prepared.keys(), [first, second]);
    assert_eq!((files.prepare().unwrap(), public(&files)), (prepared, first), "the next key is made once");
    assert_eq!(files.rotate().unwrap().keys(), [second, first]);
    assert_eq!(public(&files), second);
    // Without preparation, as after a theft of the key.
    let rotated = files.rotate().unwrap();
    let third = rotated.keys()[0];
    assert_eq!(rotated.keys(), [third, second, first]);
    assert!(![first, second].contains(&third));
    assert_eq!(files.forget(second).unwrap().unwrap().keys(), [third, first]);
    assert_eq!(files.forget(second).unwrap(), None);
    assert_eq!(files.forget(third).unwrap(), None, "the current key is not retired");
}

#[test]
fn a_damaged_key_is_not_replaced() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join(DIRECTORY).join("key");
    files(data.path()).current().unwrap();
    for damage in ["", "ed25519-seed:", "ed25519-seed:zz", &"0".repeat(64)] {
        fs::write(&path, damage).unwrap();
        let error = files(data.path()).current().unwrap_err().to_string();
        assert!(error.contains("restore it from a backup") && error.contains("installation/key"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damage);
    }
    files(tempfile::tempdir().unwrap().path()).current().unwrap();
    let data = tempfile::tempdir().unwrap();
    files(data.path()).rotate().unwrap();
    fs::write(data.path().join(DIRECTORY).join("retired"), "ed25519:00\n").unwrap();
    assert!(matches!(files(data.path()).anchor(), Err(InstallationError::Damaged { .. })));
}

/// A container runtime leaves the file where a single file is mounted into another container.
#[test]
fn an_empty_next_key_counts_as_missing() {
    let data = tempfile::tempdir().unwrap();
    let files = files(data.path());
    let (current, next) = (public(&files), data.path().join(DIRECTORY).join("next"));
    fs::write(&next, "").unwrap();
    assert_eq!(files.anchor().unwrap().keys(), [current]);
    assert_eq!(files.forget(PublicKey([0; 32])).unwrap(), None);
    let prepared = files.prepare().unwrap();
    assert_eq!(prepared.keys().len(), 2, "the key takes the place of the empty file");
    assert_eq!(files.anchor().unwrap(), prepared);
    for damage in ["\n", "ed25519-seed:"] {
        fs::write(&next, damage).unwrap();
        assert!(matches!(files.anchor(), Err(InstallationError::Damaged { .. })), "{damage:?}");
        assert!(files.rotate().is_err());
        assert_eq!(fs::read_to_string(&next).unwrap(), damage);
    }
    fs::write(&next, "").unwrap();
    let rotated = files.rotate().unwrap();
    assert_eq!(rotated.keys()[1], current);
    assert!(!next.exists());
}

#[test]
fn a_key_that_no_anchor_has_room_for_is_refused_and_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let files = files(data.path());
    for _ in 1..ANCHOR_KEYS_MAX {
        files.rotate().unwrap();
    }
    let (anchor, key) = (files.anchor().unwrap(), public(&files));
    assert_eq!(anchor.keys().len(), ANCHOR_KEYS_MAX);
    for refused in [files.prepare(), files.rotate()] {
        assert!(matches!(refused, Err(InstallationError::Full)), "{refused:?}");
    }
    assert_eq!((files.anchor().unwrap(), public(&files)), (anchor.clone(), key));
    files.forget(anchor.keys()[1]).unwrap().unwrap();
    assert_eq!(files.rotate().unwrap().keys().len(), ANCHOR_KEYS_MAX);
}

#[test]
fn commands_that_run_together_lose_no_change() {
    let data = tempfile::tempdir().unwrap();
    let (old, _) = (public(&files(data.path())), files(data.path()).rotate().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| files(data.path()).forget(old).unwrap().unwrap());
        for _ in 0..4 {
            scope.spawn(|| files(data.path()).rotate().unwrap());
        }
    });
    let anchor = files(data.path()).anchor().unwrap();
    assert!(!anchor.has(&old), "a forgotten key stays forgotten");
    assert_eq!(anchor.keys().len(), 5, "the current key and each one that was retired");
}

#[test]
fn a_prepared_key_can_be_given_up() {
    let data = tempfile::tempdir().unwrap();
    let files = files(data.path());
    let current = public(&files);
    let prepared = files.prepare().unwrap().keys()[1];
    assert_eq!(files.forget(prepared).unwrap().unwrap().keys(), [current]);
    assert_eq!(files.forget(prepared).unwrap(), None);
    assert!(!files.rotate().unwrap().has(&prepared), "another key is made");
    assert_ne!(public(&files), prepared);
    assert_eq!(files.forget(public(&files)).unwrap(), None, "the current key stays");
}
