//! When keys are fetched, how often, and which answers are refused.

use std::{sync::Arc, time::Duration};

use cloakwork_oidc::{Failure, Issuer, Options, Refusal};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    issuer::{AUDIENCE, Manner, Trial, until},
    keys::{NOW, Signer},
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// A trial whose verifier has fetched the key.
async fn warm(signer: &Signer) -> Trial {
    let trial = Trial::new(&[signer]).await;
    trial.login(signer).await.expect("a good token");
    trial
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_calls_at_the_start_cause_one_fetch() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    assert_eq!((trial.verifier.keys_age(), trial.verifier.failure()), (None, None));
    trial.issuer.behave(Manner::Held);
    let token = trial.token(&signer);
    let calls: Vec<_> = (0..1000)
        .map(|_| {
            let (verifier, token) = (Arc::clone(&trial.verifier), token.clone());
            tokio::spawn(async move { verifier.verify(&token).await })
        })
        .collect();
    trial.issuer.release(2);
    for call in calls {
        call.await.expect("no panic").expect("a good token");
    }
    assert_eq!((trial.issuer.descriptions(), trial.issuer.key_sets()), (1, 1));
    assert_eq!(trial.verifier.keys_age(), Some(Duration::ZERO));
}

#[tokio::test]
async fn tokens_without_a_usable_header_cause_no_fetch() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    let none = signer.token_of(&json!({"alg": "none"}), &trial.issuer.claims());
    for wrong in ["", "a.b.c", &none, &"a".repeat(9000)] {
        trial.verify(wrong).await.expect_err("no token");
    }
    assert_eq!(trial.issuer.descriptions(), 0);
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_end_the_fetch() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    trial.issuer.behave(Manner::Held);
    let token = trial.token(&signer);
    for _ in 0..3 {
        assert!(trial.verify(&token).now_or_never().is_none(), "the call waits");
    }
    trial.issuer.release(2);
    trial.fetched(1).await;
    trial.verify(&token).await.expect("a good token");
    assert_eq!(trial.issuer.key_sets(), 1);
}

#[tokio::test]
async fn a_token_of_a_new_key_causes_a_fetch() {
    let (old, new) = (Signer::ed25519("old"), Signer::p256("new"));
    let trial = warm(&old).await;
    trial.issuer.publish(&[&old, &new]);
    assert_eq!(trial.login(&new).await, Err(Refusal::UnknownKey), "a fetch was a moment ago");
    trial.advance_seconds(30);
    trial.login(&new).await.expect("a token of the new key");
    trial.login(&old).await.expect("a token of the old key");
    assert_eq!(trial.issuer.key_sets(), 2);
    trial.issuer.publish(&[&new]);
    trial.advance_seconds(15 * MINUTE);
    trial.login(&new).await.expect("a token of the new key");
    trial.fetched(3).await;
    assert_eq!(trial.login(&old).await, Err(Refusal::UnknownKey), "the old key was withdrawn");
    assert_eq!(trial.issuer.key_sets(), 3);
}

#[tokio::test]
async fn a_flood_of_unknown_keys_causes_one_fetch_in_thirty_seconds() {
    let signer = Signer::ed25519("a");
    for manner in [Manner::Good, Manner::Status(503)] {
        let trial = warm(&signer).await;
        trial.issuer.behave(manner.clone());
        for second in 1..=600 {
            trial.advance_seconds(1);
            for number in 0..5 {
                let header = json!({"alg": "EdDSA", "kid": format!("{second}-{number}")});
                let token = signer.token_of(&header, &trial.issuer.claims());
                assert_eq!(trial.verify(&token).await, Err(Refusal::UnknownKey));
            }
            assert_eq!(trial.issuer.descriptions() as u64, 1 + second / 30, "{manner:?} after {second} s");
            trial.login(&signer).await.expect("a good token");
        }
    }
}

#[tokio::test]
async fn unknown_keys_at_one_time_share_one_fetch() {
    let signer = Signer::ed25519("a");
    let trial = warm(&signer).await;
    trial.advance_seconds(30);
    trial.issuer.behave(Manner::Held);
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let token = signer.token_of(&json!({"alg": "EdDSA", "kid": number.to_string()}), &trial.issuer.claims());
            let verifier = Arc::clone(&trial.verifier);
            tokio::spawn(async move { verifier.verify(&token).await })
        })
        .collect();
    // Calls with a known key do not wait.
    trial.login(&signer).await.expect("a good token");
    trial.issuer.release(2);
    for call in calls {
        assert_eq!(call.await.expect("no panic"), Err(Refusal::UnknownKey));
    }
    assert_eq!(trial.issuer.key_sets(), 2);
}

#[tokio::test]
async fn a_running_fetch_is_shared_when_the_next_one_is_due() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    let header = json!({"alg": "EdDSA", "kid": "unknown"});
    let unknown = signer.token_of(&header, &trial.issuer.claims());
    trial.issuer.behave(Manner::Held);
    for (fetches, token) in [(1, &trial.token(&signer)), (2, &unknown)] {
        trial.advance_seconds(60);
        let mut calls = Vec::new();
        for _ in 0..2 {
            let mut call = Box::pin(trial.verify(token));
            assert!((&mut call).now_or_never().is_none(), "the call waits");
            calls.push(call);
            trial.advance_seconds(40);
        }
        trial.issuer.release(4);
        for call in calls {
            let expected = if fetches == 1 { None } else { Some(Refusal::UnknownKey) };
            assert_eq!(call.await.err(), expected);
        }
        assert_eq!((trial.issuer.descriptions(), trial.issuer.key_sets()), (fetches, fetches));
    }
}

#[tokio::test]
async fn old_keys_are_fetched_again_in_the_background() {
    let signer = Signer::ed25519("a");
    let trial = warm(&signer).await;
    trial.advance_seconds(15 * MINUTE - 1);
    trial.login(&signer).await.expect("a good token");
    assert_eq!(trial.verifier.keys_age(), Some(Duration::from_secs(15 * MINUTE - 1)));
    trial.issuer.behave(Manner::Held);
    trial.advance_seconds(1);
    for _ in 0..10 {
        trial.login(&signer).await.expect("a good token, while the issuer holds the fetch");
    }
    assert_eq!(trial.issuer.key_sets(), 1);
    trial.issuer.release(2);
    trial.fetched(2).await;
    trial.login(&signer).await.expect("a good token");
    assert_eq!(trial.issuer.key_sets(), 2);
}

#[tokio::test]
async fn after_an_idle_time_calls_wait_for_new_keys() {
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let trial = warm(&old).await;
    trial.issuer.publish(&[&new]);
    trial.advance_seconds(30 * MINUTE + 1);
    assert_eq!(trial.login(&old).await, Err(Refusal::UnknownKey), "a key that was withdrawn");
    trial.login(&new).await.expect("a token of the new key");
    assert_eq!(trial.issuer.key_sets(), 2);
    trial.issuer.behave(Manner::Status(500));
    trial.advance_seconds(2 * HOUR);
    trial.login(&new).await.expect("a good token, while the issuer is away");
    assert_eq!(trial.verifier.failure(), Some(Failure::Status(500)));
}

#[tokio::test]
async fn keys_outlive_their_issuer_by_a_day() {
    let signer = Signer::ed25519("a");
    let trial = warm(&signer).await;
    trial.issuer.behave(Manner::Status(503));
    for _ in 0..24 * 6 {
        trial.advance_seconds(10 * MINUTE);
        trial.login(&signer).await.expect("a good token");
    }
    assert_eq!(trial.verifier.keys_age(), Some(Duration::from_secs(24 * HOUR)));
    // The last fetch may still run, and the next one has to wait for its pause.
    until(|| trial.verifier.failure() == Some(Failure::Status(503))).await;
    trial.advance_seconds(1);
    let refusal = trial.login(&signer).await.expect_err("old keys");
    assert!(refusal == Refusal::IssuerAway && refusal.is_temporary(), "{refusal}");
    trial.issuer.behave(Manner::Good);
    trial.advance_seconds(30);
    trial.login(&signer).await.expect("a good token");
    assert_eq!(trial.verifier.failure(), None);
}

#[tokio::test]
async fn failed_fetches_are_repeated_with_growing_pauses() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    trial.issuer.behave(Manner::Status(500));
    for _ in 0..100 {
        assert_eq!(trial.login(&signer).await, Err(Refusal::IssuerAway));
    }
    assert_eq!(trial.issuer.descriptions(), 1);
    trial.advance_seconds(1);
    assert_eq!(trial.login(&signer).await, Err(Refusal::IssuerAway));
    assert_eq!(trial.issuer.descriptions(), 2, "the first pause is at most a second");
    for _ in 0..600 {
        trial.advance_seconds(1);
        assert_eq!(trial.login(&signer).await, Err(Refusal::IssuerAway));
    }
    // Pauses of 30 seconds at most, and of 15 at least once they have grown.
    let fetches = trial.issuer.descriptions();
    assert!((20..=48).contains(&fetches), "{fetches} fetches in ten minutes");
    trial.issuer.behave(Manner::Good);
    trial.advance_seconds(30);
    trial.login(&signer).await.expect("a good token");
    // After a success, pauses are short again.
    trial.issuer.behave(Manner::Status(500));
    trial.advance_seconds(HOUR);
    trial.login(&signer).await.expect("a good token");
    trial.advance_seconds(1);
    trial.login(&signer).await.expect("a good token");
    until(|| trial.issuer.descriptions() == fetches + 3).await;
}

#[tokio::test]
async fn an_issuer_without_a_server_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let signer = Signer::ed25519("a");
    let clock = cloakwork_clock::ManualClock::at(NOW * 1_000_000);
    let verifier = Issuer::new(Options::new(&url, AUDIENCE), clock.clock()).expect("an issuer");
    assert_eq!(format!("{verifier:?}"), format!("Issuer {{ issuer: {url:?}, .. }}"));
    let token = signer.token(&crate::issuer::claims_of(&url));
    assert_eq!(verifier.verify(&token).await, Err(Refusal::IssuerAway));
    assert!(matches!(verifier.failure(), Some(Failure::Connection(_))), "{:?}", verifier.failure());
}

#[tokio::test]
async fn a_silent_issuer_is_away_after_five_seconds() {
    let signer = Signer::ed25519("a");
    for manner in [Manner::Silent, Manner::Stuck] {
        let trial = warm(&signer).await;
        trial.issuer.behave(manner.clone());
        let other = trial.other_verifier();
        // Time of the runtime passes at once when nothing else happens.
        tokio::time::pause();
        let begin = tokio::time::Instant::now();
        assert_eq!(other.verify(&trial.token(&signer)).await, Err(Refusal::IssuerAway), "{manner:?}");
        assert_eq!(other.failure(), Some(Failure::TimedOut));
        // After an idle time, calls wait, and then use the old keys.
        trial.advance_seconds(HOUR);
        trial.login(&signer).await.expect("a good token");
        assert_eq!(trial.verifier.failure(), Some(Failure::TimedOut));
        let time = begin.elapsed();
        assert!((Duration::from_secs(10)..Duration::from_secs(11)).contains(&time), "{time:?}");
        tokio::time::resume();
    }
}

/// The failure of a first fetch, if the issuer answers in this manner.
async fn failure_of(manner: Manner) -> Option<Failure> {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    trial.issuer.behave(manner);
    match trial.login(&signer).await {
        Ok(_) => None,
        Err(refusal) => {
            assert_eq!(refusal, Refusal::IssuerAway);
            Some(trial.verifier.failure().expect("a failure"))
        }
    }
}

#[tokio::test]
async fn answers_have_limits() {
    assert_eq!(failure_of(Manner::Large(256 << 10)).await, None);
    assert_eq!(failure_of(Manner::Large((256 << 10) + 1)).await, Some(Failure::TooLarge));
    assert_eq!(failure_of(Manner::Large(64 << 20)).await, Some(Failure::TooLarge));
    assert_eq!(failure_of(Manner::Description("[".repeat(300 << 10))).await, Some(Failure::TooLarge));
    assert_eq!(failure_of(Manner::Description("[".repeat(200 << 10))).await, Some(Failure::Description));
    let keys = |count: usize| json!({"keys": vec![Signer::ed25519("b").jwk(); count]}).to_string();
    assert_eq!(failure_of(Manner::Keys(keys(65))).await, Some(Failure::TooManyKeys));
}

#[tokio::test]
async fn only_a_plain_answer_counts() {
    for status in [201, 204, 401, 404, 500, 503] {
        assert_eq!(failure_of(Manner::Status(status)).await, Some(Failure::Status(status)));
    }
    assert_eq!(failure_of(Manner::Status(302)).await, Some(Failure::Redirected));
    for text in ["", "null", "{}", "<html>", "[]", r#"{"keys": 1}"#] {
        assert_eq!(failure_of(Manner::Keys(text.to_owned())).await, Some(Failure::Keys), "{text}");
    }
}

#[tokio::test]
async fn redirections_are_not_followed() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    trial.issuer.behave(Manner::Redirects);
    assert_eq!(trial.login(&signer).await, Err(Refusal::IssuerAway));
    assert_eq!(trial.verifier.failure(), Some(Failure::Redirected));
    assert_eq!((trial.issuer.descriptions(), trial.issuer.key_sets()), (1, 0));
}

#[tokio::test]
async fn a_description_must_be_that_of_the_issuer() {
    let signer = Signer::ed25519("a");
    let described = async |change: fn(&mut serde_json::Value)| {
        let trial = Trial::new(&[&signer]).await;
        let url = &trial.issuer.url;
        let mut description = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        change(&mut description);
        trial.issuer.behave(Manner::Description(description.to_string()));
        assert_eq!(trial.login(&signer).await, Err(Refusal::IssuerAway), "{description}");
        assert_eq!((trial.issuer.key_sets(), trial.issuer.others()), (0, 0));
        trial.verifier.failure()
    };
    let other = Some(Failure::OtherIssuer);
    assert_eq!(described(|it| it["issuer"] = json!("https://login.example.org")).await, other);
    assert_eq!(
        described(|it| it["issuer"] = json!(format!("{}/", it["issuer"].as_str().expect("a URL")))).await,
        other
    );
    assert_eq!(described(|it| it["issuer"] = json!("")).await, other);
    let malformed = Some(Failure::Description);
    assert_eq!(described(|it| it["issuer"] = json!(1)).await, malformed);
    assert_eq!(described(|it| *it = json!({"issuer": it["issuer"]})).await, malformed);
    assert_eq!(described(|it| *it = json!([])).await, malformed);
    let address = Some(Failure::KeysAddress);
    for wrong in ["http://login.example.org/keys", "file:///etc/passwd", "ftp://127.0.0.1", "/keys", ""] {
        let trial = Trial::new(&[&signer]).await;
        let description = json!({"issuer": trial.issuer.url, "jwks_uri": wrong}).to_string();
        trial.issuer.behave(Manner::Description(description));
        assert_eq!(trial.login(&signer).await, Err(Refusal::IssuerAway), "{wrong}");
        assert_eq!(trial.verifier.failure(), address, "{wrong}");
    }
}

#[tokio::test]
async fn an_address_of_the_keys_needs_no_description() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    let options = Options {
        jwks_url: Some(format!("{}/keys", trial.issuer.url)),
        ..Options::new("https://login.example.org", AUDIENCE)
    };
    let verifier = Issuer::new(options, trial.clock.clock()).expect("an issuer");
    let token = signer.token(&crate::issuer::claims_of("https://login.example.org"));
    verifier.verify(&token).await.expect("a good token");
    assert_eq!(verifier.verify(&trial.token(&signer)).await, Err(Refusal::Issuer));
    assert_eq!((trial.issuer.descriptions(), trial.issuer.key_sets()), (0, 1));
}

#[tokio::test]
async fn a_bad_answer_leaves_the_keys_and_an_empty_set_withdraws_them() {
    let signer = Signer::ed25519("a");
    let trial = warm(&signer).await;
    trial.issuer.behave(Manner::Keys("{}".to_owned()));
    trial.advance_seconds(HOUR);
    trial.login(&signer).await.expect("a good token");
    assert_eq!(trial.verifier.failure(), Some(Failure::Keys));
    trial.issuer.behave(Manner::Good);
    trial.issuer.publish(&[]);
    trial.advance_seconds(HOUR);
    assert_eq!(trial.login(&signer).await, Err(Refusal::UnknownKey));
    assert_eq!(trial.verifier.failure(), None);
    trial.issuer.publish(&[&signer]);
    trial.advance_seconds(30);
    trial.login(&signer).await.expect("a good token");
}
