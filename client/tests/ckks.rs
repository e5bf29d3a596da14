//! CKKS keys in their directory.

use std::path::Path;

use cloakwork_client::{
    AnyKeys, BootstrapKind, CLIENT_KEY_FILE, CkksBootstrap, CkksError, CkksFormatError, CkksKeys, CkksPublicKey,
    CkksWish, ClientError, Complex, Encrypted, Flooding, KeyFileError, KeySize, Keys, NoSuchBootstrap, Progress,
    SecretError, Shape, Vector, VectorShape, ckks_set_by_name, set_by_name,
};
use cloakwork_secret::ckks::{
    Ring, SeededCiphertext,
    format::{decode, encode},
};
use zeroize::Zeroizing;

const SET: &str = "TOY_CKKS_54_60";

fn wish() -> CkksWish {
    let bootstrap = CkksBootstrap { slots: 2, stages: 1, size: KeySize::Medium, kind: BootstrapKind::Regular };
    CkksWish { bootstraps: vec![bootstrap], rotations: vec![0, 3], conjugation: true, level: Some(2) }
}

/// Keys with an evaluation key for products at level 0 only.
async fn small_keys(directory: &Path) -> CkksKeys {
    let (set, wish) = (ckks_set_by_name(SET).expect("a toy"), CkksWish { level: Some(0), ..CkksWish::default() });
    CkksKeys::generate_in(directory.join("keys"), set, wish, None, Progress::none()).await.expect("keys")
}

#[tokio::test]
async fn a_directory_of_keys_is_checked_when_it_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let (set, path) = (ckks_set_by_name(SET).expect("a toy"), directory.path().join("keys"));
    let make = |passphrase: Option<&str>| {
        let passphrase = passphrase.map(|passphrase| Zeroizing::new(passphrase.to_owned()));
        CkksKeys::generate_in(path.clone(), set, wish(), passphrase, Progress::none())
    };
    let made = make(Some("tree")).await.expect("keys");
    assert!(matches!(make(Some("tree")).await, Err(ClientError::KeyFile(KeyFileError::Exists { .. }))));
    assert_eq!(CkksKeys::load(&path, None).expect_err("sealed"), ClientError::KeyFile(KeyFileError::PassphraseNeeded));
    let loaded = CkksKeys::load(&path, Some("tree")).expect("keys");
    assert_eq!((loaded.key_id(), loaded.set()), (made.key_id(), set));
    let shapes = |keys: &CkksKeys| keys.parts().iter().map(|part| part.shape).collect::<Vec<_>>();
    assert_eq!(shapes(&loaded), shapes(&made));
    // Only the owner of the keys can decrypt numbers that were encrypted under them.
    let numbers = [0.5, -1.0].map(Complex::from);
    let list = made.encrypt(&numbers, 1).expect("a ciphertext");
    let got = loaded.decrypt_exact(&list).expect("numbers");
    assert!(got.iter().zip(&numbers).all(|(got, number)| (*got - *number).magnitude() < 1e-9));
    let public = made.public_key().expect("a public key");
    assert_ne!(public, made.public_key().expect("a public key"), "no two public keys are alike");
    let public = CkksPublicKey::read(&public).expect("a public key");
    assert_eq!((public.key_id(), public.set()), (made.key_id(), set));
    let list_of_others = public.encrypt(&numbers, 1).expect("a ciphertext");
    let got = loaded.decrypt_exact(&list_of_others).expect("numbers");
    assert!(got.iter().zip(&numbers).all(|(got, number)| (*got - *number).magnitude() < 1e-8));
    assert!(CkksPublicKey::read(&list.envelope).is_err(), "a ciphertext is not a public key");
    let any = AnyKeys::load(&path, Some("tree")).expect("keys");
    assert_eq!((any.key_id(), any.parts().len()), (made.key_id(), made.parts().len()));
    assert!(matches!(Keys::load(&path, Some("tree")), Err(ClientError::KeyFile(KeyFileError::NotAKey { .. }))));

    let other = directory.path().join("other");
    let wish = CkksWish { level: Some(0), ..CkksWish::default() };
    let stranger = CkksKeys::generate_in(other.clone(), set, wish, None, Progress::none()).await.expect("keys");
    assert!(matches!(stranger.decrypt(&list), Err(ClientError::CkksFormat(CkksFormatError::Envelope(_)))));
    let part = format!("{SET}.products");
    std::fs::copy(other.join(&part), path.join(&part)).expect("a file");
    assert!(CkksKeys::load(&path, Some("tree")).is_err(), "a part of another key");
    std::fs::remove_file(path.join(CLIENT_KEY_FILE)).expect("a file");
    assert!(matches!(AnyKeys::load(&path, None), Err(ClientError::Io { .. })));
}

/// Each header below is well-formed, and its digest fits. A smaller scale would make the digits of
/// the error appear.
#[tokio::test]
async fn numbers_whose_header_lies_are_not_decrypted() {
    let directory = tempfile::tempdir().expect("a directory");
    let [set, other_set] = [SET, "TOY_CKKS_45_60_50"].map(|name| ckks_set_by_name(name).expect("a toy"));
    let keys = small_keys(directory.path()).await;
    let list = keys.encrypt(&[0.5, -1.0].map(Complex::from), 1).expect("a ciphertext");
    let Shape::Vector(shape) = list.shape else { panic!("a vector") };
    let ring = Ring::new(set);
    let lie = |scale: f64| {
        let honest = decode::<SeededCiphertext>(&list.envelope[..], &ring, None).expect("a ciphertext").object;
        let mut envelope = Vec::new();
        encode(&SeededCiphertext { scale, ..honest }, &ring, keys.key_id(), &mut envelope).expect("an envelope");
        Encrypted { envelope: envelope.into(), shape: list.shape.clone() }
    };
    let refused = |list: &Encrypted, what: &str| {
        for error in [keys.decrypt(list).expect_err("refused"), list.check_header().expect_err("refused")] {
            assert!(
                matches!(&error, ClientError::UnexpectedList { difference } if difference.contains(what)),
                "{error}"
            );
        }
    };
    for factor in [0.5, 2.0, 1.0 / 1024.0, 1.0 + 1e-9] {
        refused(&lie(shape.vector.scale * factor), "scale");
    }
    let expecting = |shape: Shape| Encrypted { shape, ..list.clone() };
    let vector = |vector: Vector| expecting(Shape::Vector(VectorShape { vector, ..shape }));
    refused(&vector(Vector { level: 0, ..shape.vector }), "level");
    refused(&vector(Vector { slots_log2: 2, ..shape.vector }), "numbers");
    refused(&expecting(Shape::Vector(VectorShape { set: other_set, ..shape })), "parameter set");
    // A difference within the rounding of a double changes no number.
    let nearly = lie(shape.vector.scale * (1.0 + 2.0 * f64::EPSILON));
    assert_eq!(keys.decrypt_exact(&nearly), keys.decrypt_exact(&list));
}

#[tokio::test]
async fn numbers_are_rounded_unless_all_digits_are_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = small_keys(directory.path()).await;
    let list = keys.encrypt(&[0.123_456, -2.000_049].map(Complex::from), 1).expect("a ciphertext");
    let real = |numbers: Zeroizing<Vec<Complex>>| numbers.iter().map(|number| number.re).collect::<Vec<_>>();
    assert_eq!(keys.set().result_digits, 3);
    assert_eq!(real(keys.decrypt(&list).expect("numbers")), [0.123, -2.0]);
    assert_eq!(real(keys.decrypt_rounded(&list, 2).expect("numbers")), [0.12, -2.0]);
    // The sign of a rounded zero would be the sign of its error.
    let zeros = keys.encrypt(&[Complex::ZERO; 64], 1).expect("a ciphertext");
    let signs = |numbers: Zeroizing<Vec<Complex>>| {
        numbers.iter().filter(|number| number.re.is_sign_negative() || number.im.is_sign_negative()).count()
    };
    assert!(signs(keys.decrypt_exact(&zeros).expect("numbers")) > 0);
    assert_eq!(signs(keys.decrypt(&zeros).expect("numbers")), 0);
    let exact = real(keys.decrypt_exact(&list).expect("numbers"));
    assert!(exact[0] != 0.123_456 && (exact[0] - 0.123_456).abs() < 1e-9, "{exact:?}");
}

#[tokio::test]
async fn flooded_numbers_have_noise_and_are_checked_like_all_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = small_keys(directory.path()).await;
    let list = keys.encrypt(&[0.25, -2.0].map(Complex::from), 1).expect("a ciphertext");
    let flooding = Flooding::new(1e-12, 100).expect("noise");
    let [exact, flooded] = [keys.decrypt_exact(&list), keys.decrypt_flooded(&list, &flooding)].map(Result::unwrap);
    let noise = flooding.noise(1);
    for (exact, flooded) in exact.iter().zip(&*flooded) {
        let got = (*exact - *flooded).magnitude();
        assert!(0.0 < got && got < 8.0 * noise, "{got}, {noise}");
    }
    assert_ne!(keys.decrypt_flooded(&list, &flooding).expect("numbers"), flooded, "fresh noise for each result");
    let Shape::Vector(shape) = list.shape else { panic!("a vector") };
    let wrong = Vector { scale: shape.vector.scale / 2.0, ..shape.vector };
    let wrong = Encrypted { shape: Shape::Vector(VectorShape { vector: wrong, ..shape }), ..list };
    assert!(matches!(keys.decrypt_flooded(&wrong, &flooding), Err(ClientError::UnexpectedList { .. })));
}

#[tokio::test]
async fn an_interrupted_generation_does_not_block_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let (set, path) = (ckks_set_by_name(SET).expect("a toy"), directory.path().join("keys"));
    let make = |wish| CkksKeys::generate_in(path.clone(), set, wish, None, Progress::none());
    make(wish()).await.expect("keys");
    // Simulates a process that died in the middle of a part, before it wrote the client key.
    std::fs::remove_file(path.join(CLIENT_KEY_FILE)).expect("a file");
    std::fs::write(path.join(format!("{SET}.move-5.unfinished")), "half").expect("a file");
    std::fs::write(path.join("notes.txt"), "mine").expect("a file");
    let made = make(CkksWish { level: Some(0), ..CkksWish::default() }).await.expect("keys");
    let loaded = CkksKeys::load(&path, None).expect("no part of the other key");
    assert_eq!((loaded.key_id(), loaded.parts().len()), (made.key_id(), 1));
    let left = std::fs::read_dir(&path).expect("a directory").count();
    assert_eq!(left, 3, "the client key, a part, and a foreign file");
}

#[tokio::test]
async fn impossible_wishes_are_refused_before_generation() {
    let directory = tempfile::tempdir().expect("a directory");
    let (set, path) = (ckks_set_by_name(SET).expect("a toy"), directory.path().join("keys"));
    let bootstrap = |slots, stages| CkksWish {
        bootstraps: vec![CkksBootstrap { slots, stages, size: KeySize::Large, kind: BootstrapKind::Lossy }],
        ..CkksWish::default()
    };
    let refused = |wish| CkksKeys::generate_in(path.clone(), set, wish, None, Progress::none());
    for (wish, expected) in [
        (bootstrap(3, 1), CkksError::WrongSlots { got: 3, max: 512 }),
        (bootstrap(1024, 1), CkksError::WrongSlots { got: 1024, max: 512 }),
        (bootstrap(4, 3), CkksError::NoSuchBootstrap(NoSuchBootstrap::Stages { stages: 3, slots: 4, stages_max: 2 })),
        (
            CkksWish { level: Some(27), ..CkksWish::default() },
            CkksError::LevelTooHigh { what: "computing on numbers under this set", got: 27, max: 26 },
        ),
    ] {
        assert_eq!(refused(wish).await.expect_err("no such keys"), ClientError::Secret(SecretError::Ckks(expected)));
    }
    assert!(!path.exists());
    assert!(ckks_set_by_name("TOY_MESSAGE_2_CARRY_2").is_err() && set_by_name(SET).is_err());
}
