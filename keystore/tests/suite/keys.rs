//! Key manifests.

use bytes::Bytes;
use cloakwork_keystore::{Digest, Error, KeyState, Keystore, Pin};
use cloakwork_params::{
    AnySet, KeyId, ObjectKind,
    ckks::layout::{KeyShape, Purpose},
};

use crate::{
    home::{Home, Kind, other_tenant, tenant},
    objects::{KEY, bootstrap_key, ckks_part, key_switch_key, list, object, set, toy},
};

async fn upload_all(home: &Home, keystore: &Keystore, blobs: &[Bytes]) -> Vec<Digest> {
    let mut digests = Vec::new();
    for bytes in blobs {
        digests.push(home.upload(keystore, bytes).await.expect("well formed").digest);
    }
    digests
}

#[tokio::test]
async fn a_key_grows_part_by_part() {
    let home = Home::local();
    let keystore = home.open().await;
    let (one, two) = (toy(), set("TOY_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2"));
    let blobs = [
        object(ObjectKind::SeededDecompressionKey, one, KEY, 0, 1),
        bootstrap_key(one, KEY, 1),
        key_switch_key(one, KEY, 1),
        object(ObjectKind::SeededPackingKey, one, KEY, 0, 1),
        bootstrap_key(two, KEY, 1),
    ];
    let digests = upload_all(&home, &keystore, &blobs).await;
    let request = home.request();
    let key = keystore.register_key(&tenant(), &request, &digests[..2]).await.expect("parts");
    assert_eq!((key.key_id, key.state, key.parts.len()), (KEY, KeyState::Active, 2));
    assert!(key.complete_sets().is_empty());
    assert_eq!(key.parts_for(one), Err(Error::KeyIncomplete { key_id: KEY, set: one.name }));
    // The request is repeated, and its id is then used for another request.
    assert_eq!(keystore.register_key(&tenant(), &request, &digests[..2]).await.expect("parts"), key);
    let reused = keystore.register_key(&tenant(), &request, &digests[..3]).await;
    assert_eq!(reused, Err(Error::RequestIdReused));
    let key = keystore.add_parts(&tenant(), &home.request(), KEY, &digests[2..]).await.expect("parts");
    assert_eq!(key.complete_sets(), [AnySet::Tfhe(one)]);
    let order: Vec<_> = key.parts.iter().filter(|part| part.set.id() == one.id).map(|part| part.digest).collect();
    assert_eq!(order, [digests[2], digests[1], digests[3], digests[0]]);
    assert_eq!(keystore.active_key(&tenant(), KEY).await.as_ref(), Ok(&key));
    assert_eq!(key.parts_for(one), Ok(vec![digests[2], digests[1]]), "what bootstraps need");
    assert_eq!(keystore.delete(&tenant(), &digests[1]).await.expect_err("a part").kind(), "BlobInUse");
    // Registering the parts of an existing key returns that key.
    let again = keystore.register_key(&tenant(), &home.request(), &digests).await.expect("parts");
    assert_eq!(again, key);
    assert_eq!(home.open().await.key(&tenant(), KEY).await.expect("durable"), key);
    assert_eq!(keystore.key(&other_tenant(), KEY).await, Err(Error::KeyNotFound { key_id: KEY }));
}

#[tokio::test]
async fn a_key_may_have_the_parts_of_a_companion() {
    let home = Home::local();
    let keystore = home.open().await;
    let (one, companion) = (set("TOY_MESSAGE_2_CARRY_2_N2048"), set("TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_N2048"));
    let blobs = [one, companion].map(|set| [key_switch_key(set, KEY, 1), bootstrap_key(set, KEY, 1)]).concat();
    let digests = upload_all(&home, &keystore, &blobs).await;
    let key = keystore.register_key(&tenant(), &home.request(), &digests[..3]).await.expect("parts");
    assert_eq!(key.companion_parts_for(one), [], "one of two parts is not enough");
    // A part made under another client's key.
    let strange = upload_all(&home, &keystore, &[bootstrap_key(companion, KeyId([8; 16]), 1)]).await;
    let refused = keystore.add_parts(&tenant(), &home.request(), KEY, &strange).await.expect_err("another key");
    assert_eq!(refused.kind(), "KeyPartsDiffer");
    let key = keystore.add_parts(&tenant(), &home.request(), KEY, &digests[3..]).await.expect("parts");
    assert_eq!(key.companion_parts_for(one), digests[2..]);
    assert_eq!((key.parts_for(one), key.companion_parts_for(companion)), (Ok(digests[..2].to_vec()), vec![]));
    assert_eq!(key.companion_parts_for(toy()), []);
}

#[tokio::test]
async fn parts_of_a_ckks_key_are_distinguished_by_purpose() {
    let home = Home::local();
    let keystore = home.open().await;
    let rotation = Purpose::Move { power: 5 };
    let blobs = [
        ckks_part(Purpose::ToDense, 1, 1),
        ckks_part(Purpose::Move { power: 2047 }, 0, 1),
        ckks_part(rotation, 1, 1),
        ckks_part(Purpose::Relinearization, 2, 1),
        ckks_part(Purpose::ToSparse, 0, 1),
        key_switch_key(toy(), KEY, 1),
        ckks_part(rotation, 0, 1),
    ];
    let digests = upload_all(&home, &keystore, &blobs).await;
    let key = keystore.register_key(&tenant(), &home.request(), &digests[..6]).await.expect("parts");
    let shapes: Vec<_> = key.parts.iter().filter_map(|part| part.shape).collect();
    let expected = [(Purpose::Relinearization, 2), (rotation, 1), (Purpose::Move { power: 2047 }, 0)];
    let expected = expected.into_iter().chain([(Purpose::ToSparse, 0), (Purpose::ToDense, 1)]);
    assert_eq!(shapes, expected.map(|(purpose, level)| KeyShape { purpose, level }).collect::<Vec<_>>());
    let [AnySet::Ckks(set)] = key.complete_sets()[..] else { panic!("a key-switch key alone completes no set") };
    let parts = key.vector_parts(set);
    assert_eq!(parts.iter().map(|(shape, _)| *shape).collect::<Vec<_>>(), shapes);
    assert!(parts.contains(&(KeyShape { purpose: Purpose::ToDense, level: 1 }, digests[0])));
    // Two parts for one purpose are refused even at different levels, because the choice would be
    // ambiguous.
    let double = keystore.add_parts(&tenant(), &home.request(), KEY, &digests[6..]).await.expect_err("two of them");
    assert!(double.kind() == "KeyPartsDiffer" && double.to_string().contains("X to X^5"), "{double}");
    assert_eq!(home.open().await.key(&tenant(), KEY).await.expect("durable"), key);
}

#[tokio::test]
async fn parts_that_do_not_fit_are_refused_and_change_nothing() {
    let mut home = Home::local();
    home.limits.parts_per_key = 2;
    home.limits.keys_per_tenant = 1;
    let keystore = home.open().await;
    let stranger = KeyId([8; 16]);
    let blobs = [
        bootstrap_key(toy(), KEY, 1),
        bootstrap_key(toy(), KEY, 2),
        key_switch_key(toy(), stranger, 1),
        list(3, 1),
        key_switch_key(toy(), KEY, 1),
        object(ObjectKind::SeededPackingKey, toy(), KEY, 0, 1),
    ];
    let digests = upload_all(&home, &keystore, &blobs).await;
    for (parts, reason) in [
        (vec![], "KeyPartsDiffer"),
        (vec![digests[0], digests[1]], "KeyPartsDiffer"),
        (vec![digests[0], digests[2]], "KeyPartsDiffer"),
        (vec![digests[3]], "KeyPartsDiffer"),
        (vec![digests[0], Digest::of(b"nowhere")], "BlobNotFound"),
        (vec![digests[0], digests[4], digests[5]], "QuotaExceeded"),
    ] {
        let error = keystore.register_key(&tenant(), &home.request(), &parts).await.expect_err(reason);
        assert_eq!(error.kind(), reason, "{error}");
    }
    assert_eq!(keystore.key(&tenant(), KEY).await, Err(Error::KeyNotFound { key_id: KEY }));
    let unknown = keystore.add_parts(&tenant(), &home.request(), KEY, &digests[..1]).await;
    assert_eq!(unknown, Err(Error::KeyNotFound { key_id: KEY }));
    let stolen = keystore.register_key(&other_tenant(), &home.request(), &digests[..1]).await;
    assert_eq!(stolen, Err(Error::BlobNotFound { digest: digests[0] }));
    keystore.register_key(&tenant(), &home.request(), &digests[..1]).await.expect("one part");
    let second = keystore.register_key(&tenant(), &home.request(), &digests[2..3]).await;
    assert_eq!(second.expect_err("one key too many").kind(), "QuotaExceeded");
}

#[tokio::test]
async fn a_deleted_key_is_purged_after_its_last_job() {
    let home = Home::local();
    let keystore = home.open().await;
    let blobs = [bootstrap_key(toy(), KEY, 1), key_switch_key(toy(), KEY, 1)];
    let digests = upload_all(&home, &keystore, &blobs).await;
    keystore.register_key(&tenant(), &home.request(), &digests).await.expect("parts");
    let job = Pin { holder: [1; 16], until_micros: None };
    keystore.pin(&tenant(), &digests, &job).await.expect("there");
    assert_eq!(keystore.purge_key(&tenant(), KEY).await, Err(Error::KeyInUse { key_id: KEY }), "not deleted");
    assert_eq!(keystore.delete_key(&tenant(), KEY).await.expect("there").state, KeyState::Deleting);
    assert_eq!(keystore.active_key(&tenant(), KEY).await, Err(Error::KeyDeleting { key_id: KEY }));
    let refused = keystore.register_key(&tenant(), &home.request(), &digests).await;
    assert_eq!(refused, Err(Error::KeyDeleting { key_id: KEY }));
    assert_eq!(keystore.purge_key(&tenant(), KEY).await, Err(Error::KeyInUse { key_id: KEY }), "pinned");
    keystore.unpin(&job.holder).await.expect("released");
    keystore.purge_key(&tenant(), KEY).await.expect("free");
    assert_eq!(keystore.key(&tenant(), KEY).await, Err(Error::KeyNotFound { key_id: KEY }));
    assert_eq!(keystore.find_missing(&tenant(), &digests).await.expect("asked"), digests);
    assert!(home.blob_files().is_empty());
}

#[tokio::test]
async fn keys_are_listed_page_by_page() {
    let mut home = Home::local();
    home.limits.page_entries = 2;
    let keystore = home.open().await;
    for name in 1..=5 {
        let digests = upload_all(&home, &keystore, &[key_switch_key(toy(), KeyId([name; 16]), 1)]).await;
        keystore.register_key(&tenant(), &home.request(), &digests).await.expect("parts");
    }
    let (mut names, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        // The requested page is larger than the limit.
        let page = keystore.list_keys(&tenant(), after, 1000).await.expect("listed");
        assert!(page.keys.len() <= 2);
        names.extend(page.keys.iter().map(|key| key.key_id.0[0]));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((names, pages), (vec![1, 2, 3, 4, 5], 3));
    assert!(keystore.list_keys(&other_tenant(), None, 0).await.expect("listed").keys.is_empty());
}
