//! An issuer on a loopback address, which may misbehave.

use std::{
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Response, StatusCode, header::LOCATION},
    serve::Listener,
};
use cloakwork_clock::ManualClock;
use cloakwork_oidc::{Claims, Issuer, Options, Refusal};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Semaphore};

use crate::keys::{NOW, Signer};

pub(crate) const AUDIENCE: &str = "cloakwork";

/// How the issuer answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Good,
    /// Never answers.
    Silent,
    /// Begins the answer with the keys and never ends it.
    Stuck,
    /// Answers each request when the test lets it.
    Held,
    Status(u16),
    /// Redirects both requests to the right answers.
    Redirects,
    /// Answers the request for the keys with so many bytes of JSON.
    Large(usize),
    /// Answers the request for the description with this text.
    Description(String),
    /// Answers the request for the keys with this text.
    Keys(String),
}

/// A running issuer. Ends with its runtime.
pub(crate) struct TestIssuer {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    manner: Mutex<Manner>,
    keys: Mutex<Value>,
    descriptions: AtomicUsize,
    key_sets: AtomicUsize,
    /// Other requests, such as those after a redirection.
    others: AtomicUsize,
    permits: Semaphore,
}

impl TestIssuer {
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/realms/main", listener.local_addr().expect("an address"));
        Self::start_on(listener, url, signers)
    }

    pub(crate) fn start_on<L>(listener: L, url: String, signers: &[&Signer]) -> Self
    where
        L: Listener,
        L::Addr: std::fmt::Debug,
    {
        let shared = Arc::new(Shared {
            url: url.clone(),
            manner: Mutex::new(Manner::Good),
            keys: Mutex::default(),
            descriptions: AtomicUsize::default(),
            key_sets: AtomicUsize::default(),
            others: AtomicUsize::default(),
            permits: Semaphore::new(0),
        });
        let issuer = Self { url, shared: Arc::clone(&shared) };
        issuer.publish(signers);
        let router = Router::new().fallback(move |request: Request| {
            let shared = Arc::clone(&shared);
            async move { shared.answer(request.uri().path()).await }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        issuer
    }

    /// Publishes these keys and no others.
    pub(crate) fn publish(&self, signers: &[&Signer]) {
        self.publish_jwks(signers.iter().map(|signer| signer.jwk()).collect());
    }

    pub(crate) fn publish_jwks(&self, keys: Vec<Value>) {
        *self.shared.keys.lock().unwrap_or_else(PoisonError::into_inner) = json!({"keys": keys});
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    /// Lets so many held requests continue.
    pub(crate) fn release(&self, requests: usize) {
        self.shared.permits.add_permits(requests);
    }

    /// Requests for the description so far.
    pub(crate) fn descriptions(&self) -> usize {
        self.shared.descriptions.load(SeqCst)
    }

    /// Requests for the keys so far.
    pub(crate) fn key_sets(&self) -> usize {
        self.shared.key_sets.load(SeqCst)
    }

    /// Requests for anything else so far.
    pub(crate) fn others(&self) -> usize {
        self.shared.others.load(SeqCst)
    }

    /// Claims of a good token of this issuer.
    pub(crate) fn claims(&self) -> Value {
        claims_of(&self.url)
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(&self.url, AUDIENCE)
    }
}

impl Shared {
    async fn answer(&self, path: &str) -> Response<Body> {
        let manner = self.manner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_description = path.ends_with("/realms/main/.well-known/openid-configuration");
        let is_keys = path.ends_with("/keys");
        let count = match (is_description, is_keys) {
            (true, _) => &self.descriptions,
            (_, true) => &self.key_sets,
            _ => &self.others,
        };
        if manner == Manner::Held {
            self.permits.acquire().await.expect("the semaphore is never closed").forget();
        }
        count.fetch_add(1, SeqCst);
        let description = json!({"issuer": self.url, "jwks_uri": format!("{}/keys", self.url), "scopes": ["openid"]});
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).to_string();
        let right = if is_description { description.to_string() } else { keys };
        match manner {
            Manner::Silent => pending().await,
            Manner::Stuck if is_keys => Response::new(stuck(&right)),
            Manner::Status(status) => {
                let mut answer = Response::new(Body::from(right));
                *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
                answer
            }
            Manner::Redirects if !path.starts_with("/moved") => {
                let mut answer = Response::new(Body::empty());
                *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
                answer.headers_mut().insert(LOCATION, format!("/moved{path}").parse().expect("a header"));
                answer
            }
            Manner::Large(bytes) if is_keys => {
                let (start, end) = (right.strip_suffix('}').expect("an object"), "\"}");
                let start = format!("{start}, \"more\": \"");
                let filling = "a".repeat(bytes - start.len() - end.len());
                Response::new(Body::from(format!("{start}{filling}{end}")))
            }
            Manner::Description(text) if is_description => Response::new(Body::from(text)),
            Manner::Keys(text) if is_keys => Response::new(Body::from(text)),
            _ => Response::new(Body::from(right)),
        }
    }
}

/// A body that gives its first half and never ends.
fn stuck(text: &str) -> Body {
    let mut half = Some(text.as_bytes()[..text.len() / 2].to_vec());
    let pieces = futures_util::stream::poll_fn(move |_| match half.take() {
        Some(half) => std::task::Poll::Ready(Some(Ok::<_, std::io::Error>(half))),
        None => std::task::Poll::Pending,
    });
    Body::from_stream(pieces)
}

/// An issuer and its verifier, with a clock of the test.
pub(crate) struct Trial {
    pub(crate) issuer: TestIssuer,
    pub(crate) clock: ManualClock,
    pub(crate) verifier: Arc<Issuer>,
}

impl Trial {
    pub(crate) async fn new(signers: &[&Signer]) -> Self {
        let issuer = TestIssuer::start(signers).await;
        let clock = ManualClock::at(NOW * 1_000_000);
        let verifier = Arc::new(Issuer::new(issuer.options(), clock.clock()).expect("an issuer"));
        Self { issuer, clock, verifier }
    }

    /// Another verifier of the same issuer, which knows no keys yet.
    pub(crate) fn other_verifier(&self) -> Issuer {
        Issuer::new(self.issuer.options(), self.clock.clock()).expect("an issuer")
    }

    pub(crate) async fn verify(&self, token: &str) -> Result<Claims, Refusal> {
        self.verifier.verify(token).await
    }

    /// Verifies a good token that this key signs now.
    pub(crate) async fn login(&self, signer: &Signer) -> Result<Claims, Refusal> {
        self.verify(&self.token(signer)).await
    }

    /// A good token that this key signs now.
    pub(crate) fn token(&self, signer: &Signer) -> String {
        let mut claims = self.issuer.claims();
        let now = self.clock.clock().unix_micros() / 1_000_000;
        claims["iat"] = json!(now);
        claims["exp"] = json!(now + 300);
        signer.token(&claims)
    }

    pub(crate) fn advance_seconds(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Waits until so many fetches of keys have ended. Fails if there are more.
    pub(crate) async fn fetched(&self, fetches: usize) {
        until(|| self.issuer.key_sets() >= fetches && self.verifier.keys_age() == Some(Duration::ZERO)).await;
        assert_eq!(self.issuer.key_sets(), fetches);
    }
}

/// Waits for a condition, for at most 20 seconds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the condition holds in time");
}

pub(crate) fn claims_of(issuer: &str) -> Value {
    json!({
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": "7f1d2c",
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + 300,
        "cloakwork_tenant": "acme",
        "cloakwork_scopes": "jobs read",
        "email": "CANARY@example.org",
        "realm_access": {"roles": ["a", "b"]},
    })
}
