//! Keys in memory and on disk, and the values that they encrypt.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use cloakwork_client::{
    BlocksShape, CLIENT_KEY_FILE, ClientError, Digest, Encrypted, KeyFileError, Keys, Progress, SecretError, Shape,
    Source, set_by_name,
};
use zeroize::Zeroizing;

const SETS: [&str; 4] =
    ["TOY_MESSAGE_2_CARRY_2", "TOY_MESSAGE_2_CARRY_2_KS32", "TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2", "TOY_BOOLEAN"];

#[tokio::test]
async fn values_come_back_under_every_word_width() {
    for name in SETS {
        let keys = Keys::generate(set_by_name(name).expect("a toy"), Progress::none()).await.expect("keys");
        let list = keys.encrypt(&[1, 0, 1], 1).expect("a list");
        assert_eq!(*keys.decrypt(&list).expect("values"), [1, 0, 1], "{name}");
        let stranger = Keys::generate(keys.set(), Progress::none()).await.expect("keys");
        assert!(matches!(stranger.decrypt(&list), Err(ClientError::Format(_))));
    }
}

#[tokio::test]
async fn a_value_above_its_bound_is_refused_without_disclosing_it() {
    let keys = Keys::generate(set_by_name(SETS[0]).expect("a toy"), Progress::none()).await.expect("keys");
    let error = keys.encrypt(&[3, 13], 12).unwrap_err();
    assert_eq!(error, ClientError::ValueTooLarge { index: 1, max: 12 });
    assert!(keys.encrypt(&[16], 16).is_err(), "the set has no such value");
}

#[tokio::test]
async fn a_directory_holds_the_generated_keys_and_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys");
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let steps = told.clone();
    let progress = Progress::new(move |step| steps.lock().unwrap().push((step.done, step.total)));
    let set = set_by_name(SETS[0]).expect("a toy");
    let made = Keys::generate_in(path.clone(), set, None, progress).await.expect("keys");
    let loaded = Keys::load(&path, None).expect("keys");
    assert_eq!(loaded.key_id(), made.key_id());
    assert_eq!(*loaded.decrypt(&made.encrypt(&[7], 15).expect("a list")).expect("values"), [7]);
    let (done, total) = *told.lock().unwrap().last().expect("steps");
    assert_eq!(done, total);
    // Most of a file's bytes are the part's payload.
    let sizes: u64 = loaded
        .parts()
        .iter()
        .map(|part| match &part.source {
            Source::File(path) => Digest::of_file(path).expect("a file").size_bytes,
            Source::Bytes(_) => panic!("not from a file"),
        })
        .sum();
    assert_eq!(sizes, total + 2 * 144);
    let again = Keys::generate_in(path, set, None, Progress::none()).await.unwrap_err();
    assert!(matches!(again, ClientError::KeyFile(KeyFileError::Exists { .. })), "{again:?}");
}

#[tokio::test]
async fn a_second_set_of_the_family_joins_a_key_and_its_directory() {
    let [first, second, stranger] = [SETS[0], SETS[1], SETS[3]].map(|name| set_by_name(name).expect("a toy"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys");
    let passphrase = || Some(Zeroizing::new("tree".to_owned()));
    let made = Keys::generate_in(path.clone(), first, passphrase(), Progress::none()).await.expect("keys");
    // Simulates a process that died before it completed the file.
    std::fs::write(path.join("client.key.unfinished"), "half").unwrap();
    let both = Keys::add_in(path.clone(), second, passphrase(), Progress::none()).await.expect("keys");
    assert_eq!((both.key_id(), both.parts().len(), both.set().name), (made.key_id(), 4, first.name));
    let loaded = Keys::load(&path, Some("tree")).expect("the new file is sealed as well");
    assert_eq!(loaded.sets().map(|set| set.name).collect::<Vec<_>>(), [first.name, second.name]);
    assert!(!path.join("client.key.unfinished").exists());
    let loaded = loaded.using(second).expect("a set of the key");
    let list = loaded.encrypt(&[5, 6], 15).expect("a list");
    // Keys with both sets decrypt lists of either set, regardless of the set in use. Keys with one
    // set decrypt lists of that set.
    assert_eq!(*both.decrypt(&list).expect("values"), [5, 6]);
    assert_eq!(*loaded.decrypt(&both.encrypt(&[7], 15).expect("a list")).expect("values"), [7]);
    assert!(matches!(made.decrypt(&list), Err(ClientError::Secret(_))));

    let again = Keys::add_in(path.clone(), second, passphrase(), Progress::none()).await.unwrap_err();
    assert!(matches!(&again, ClientError::Secret(_)), "{again:?}");
    let before = std::fs::read(path.join(CLIENT_KEY_FILE)).unwrap();
    let other = Keys::add_in(path.clone(), stranger, passphrase(), Progress::none()).await.unwrap_err();
    assert!(matches!(&other, ClientError::Secret(_)), "{other:?}");
    assert_eq!(std::fs::read(path.join(CLIENT_KEY_FILE)).unwrap(), before, "a refusal changes nothing");
    assert!(loaded.using(stranger).is_err());
}

#[test]
fn incompatible_sets_are_refused_before_generation() {
    let [first, second, stranger] = [SETS[0], SETS[1], SETS[3]].map(|name| set_by_name(name).expect("a toy"));
    Keys::check_sets([]).expect("nothing to make");
    Keys::check_sets([first]).expect("one");
    Keys::check_sets([first, second]).expect("one family");
    let twice = Keys::check_sets([first, second, first]).unwrap_err();
    assert_eq!(twice, ClientError::Secret(SecretError::SetAlreadyInKey { set: first.name }));
    let other = Keys::check_sets([first, second, stranger]).unwrap_err();
    assert!(matches!(other, ClientError::Secret(SecretError::OtherFamily { .. })), "{other:?}");
}

#[tokio::test]
async fn a_directory_is_checked_when_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (set, path) = (set_by_name(SETS[0]).expect("a toy"), directory.path().join("keys"));
    let passphrase = Some(Zeroizing::new("tree".to_owned()));
    Keys::generate_in(path.clone(), set, passphrase, Progress::none()).await.expect("keys");
    assert_eq!(Keys::load(&path, None).unwrap_err(), ClientError::KeyFile(KeyFileError::PassphraseNeeded));
    assert_eq!(Keys::load(&path, Some("bush")).unwrap_err(), ClientError::KeyFile(KeyFileError::WrongPassphrase));
    Keys::load(&path, Some("tree")).expect("keys");
    let part = path.join("TOY_MESSAGE_2_CARRY_2.bootstrap");
    std::fs::copy(path.join("TOY_MESSAGE_2_CARRY_2.key-switch"), &part).unwrap();
    assert!(matches!(Keys::load(&path, Some("tree")), Err(ClientError::KeyPart { .. })));
    std::fs::remove_file(&part).unwrap();
    let missing = ClientError::KeyPartMissing { path: part.display().to_string() };
    assert_eq!(Keys::load(&path, Some("tree")).unwrap_err(), missing);
    std::fs::remove_file(path.join(CLIENT_KEY_FILE)).unwrap();
    assert!(matches!(Keys::load(&path, None), Err(ClientError::KeyFile(KeyFileError::Io { .. }))));
}

#[tokio::test]
async fn a_list_is_decrypted_only_with_the_shape_that_the_client_expects() {
    let [set, other] = [SETS[0], SETS[1]].map(|name| set_by_name(name).expect("a toy"));
    let keys = Keys::generate(set, Progress::none()).await.expect("keys");
    let list = keys.encrypt(&[1, 0, 2, 1], 3).expect("a list");
    let expecting = |set, degrees: &[u32], rows| {
        let shape = Shape::Blocks(BlocksShape { set, degrees: degrees.into(), rows });
        keys.decrypt(&Encrypted { shape, ..list.clone() })
    };
    for (degrees, rows) in [(&[3][..], Some(4)), (&[3, 3], Some(2)), (&[3, 15], None), (&[15], None)] {
        assert_eq!(*expecting(set, degrees, rows).expect("the list"), [1, 0, 2, 1]);
    }
    let difference = |result: Result<Zeroizing<Vec<u64>>, ClientError>| match result {
        Err(ClientError::UnexpectedList { difference }) => difference,
        other => panic!("{other:?}"),
    };
    for (degrees, rows, what) in [
        (&[3][..], Some(3), "number of ciphertexts 4: expected 3 times 1"),
        (&[3, 3, 3], None, "number of ciphertexts 4: expected a multiple of 3"),
        (&[2], Some(4), "degree 3: expected at most 2"),
        (&[3, 1], None, "degree 3: expected at most 1"),
    ] {
        assert_eq!(difference(expecting(set, degrees, rows)), what);
    }
    assert!(matches!(expecting(other, &[3], Some(4)), Err(ClientError::Format(_))));
}
