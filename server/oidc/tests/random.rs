//! Random texts and changed tokens are never accepted and cause no panic.

use std::sync::LazyLock;

use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    issuer::Trial,
    keys::{Signer, encode},
};

/// A verifier that knows the keys, and a good token of each key.
struct Warm {
    runtime: Runtime,
    trial: Trial,
    tokens: Vec<String>,
}

static WARM: LazyLock<Warm> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let signers = [Signer::rsa("rsa"), Signer::p256("b"), Signer::ed25519("c")];
    let trial = runtime.block_on(Trial::new(&signers.each_ref()));
    let mut tokens: Vec<String> = signers.iter().map(|signer| trial.token(signer)).collect();
    tokens.push(signers[2].token_of(&json!({"alg": "EdDSA"}), &trial.issuer.claims()));
    for token in &tokens {
        runtime.block_on(trial.verify(token)).expect("a good token");
    }
    Warm { runtime, trial, tokens }
});

fn is_accepted(token: &str) -> bool {
    WARM.runtime.block_on(WARM.trial.verify(token)).is_ok()
}

/// A change of a text at a place.
#[derive(Clone, Debug)]
enum Change {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Cut(Index),
    Repeat(Index, Index),
    Swap(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let letter = prop_oneof![
        proptest::sample::select(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=".to_vec()),
        0..128_u8,
    ];
    let place = any::<Index>;
    prop_oneof![
        (place(), letter.clone()).prop_map(|(place, letter)| Change::Replace(place, letter)),
        (place(), letter).prop_map(|(place, letter)| Change::Insert(place, letter)),
        place().prop_map(Change::Remove),
        place().prop_map(Change::Cut),
        (place(), place()).prop_map(|(start, end)| Change::Repeat(start, end)),
        (place(), place()).prop_map(|(one, other)| Change::Swap(one, other)),
    ]
}

fn apply(text: &mut Vec<u8>, change: &Change) {
    if text.is_empty() {
        return;
    }
    let length = text.len();
    match change {
        Change::Replace(place, letter) => text[place.index(length)] = *letter,
        Change::Insert(place, letter) => text.insert(place.index(length), *letter),
        Change::Remove(place) => _ = text.remove(place.index(length)),
        Change::Cut(place) => text.truncate(place.index(length)),
        Change::Repeat(start, end) => {
            let (start, end) = (start.index(length), end.index(length));
            let piece = text[start.min(end)..start.max(end)].to_vec();
            text.splice(end..end, piece);
        }
        Change::Swap(one, other) => text.swap(one.index(length), other.index(length)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_texts_are_refused(text in ".{0,300}") {
        prop_assert!(!is_accepted(&text));
    }

    #[test]
    fn random_parts_are_refused(header in vec(any::<u8>(), 0..80), claims in vec(any::<u8>(), 0..80), signature in vec(any::<u8>(), 0..80)) {
        let token = format!("{}.{}.{}", encode(&header), encode(&claims), encode(&signature));
        prop_assert!(!is_accepted(&token));
    }

    #[test]
    fn random_signatures_are_refused(which in any::<Index>(), signature in vec(any::<u8>(), 64)) {
        let token = &WARM.tokens[which.index(WARM.tokens.len())];
        let (signed, _) = token.rsplit_once('.').expect("three parts");
        let forged = format!("{signed}.{}", encode(&signature));
        prop_assert!(!is_accepted(&forged));
    }

    #[test]
    fn changed_tokens_are_refused(which in any::<Index>(), changes in vec(change(), 1..4)) {
        let token = &WARM.tokens[which.index(WARM.tokens.len())];
        let mut text = token.clone().into_bytes();
        changes.iter().for_each(|change| apply(&mut text, change));
        let text = String::from_utf8(text).expect("letters of ASCII");
        prop_assert_eq!(is_accepted(&text), &text == token);
    }

    #[test]
    fn mixed_tokens_are_refused(which in [any::<Index>(), any::<Index>(), any::<Index>()]) {
        let tokens = which.map(|which| WARM.tokens[which.index(WARM.tokens.len())].split('.').collect::<Vec<_>>());
        let mixed = format!("{}.{}.{}", tokens[0][0], tokens[1][1], tokens[2][2]);
        prop_assert_eq!(is_accepted(&mixed), WARM.tokens.contains(&mixed));
    }

    /// Claims of any form under a right signature cause no panic.
    #[test]
    fn random_claims_cause_no_panic(name in proptest::sample::select(vec!["iss", "aud", "exp", "nbf", "iat", "sub", "cloakwork_tenant", "cloakwork_scopes"]), value in claim()) {
        let signer = &*SIGNER;
        let mut claims = SIGNED.issuer.claims();
        claims[name] = value;
        let _ = WARM.runtime.block_on(SIGNED.verify(&signer.token(&claims)));
    }
}

static SIGNER: LazyLock<Signer> = LazyLock::new(|| Signer::ed25519("a"));
static SIGNED: LazyLock<Trial> = LazyLock::new(|| WARM.runtime.block_on(Trial::new(&[&SIGNER])));

fn claim() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<u64>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        ".{0,20}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|values| json!(values)),
            proptest::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|values| json!(values)),
        ]
    })
}
