mod issued;

use std::time::{Duration, Instant};

use cloakwork_clock::ManualClock;
use cloakwork_storage::{Asker, Rows};

use super::*;
use crate::{address::Act, database::SCHEMAS};

const REMOTE: Peer = network([192, 0, 2, 1], false);
const OTHER_REMOTE: Peer = network([192, 0, 2, 2], false);
const LOOPBACK: Peer = network([127, 0, 0, 1], false);
const CERTIFIED: Peer = network([192, 0, 2, 1], true);
const OPEN: Rules = Rules { anonymous: true, worker_mtls: false };
const CLOSED: Rules = Rules { anonymous: false, worker_mtls: true };
const SUBMIT: &str = "/cloakwork.v1.JobService/SubmitJob";
const GET_JOB: &str = "/cloakwork.v1.JobService/GetJob";
const ATTACH: &str = "/cloakwork.v1.WorkerService/Attach";

const fn network([a, b, c, d]: [u8; 4], certified: bool) -> Peer {
    Peer::Network { address: IpAddr::V4(std::net::Ipv4Addr::new(a, b, c, d)), certified, direct: true }
}

struct Fixture {
    time: ManualClock,
    store: TokenStore,
    acme: Tenant,
    path: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.db");
        let time = ManualClock::at(1_700_000_000_000_000);
        let store = TokenStore::new(cloakwork_tests_database::open(&path, &SCHEMAS, 2).await, time.clock());
        let acme = Tenant::new("acme").unwrap();
        store.create_tenant(&acme, 0).await.unwrap();
        Self { time, store, acme, path, _directory: directory }
    }

    fn authenticator(&self, rules: Rules, cache: Duration) -> Authenticator {
        let token_cache_ms = u64::try_from(cache.as_millis()).unwrap();
        self.authenticator_within(rules, Limits { token_cache: 4, token_cache_ms, ..Limits::default() })
    }

    fn authenticator_within(&self, rules: Rules, limits: Limits) -> Authenticator {
        let addresses = Arc::new(Addresses::new(&limits));
        Authenticator::new(rules, self.store.clone(), addresses, &limits)
    }

    async fn token(&self, scopes: &str, life: Option<Duration>) -> Secret {
        self.store.create_token(&self.acme, Scopes::parse(scopes).unwrap(), "test", life).await.unwrap()
    }
}

fn bearing(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    headers
}

async fn code(authenticator: &Authenticator, peer: Peer, headers: &HeaderMap, method: &str) -> &'static str {
    match authenticator.admit(peer, headers, policy::rule(method).unwrap()).await {
        Ok(_) => "OK",
        Err(error) => error.reason().code,
    }
}

#[tokio::test]
async fn a_token_grants_its_tenant_the_calls_of_its_scopes() {
    let fixture = Fixture::new().await;
    let authenticator = fixture.authenticator(CLOSED, Duration::from_secs(3600));
    let read = bearing(fixture.token("read", None).await.reveal());
    // The first call looks the token up in the database, the second finds it in the cache.
    for _ in 0..2 {
        let principal = authenticator.admit(REMOTE, &read, policy::rule(GET_JOB).unwrap()).await.unwrap().unwrap();
        assert_eq!(principal.tenant, fixture.acme);
        assert_eq!(principal.scopes.to_string(), "read");
        assert_eq!(code(&authenticator, REMOTE, &read, SUBMIT).await, "PERMISSION_DENIED");
        assert_eq!(code(&authenticator, REMOTE, &read, ATTACH).await, "UNAUTHENTICATED");
    }
}

#[tokio::test]
async fn every_scope_opens_exactly_the_calls_of_the_table() {
    let fixture = Fixture::new().await;
    let authenticator =
        fixture.authenticator(Rules { anonymous: false, worker_mtls: false }, Duration::from_secs(3600));
    for scope in Scope::ALL {
        let headers = bearing(fixture.token(scope.name(), None).await.reveal());
        for rule in policy::RULES {
            let expected = match rule.access {
                Access::Anyone | Access::Known => "OK",
                Access::AnyOf(scopes) if scopes.contains(&scope) => "OK",
                Access::AnyOf(_) => "PERMISSION_DENIED",
            };
            assert_eq!(
                code(&authenticator, REMOTE, &headers, rule.method).await,
                expected,
                "{scope:?} {}",
                rule.method
            );
        }
    }
}

#[tokio::test]
async fn expired_revoked_and_unknown_tokens_are_refused() {
    let fixture = Fixture::new().await;
    let authenticator = fixture.authenticator(OPEN, Duration::ZERO);
    let expired = fixture.token("jobs", Some(Duration::ZERO)).await;
    assert_eq!(code(&authenticator, LOOPBACK, &bearing(expired.reveal()), SUBMIT).await, "TOKEN_EXPIRED");
    let later = fixture.token("jobs", Some(Duration::from_secs(3600))).await;
    assert_eq!(code(&authenticator, LOOPBACK, &bearing(later.reveal()), SUBMIT).await, "OK");
    fixture.store.revoke_token(&later.id()).await.unwrap();
    assert_eq!(code(&authenticator, LOOPBACK, &bearing(later.reveal()), SUBMIT).await, "TOKEN_EXPIRED");
    // A correct public part with a wrong secret, and a token that was never created.
    let good = fixture.token("jobs", None).await;
    let last = if good.reveal().ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &good.reveal()[..good.reveal().len() - 1]);
    assert_eq!(code(&authenticator, LOOPBACK, &bearing(&wrong), SUBMIT).await, "UNAUTHENTICATED");
    let stranger = Secret::generate().unwrap();
    assert_eq!(code(&authenticator, LOOPBACK, &bearing(stranger.reveal()), SUBMIT).await, "UNAUTHENTICATED");
    fixture.store.revoke_tenant(&fixture.acme).await.unwrap();
    assert_eq!(code(&authenticator, LOOPBACK, &bearing(good.reveal()), SUBMIT).await, "TOKEN_EXPIRED");
    let refused = fixture.store.create_token(&fixture.acme, Scopes::ALL, "", None).await;
    assert!(matches!(refused, Err(store::StoreError::TenantUnknown(_))), "{refused:?}");
}

#[tokio::test]
async fn a_revocation_takes_effect_when_the_cache_entry_expires() {
    let fixture = Fixture::new().await;
    let token = fixture.token("jobs", None).await;
    let headers = bearing(token.reveal());
    let long = fixture.authenticator(CLOSED, Duration::from_secs(3600));
    let short = fixture.authenticator(CLOSED, Duration::from_secs(2));
    for authenticator in [&long, &short] {
        assert_eq!(code(authenticator, REMOTE, &headers, SUBMIT).await, "OK");
    }
    fixture.store.revoke_token(&token.id()).await.unwrap();
    fixture.time.advance(Duration::from_micros(1_999_999));
    assert_eq!(code(&short, REMOTE, &headers, SUBMIT).await, "OK");
    fixture.time.advance(Duration::from_micros(1));
    assert_eq!(code(&short, REMOTE, &headers, SUBMIT).await, "TOKEN_EXPIRED");
    assert_eq!(code(&long, REMOTE, &headers, SUBMIT).await, "OK", "the long cache still holds the token");
}

#[tokio::test]
async fn a_cached_token_is_valid_until_the_microsecond_at_which_it_expires() {
    let fixture = Fixture::new().await;
    let headers = bearing(fixture.token("jobs", Some(Duration::from_secs(60))).await.reveal());
    let authenticator = fixture.authenticator(CLOSED, Duration::from_secs(3600));
    assert_eq!(code(&authenticator, REMOTE, &headers, SUBMIT).await, "OK");
    fixture.time.advance(Duration::from_micros(59_999_999));
    assert_eq!(code(&authenticator, REMOTE, &headers, SUBMIT).await, "OK");
    fixture.time.advance(Duration::from_micros(1));
    assert_eq!(code(&authenticator, REMOTE, &headers, SUBMIT).await, "TOKEN_EXPIRED");
}

#[tokio::test]
async fn a_cached_token_goes_by_the_monotonic_clock() {
    let fixture = Fixture::new().await;
    let headers = bearing(fixture.token("jobs", Some(Duration::from_secs(60))).await.reveal());
    let authenticator = fixture.authenticator(CLOSED, Duration::from_secs(3600));
    assert_eq!(code(&authenticator, REMOTE, &headers, SUBMIT).await, "OK");
    fixture.time.set_unix_micros(i64::MAX);
    assert_eq!(code(&authenticator, REMOTE, &headers, SUBMIT).await, "OK", "the time of day jumped");
    fixture.time.set_unix_micros(0);
    fixture.time.advance(Duration::from_secs(60));
    assert_eq!(
        code(&authenticator, REMOTE, &headers, SUBMIT).await,
        "OK",
        "a new lookup checks the time of day, by which the token is valid"
    );
}

#[tokio::test]
async fn the_cache_size_is_limited() {
    let fixture = Fixture::new().await;
    let authenticator = fixture.authenticator(CLOSED, Duration::from_secs(3600));
    for _ in 0..20 {
        let headers = bearing(fixture.token("jobs", None).await.reveal());
        assert_eq!(code(&authenticator, REMOTE, &headers, SUBMIT).await, "OK");
        assert!(authenticator.tokens.remembered_count() <= 4);
    }
}

#[tokio::test]
async fn anonymous_callers_are_admitted_on_loopback_only() {
    let fixture = Fixture::new().await;
    let open = fixture.authenticator(OPEN, Duration::ZERO);
    let closed = fixture.authenticator(CLOSED, Duration::ZERO);
    let none = HeaderMap::new();
    let principal = open.admit(LOOPBACK, &none, policy::rule(SUBMIT).unwrap()).await.unwrap().unwrap();
    assert_eq!(principal.tenant, Tenant::local());
    let mapped = Peer::Network { address: "::ffff:127.0.0.1".parse().unwrap(), certified: false, direct: true };
    assert_eq!(code(&open, mapped, &none, SUBMIT).await, "OK");
    let Peer::Network { address, certified, .. } = LOOPBACK else { unreachable!() };
    let proxied = Peer::Network { address, certified, direct: false };
    assert_eq!(
        code(&open, proxied, &none, SUBMIT).await,
        "UNAUTHENTICATED",
        "a proxy on this machine may forward any caller"
    );
    assert_eq!(code(&open, LOOPBACK, &none, ATTACH).await, "PERMISSION_DENIED");
    assert_eq!(code(&open, REMOTE, &none, SUBMIT).await, "UNAUTHENTICATED");
    assert_eq!(code(&closed, LOOPBACK, &none, SUBMIT).await, "UNAUTHENTICATED");
    assert_eq!(code(&closed, Peer::Embedded, &none, ATTACH).await, "OK");
    assert_eq!(code(&closed, REMOTE, &none, "/grpc.health.v1.Health/Check").await, "OK");
}

#[tokio::test]
async fn a_certificate_is_for_workers_only() {
    let fixture = Fixture::new().await;
    let closed = fixture.authenticator(CLOSED, Duration::ZERO);
    let none = HeaderMap::new();
    let principal = closed.admit(CERTIFIED, &none, policy::rule(ATTACH).unwrap()).await.unwrap().unwrap();
    assert_eq!(principal.tenant, Tenant::workers());
    assert_eq!(code(&closed, CERTIFIED, &none, SUBMIT).await, "UNAUTHENTICATED");
    // If worker certificates are required, a worker's token is not sufficient without a
    // certificate.
    let token = bearing(fixture.token("worker", None).await.reveal());
    assert_eq!(code(&closed, REMOTE, &token, ATTACH).await, "UNAUTHENTICATED");
    assert_eq!(code(&fixture.authenticator(OPEN, Duration::ZERO), REMOTE, &token, ATTACH).await, "OK");
}

#[tokio::test]
async fn malformed_headers_are_refused_even_where_anonymous_callers_are_admitted() {
    let fixture = Fixture::new().await;
    let open = fixture.authenticator(OPEN, Duration::ZERO);
    let good = fixture.token("jobs", None).await.reveal().to_owned();
    for value in ["", "Bearer", "Bearer ", "Basic dTpw", good.as_str(), "Bearer cw_", "Bearer \u{e9}"] {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        let error = open.admit(LOOPBACK, &headers, policy::rule(SUBMIT).unwrap()).await.unwrap_err();
        assert_eq!(error.reason(), UNAUTHENTICATED, "{value}");
        assert!(!error.to_string().contains("dTpw"));
    }
    let mut twice = bearing(&good);
    twice.append(AUTHORIZATION, format!("Bearer {good}").parse().unwrap());
    assert_eq!(code(&open, LOOPBACK, &twice, SUBMIT).await, "UNAUTHENTICATED");
    let mut lower = HeaderMap::new();
    lower.insert(AUTHORIZATION, format!("bearer {good}").parse().unwrap());
    assert_eq!(code(&open, LOOPBACK, &lower, SUBMIT).await, "OK");
}

#[tokio::test]
async fn tokens_are_stored_as_hashes_only_and_listed_without_them() {
    let fixture = Fixture::new().await;
    let token = fixture.token("jobs,read", None).await;
    let rows = fixture.store.tokens(Some(&fixture.acme)).await.unwrap();
    assert_eq!((rows.len(), rows[0].id.as_str(), rows[0].scopes.as_str()), (1, token.id().as_str(), "jobs,read"));
    assert!(fixture.store.tokens(Some(&Tenant::local())).await.unwrap().is_empty());
    fixture.store.close().await;
    if cloakwork_tests_database::on_postgres() {
        return;
    }
    let bytes = std::fs::read(&fixture.path).unwrap();
    let secret = &token.reveal().as_bytes()[token.reveal().len() - 64..];
    assert!(bytes.windows(12).any(|window| window == token.id().as_str().as_bytes()), "the row is in the file");
    assert!(!bytes.windows(16).any(|window| window == &secret[..16]), "the secret is in the file");
}

#[tokio::test]
async fn the_last_use_is_recorded_and_tenant_names_are_unique() {
    let fixture = Fixture::new().await;
    let token = fixture.token("jobs", None).await;
    let authenticator = fixture.authenticator(CLOSED, Duration::ZERO);
    assert_eq!(code(&authenticator, REMOTE, &bearing(token.reveal()), SUBMIT).await, "OK");
    let begin = Instant::now();
    while fixture.store.tokens(None).await.unwrap()[0].last_used_micros.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(30), "the use was never recorded");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let again = fixture.store.create_tenant(&fixture.acme, 0).await;
    assert!(matches!(again, Err(store::StoreError::TenantExists(_))));
    let nobody = fixture.store.revoke_tenant(&Tenant::local()).await;
    assert!(matches!(nobody, Err(store::StoreError::TenantUnknown(_))));
    let no_token = fixture.store.revoke_token(&TokenId::parse("000000000000").unwrap()).await;
    assert!(matches!(no_token, Err(store::StoreError::TokenUnknown(_))));
    assert_eq!(fixture.store.tenants().await.unwrap().len(), 1);
}

/// Each lookup of a token begins a note of its use, and notes wait while writes do.
#[tokio::test]
async fn one_note_of_a_token_waits_at_a_time() {
    let fixture = Fixture::new().await;
    let token = fixture.token("jobs", None).await;
    let authenticator = fixture.authenticator(CLOSED, Duration::ZERO);
    let held = fixture.store.database().write(Asker::Server, Rows::All).await.unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..100 {
        assert_eq!(code(&authenticator, REMOTE, &bearing(token.reveal()), SUBMIT).await, "OK");
    }
    // The store may have opened some connections.
    assert!(tasks() < before + 20, "{} tasks, and {before} before the calls", tasks());
    held.commit().await.unwrap();
    let begin = Instant::now();
    while fixture.store.tokens(None).await.unwrap()[0].last_used_micros.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(30), "the use was never recorded");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A guess of an attacker: a well-formed, unknown token.
fn guess() -> HeaderMap {
    bearing(Secret::generate().unwrap().reveal())
}

#[tokio::test]
async fn an_address_that_guesses_tokens_gets_no_lookups_but_known_tokens_still_work() {
    let fixture = Fixture::new().await;
    let limits = Limits { address_failures_per_minute: 3, token_cache_ms: 0, ..Limits::default() };
    let addresses = Arc::new(Addresses::new(&limits));
    let authenticator = Authenticator::new(CLOSED, fixture.store.clone(), addresses.clone(), &limits);
    let [known, new] = [fixture.token("jobs", None).await, fixture.token("jobs", None).await];
    assert_eq!(code(&authenticator, REMOTE, &bearing(known.reveal()), SUBMIT).await, "OK");
    let Peer::Network { address, .. } = REMOTE else { unreachable!() };
    for _ in 0..4 {
        assert_eq!(code(&authenticator, REMOTE, &guess(), SUBMIT).await, "UNAUTHENTICATED");
        addresses.charge(address.into(), Act::Failure);
    }
    assert_eq!(code(&authenticator, REMOTE, &guess(), SUBMIT).await, "ADDRESS_LIMITED");
    // Without a lookup, the server cannot distinguish a new token from a guess.
    assert_eq!(code(&authenticator, REMOTE, &bearing(new.reveal()), SUBMIT).await, "ADDRESS_LIMITED");
    assert_eq!(code(&authenticator, OTHER_REMOTE, &bearing(new.reveal()), SUBMIT).await, "OK");
    // The cache time is 0, so the known token is looked up again.
    assert_eq!(code(&authenticator, REMOTE, &bearing(known.reveal()), SUBMIT).await, "OK");
    fixture.store.revoke_token(&known.id()).await.unwrap();
    assert_eq!(code(&authenticator, REMOTE, &bearing(known.reveal()), SUBMIT).await, "TOKEN_EXPIRED");
}

#[tokio::test]
async fn the_lookup_queue_is_limited_and_known_tokens_bypass_it() {
    let fixture = Fixture::new().await;
    let limits = Limits { token_lookups: 1, token_lookups_waiting: 1, token_cache_ms: 0, ..Limits::default() };
    let authenticator = Arc::new(fixture.authenticator_within(CLOSED, limits));
    let known = fixture.token("jobs", None).await;
    assert_eq!(code(&authenticator, REMOTE, &bearing(known.reveal()), SUBMIT).await, "OK");
    let lookup = authenticator.tokens.occupy_lookup().await;
    let waiting = tokio::spawn({
        let authenticator = authenticator.clone();
        async move { code(&authenticator, REMOTE, &guess(), SUBMIT).await }
    });
    let begin = Instant::now();
    while authenticator.tokens.lookup_places_left() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "the lookup queue never filled");
        tokio::task::yield_now().await;
    }
    assert_eq!(code(&authenticator, REMOTE, &guess(), SUBMIT).await, "OVERLOADED");
    assert_eq!(code(&authenticator, REMOTE, &bearing(known.reveal()), SUBMIT).await, "OK");
    drop(lookup);
    assert_eq!(waiting.await.unwrap(), "UNAUTHENTICATED");
}

/// Otherwise many calls with one token would query the database at once whenever the cache entry
/// expires.
#[tokio::test]
async fn concurrent_calls_with_one_token_share_one_lookup() {
    let fixture = Fixture::new().await;
    let authenticator = fixture.authenticator(CLOSED, Duration::from_secs(3600));
    let headers = bearing(fixture.token("jobs", None).await.reveal());
    assert_eq!(code(&authenticator, REMOTE, &headers, SUBMIT).await, "OK");
    authenticator.tokens.expire_all();
    let lookups_before = authenticator.tokens.lookup_count();
    let calls = (0..50).map(|_| code(&authenticator, REMOTE, &headers, SUBMIT));
    assert!(futures_util::future::join_all(calls).await.into_iter().all(|code| code == "OK"));
    assert_eq!(authenticator.tokens.lookup_count() - lookups_before, 1);
}
