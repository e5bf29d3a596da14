//! Tokens of an issuer, signed by a small issuer of the tests.

use std::fmt::Write as _;

use axum::{Json, Router, routing::get};
use cloakwork_oidc::{Issuer, Options};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::{
    super::cache::{ADDRESS_ISSUED_MAX, ISSUED_MAX},
    *,
};
use crate::error::{ISSUER_UNAVAILABLE, OVERLOADED, PERMISSION_DENIED, TOKEN_EXPIRED, UNAUTHENTICATED};

const AUDIENCE: &str = "cloakwork";
const NOW_SECONDS: u64 = 1_700_000_000;

/// An issuer with one key.
struct TestIssuer {
    url: String,
    key: Ed25519KeyPair,
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let _ = write!(text, "{}", DIGITS[(word >> (18 - 6 * digit)) as usize & 63] as char);
        }
    }
    text
}

impl TestIssuer {
    async fn start() -> Self {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "one",
            "x": base64url(key.public_key().as_ref())}]});
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let description = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(async move || Json(description)))
            .route("/keys", get(async move || Json(keys)));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, key }
    }

    fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "kid": "one", "typ": "JWT"});
        let text = format!("{}.{}", base64url(header.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
        format!("{text}.{}", base64url(self.key.sign(text.as_bytes()).as_ref()))
    }

    fn claims(&self, tenant: &str, scopes: &Value) -> Value {
        json!({"iss": self.url, "aud": AUDIENCE, "sub": "alice\u{202e}", "iat": NOW_SECONDS, "exp": NOW_SECONDS + 300,
            "cloakwork_tenant": tenant, "cloakwork_scopes": scopes})
    }

    fn options(&self) -> Options {
        Options::new(self.url.clone(), AUDIENCE)
    }
}

fn authenticator(fixture: &Fixture, options: Options) -> Authenticator {
    let issuer = Issuer::new(options, fixture.time.clock()).unwrap();
    fixture.authenticator(CLOSED, Duration::from_secs(2)).with_issuer(Some(issuer))
}

async fn admit(authenticator: &Authenticator, token: &str, method: &str) -> Result<Principal, ApiError> {
    admit_from(REMOTE, authenticator, token, method).await
}

async fn admit_from(
    peer: Peer,
    authenticator: &Authenticator,
    token: &str,
    method: &str,
) -> Result<Principal, ApiError> {
    let rule = policy::rule(method).unwrap();
    authenticator.admit(peer, &bearing(token), rule).await.map(Option::unwrap)
}

#[tokio::test]
async fn a_token_of_the_issuer_has_the_tenant_and_the_scopes_that_it_names() {
    let (fixture, issuer) = (Fixture::new().await, TestIssuer::start().await);
    let authenticator = authenticator(&fixture, issuer.options());
    let token = issuer.sign(&issuer.claims("acme", &json!("jobs future-scope")));
    let principal = admit(&authenticator, &token, SUBMIT).await.unwrap();
    assert_eq!((principal.tenant.as_str(), principal.scopes), ("acme", [Scope::Jobs].into_iter().collect()));
    assert!(!principal.actor().contains('\u{202e}') && principal.actor().starts_with("acme (user alice"));
    let read = issuer.sign(&issuer.claims("acme", &json!(["read"])));
    let refused = admit(&authenticator, &read, SUBMIT).await.unwrap_err();
    assert_eq!(refused.reason(), PERMISSION_DENIED);
    // Tokens of the installation work beside them.
    let own = fixture.token("jobs", None).await;
    assert!(matches!(admit(&authenticator, own.reveal(), SUBMIT).await.unwrap().credential, Credential::Token(_)));
    for wrong in [issuer.claims("nobody", &json!("jobs")), issuer.claims("_workers", &json!("worker"))] {
        let refused = admit(&authenticator, &issuer.sign(&wrong), SUBMIT).await.unwrap_err();
        assert_eq!(refused.reason(), UNAUTHENTICATED);
    }
    let mut tampered = token.clone();
    tampered.replace_range(token.len() - 8..token.len() - 4, "AAAA");
    assert_eq!(admit(&authenticator, &tampered, SUBMIT).await.unwrap_err().reason(), UNAUTHENTICATED);
    // Without an issuer in the settings, the token is malformed.
    let without = fixture.authenticator(CLOSED, Duration::from_secs(2));
    assert_eq!(admit(&without, &token, SUBMIT).await.unwrap_err().reason(), UNAUTHENTICATED);
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_with_its_tenant() {
    let (fixture, issuer) = (Fixture::new().await, TestIssuer::start().await);
    let authenticator = authenticator(&fixture, issuer.options());
    let token = issuer.sign(&issuer.claims("acme", &json!("jobs")));
    admit(&authenticator, &token, SUBMIT).await.unwrap();
    fixture.time.advance(Duration::from_secs(299));
    admit(&authenticator, &token, SUBMIT).await.unwrap();
    // The cache keeps no token beyond its time.
    fixture.time.advance(Duration::from_secs(1));
    assert_eq!(admit(&authenticator, &token, SUBMIT).await.unwrap_err().reason(), TOKEN_EXPIRED);
    let mut claims = issuer.claims("acme", &json!("jobs"));
    claims["exp"] = json!(NOW_SECONDS + 3000);
    let token = issuer.sign(&claims);
    admit(&authenticator, &token, SUBMIT).await.unwrap();
    fixture.store.revoke_tenant(&fixture.acme).await.unwrap();
    fixture.time.advance(Duration::from_secs(3));
    assert_eq!(admit(&authenticator, &token, SUBMIT).await.unwrap_err().reason(), TOKEN_EXPIRED);
}

#[tokio::test]
async fn an_issuer_that_is_away_is_no_fault_of_the_caller() {
    let (fixture, issuer) = (Fixture::new().await, TestIssuer::start().await);
    let options = Options { jwks_url: Some("http://127.0.0.1:1/keys".to_owned()), ..issuer.options() };
    let token = issuer.sign(&issuer.claims("acme", &json!("jobs")));
    let refused = admit(&authenticator(&fixture, options), &token, SUBMIT).await.unwrap_err();
    assert_eq!(refused.reason(), ISSUER_UNAVAILABLE);
    assert!(refused.retry_delay().is_some());
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_holds_back_only_its_own_tokens() {
    let (fixture, issuer) = (Fixture::new().await, TestIssuer::start().await);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", silent.local_addr().unwrap());
    let authenticator = Arc::new(authenticator(&fixture, Options { jwks_url: Some(url), ..issuer.options() }));
    let from = |host: u64| network([192, 0, 2, u8::try_from(host).unwrap()], false);
    let one_more = issuer.sign(&issuer.claims("acme", &json!("jobs")));
    let mut waiting = Vec::new();
    for host in 0..ISSUED_MAX / ADDRESS_ISSUED_MAX {
        for number in 0..ADDRESS_ISSUED_MAX {
            let mut claims = issuer.claims("acme", &json!("jobs"));
            claims["jti"] = json!([host, number]);
            let (authenticator, token) = (authenticator.clone(), issuer.sign(&claims));
            waiting.push(tokio::spawn(async move { admit_from(from(host), &authenticator, &token, SUBMIT).await }));
            tokio::task::yield_now().await;
        }
        // The address has all its places, and the next address still gets some.
        let refused = admit_from(from(host), &authenticator, &one_more, SUBMIT).await.unwrap_err();
        assert_eq!(refused.reason(), OVERLOADED);
        assert!(refused.to_string().contains("from this address"), "{refused}");
    }
    let refused = admit_from(from(ISSUED_MAX), &authenticator, &one_more, SUBMIT).await.unwrap_err();
    assert_eq!(refused.reason(), OVERLOADED);
    assert!(!refused.to_string().contains("from this address"), "{refused}");
    let own = fixture.token("jobs", None).await;
    admit(&authenticator, own.reveal(), SUBMIT).await.unwrap();
    // The fetch ends after its longest time, and no call waits on.
    tokio::time::pause();
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap_err().reason(), ISSUER_UNAVAILABLE);
    }
}
