use axum::{
    Extension,
    body::Body,
    http::{
        Method, Request, Response, StatusCode,
        header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE},
    },
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::{
    auth::{Rules, Scope, Scopes, TokenStore},
    database::SCHEMAS,
    store::{Store, tests::new_job},
    tenant::Tenant,
};

const HERE: &str = "127.0.0.1:7271";
const PEER: [u8; 4] = [127, 0, 0, 1];

struct Fixture {
    console: Arc<Console>,
    tokens: TokenStore,
    store: Store,
    directory: tempfile::TempDir,
}

/// A logged-in browser.
struct Browser<'f> {
    fixture: &'f Fixture,
    cookie: String,
    csrf: String,
}

impl Fixture {
    async fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::at(HERE, change).await
    }

    async fn at(admin_address: &str, change: impl FnOnce(&mut Config)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.storage.directory = directory.path().to_owned();
        change(&mut config);
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 2).await;
        let (clock, telemetry) = (Clock::system(), Arc::new(Telemetry::new(10).unwrap()));
        let tokens = TokenStore::new(database.clone(), clock.clone());
        let addresses = Arc::new(Addresses::new(&config.limits));
        let rules = Rules { anonymous: true, worker_mtls: false };
        let authenticator = Authenticator::new(rules, tokens.clone(), addresses.clone(), &config.limits);
        let operators = Operators::new(&database, &clock, &config.limits);
        let parts = Parts { operators, authenticator: Arc::new(authenticator), addresses, telemetry };
        let console = Console::new(&config, admin_address.parse().unwrap(), parts, Readiness::default(), clock);
        Self { console, tokens, store: Store::new(database), directory }
    }

    async fn send(&self, from: [u8; 4], request: Request<Body>) -> Response<Body> {
        let peer = Peer::Network { address: from.into(), certified: false, direct: true };
        let router = self.console.clone().routes().layer(Extension(peer));
        router.oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> Response<Body> {
        self.send(PEER, Request::get(path).header(HOST, HERE).body(Body::empty()).unwrap()).await
    }

    async fn login_from(&self, from: [u8; 4], body: Value) -> Response<Body> {
        let request = Request::post("/console/api/login").header(HOST, HERE).header(ORIGIN, format!("http://{HERE}"));
        let request = request.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string())).unwrap();
        self.send(from, request).await
    }

    async fn login(&self, body: Value) -> Response<Body> {
        self.login_from(PEER, body).await
    }

    async fn browser(&self) -> Browser<'_> {
        let link = self.console.login_link().unwrap();
        let code = link.rsplit_once('=').unwrap().1.to_owned();
        let response = self.login(json!({"link": code})).await;
        assert_eq!(response.status(), StatusCode::OK);
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        let session = body(response).await;
        Browser { fixture: self, cookie, csrf: session["csrf"].as_str().unwrap().to_owned() }
    }

    async fn token(&self, scopes: &[Scope]) -> String {
        let tenant = Tenant::new("ops").unwrap();
        let _ = self.tokens.create_tenant(&tenant, 0).await;
        let scopes: Scopes = scopes.iter().copied().collect();
        self.tokens.create_token(&tenant, scopes, "", None).await.unwrap().reveal().to_owned()
    }
}

impl Browser<'_> {
    fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        let request = Request::builder().method(method).uri(path).header(HOST, HERE).header(COOKIE, &self.cookie);
        request.header("x-csrf-token", &self.csrf)
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.request(Method::GET, path).body(Body::empty()).unwrap();
        let response = self.fixture.send(PEER, request).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        body(response).await
    }

    async fn post(&self, path: &str, csrf: &str, origin: &str, body: Value) -> Response<Body> {
        let request = Request::post(path).header(HOST, HERE).header(COOKIE, &self.cookie);
        let request = request.header("x-csrf-token", csrf).header(ORIGIN, origin);
        let request = request.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string())).unwrap();
        self.fixture.send(PEER, request).await
    }
}

async fn body(response: Response<Body>) -> Value {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn a_link_of_this_machine_begins_a_session_once() {
    let fixture = Fixture::new(|_| {}).await;
    assert_eq!(stored_link(fixture.directory.path()).unwrap().trim_end(), fixture.console.login_link().unwrap());
    let code = fixture.console.login_link().unwrap().rsplit_once('=').unwrap().1.to_owned();
    let browser = fixture.browser().await;
    let session = browser.get("/console/api/session").await;
    assert_eq!((&session["actor"], &session["can_write"]), (&json!("console at this machine"), &json!(false)));
    assert_eq!(fixture.login(json!({"link": code})).await.status(), StatusCode::UNAUTHORIZED, "a second time");
    let logout = browser.post("/console/api/logout", &browser.csrf, "http://127.0.0.1:7271", json!({})).await;
    assert_eq!(logout.status(), StatusCode::OK);
    let request = browser.request(Method::GET, "/console/api/session").body(Body::empty()).unwrap();
    assert_eq!(fixture.send(PEER, request).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn beyond_this_machine_only_a_token_with_the_scope_admin_begins_a_session_over_tls() {
    let far = [192, 0, 2, 7];
    let tls = |config: &mut Config| config.listen.admin_tls = true;
    let fixture = Fixture::at("192.0.2.1:7271", tls).await;
    assert_eq!(fixture.console.login_link(), None);
    assert!(stored_link(fixture.directory.path()).is_err());
    let (admin, jobs) = (fixture.token(&[Scope::Admin]).await, fixture.token(&[Scope::Jobs, Scope::Read]).await);
    let response = fixture.login_from(far, json!({"token": admin})).await;
    assert_eq!(response.status(), StatusCode::OK);
    let cookie = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Secure", "; Path=/console"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(body(response).await["actor"].as_str().unwrap().starts_with("console, ops (token "));
    assert_eq!(fixture.login_from(far, json!({"token": jobs})).await.status(), StatusCode::FORBIDDEN);
    for wrong in [json!({"token": "cw_x"}), json!({"token": &admin[1..]}), json!({"link": ""})] {
        assert_eq!(fixture.login_from(far, wrong).await.status(), StatusCode::UNAUTHORIZED);
    }
    for malformed in [json!({}), json!({"token": admin, "link": "x"})] {
        assert_eq!(fixture.login_from(far, malformed).await.status(), StatusCode::BAD_REQUEST);
    }
    // In the clear, only callers at this machine may send a token.
    let open = Fixture::at("192.0.2.1:7271", |_| {}).await;
    let admin = open.token(&[Scope::Admin]).await;
    assert_eq!(open.login_from(far, json!({"token": admin})).await.status(), StatusCode::FORBIDDEN);
    assert_eq!(open.login(json!({"token": admin})).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let fixture = Fixture::new(|_| {}).await;
    let token = fixture.token(&[Scope::Admin]).await;
    let response = fixture.login(json!({"token": token})).await;
    let cookie = response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let csrf = body(response).await["csrf"].as_str().unwrap().to_owned();
    let browser = Browser { fixture: &fixture, cookie, csrf };
    assert_eq!(browser.get("/console/api/session").await["csrf"], Value::Null, "only the login tells the secret");
    fixture.tokens.revoke_token(&crate::auth::TokenId::parse(&token[3..15]).unwrap()).await.unwrap();
    let request = browser.request(Method::GET, "/console/api/session").body(Body::empty()).unwrap();
    assert_eq!(fixture.send(PEER, request).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_cookie_alone_opens_nothing() {
    let fixture = Fixture::new(|_| {}).await;
    let Browser { cookie, csrf, .. } = fixture.browser().await;
    // Browsers send the cookie to every port of the host.
    let stolen = Browser { fixture: &fixture, cookie: cookie.clone(), csrf: String::new() };
    let request = stolen.request(Method::GET, "/console/api/overview").body(Body::empty()).unwrap();
    assert_eq!(fixture.send(PEER, request).await.status(), StatusCode::UNAUTHORIZED);
    // And another port may plant one.
    let cookie = format!("{cookie}; {}=x", fixture.console.cookie_name());
    let planted = Browser { fixture: &fixture, cookie, csrf };
    let request = planted.request(Method::GET, "/console/api/overview").body(Body::empty()).unwrap();
    assert_eq!(fixture.send(PEER, request).await.status(), StatusCode::UNAUTHORIZED);
}

/// A browser keeps one cookie of a name for all ports of a host, and sends all its cookies to each
/// of them.
#[tokio::test]
async fn consoles_at_several_ports_of_a_host_keep_their_sessions() {
    let (first, second) = (Fixture::new(|_| {}).await, Fixture::new(|_| {}).await);
    let browsers = [first.browser().await, second.browser().await];
    let cookie = browsers.each_ref().map(|browser| browser.cookie.as_str()).join("; ");
    for browser in browsers {
        let browser = Browser { cookie: cookie.clone(), ..browser };
        browser.get("/console/api/session").await;
    }
}

#[tokio::test]
async fn guesses_are_limited() {
    let fixture = Fixture::new(|config| config.limits.address_failures_per_minute = 5).await;
    let mut refused = None;
    for _ in 0..20 {
        let response = fixture.login(json!({"link": "0".repeat(64)})).await;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            refused = Some(response);
            break;
        }
    }
    assert!(refused.unwrap().headers().contains_key("retry-after"));
    // The right link and a known token work meanwhile, at the same address.
    let code = fixture.console.login_link().unwrap().rsplit_once('=').unwrap().1.to_owned();
    assert_eq!(fixture.login(json!({"link": code})).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn without_a_session_there_is_nothing_but_the_files() {
    let fixture = Fixture::new(|_| {}).await;
    for path in ["session", "overview", "jobs", "job?name=x", "keys", "tenants", "usage", "errors", "audit"] {
        let response = fixture.get(&format!("/console/api/{path}")).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(response.headers()["cache-control"], "no-store");
    }
    let index = fixture.get("/console/").await;
    assert_eq!(index.status(), StatusCode::OK);
    assert!(index.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert_eq!(fixture.get("/console").await.status(), StatusCode::PERMANENT_REDIRECT);
    for path in ["/console/../server.db", "/console/assets/", "/console/%2e%2e/x", "/console/api", "/console/api/none"]
    {
        assert_eq!(fixture.get(path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn other_hosts_and_other_sites_are_refused() {
    let fixture = Fixture::new(|config| config.console.writes = true).await;
    let browser = fixture.browser().await;
    for host in ["evil.example", "127.0.0.1.evil.example:7271", ""] {
        let request = Request::get("/console/api/session").header(HOST, host).header(COOKIE, &browser.cookie);
        let response = fixture.send(PEER, request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    let drain = json!({"worker": "workers/00000000-0000-0000-0000-000000000001"});
    for origin in ["http://evil.example", "null", "http://127.0.0.1:7272", "127.0.0.1:7271"] {
        let response = browser.post("/console/api/drain", &browser.csrf, origin, drain.clone()).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{origin}");
    }
    for csrf in ["", "0", &browser.csrf[1..]] {
        let response = browser.post("/console/api/drain", csrf, "http://127.0.0.1:7271", drain.clone()).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{csrf}");
    }
    // With both, the request gets as far as the dispatcher, which this server does not have.
    let response = browser.post("/console/api/drain", &browser.csrf, "http://127.0.0.1:7271", drain).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body(response).await["error"]["reason"], "NOT_OWNER");
}

#[tokio::test]
async fn the_console_changes_nothing_unless_the_settings_permit_it() {
    let fixture = Fixture::new(|_| {}).await;
    let browser = fixture.browser().await;
    for (path, body) in [
        ("drain", json!({"worker": "workers/00000000-0000-0000-0000-000000000001"})),
        ("resume", json!({"worker": "workers/00000000-0000-0000-0000-000000000001"})),
        ("cancel", json!({"name": "tenants/a/jobs/00000000-0000-0000-0000-000000000001"})),
    ] {
        let path = format!("/console/api/{path}");
        let response = browser.post(&path, &browser.csrf, "http://127.0.0.1:7271", body).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        let error = self::body(response).await;
        assert!(error["error"]["message"].as_str().unwrap().contains("console.writes"), "{error}");
    }
}

#[tokio::test]
async fn a_large_or_malformed_body_is_refused() {
    let fixture = Fixture::new(|_| {}).await;
    let large = fixture.login(json!({"link": "x".repeat(BODY_BYTES_MAX)})).await;
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
    for malformed in [json!([]), json!("x"), json!({"link": 7}), json!(null)] {
        assert!(fixture.login(malformed.clone()).await.status().is_client_error(), "{malformed}");
    }
}

#[tokio::test]
async fn the_pages_show_jobs_of_all_tenants_and_their_usage() {
    let fixture = Fixture::new(|_| {}).await;
    let jobs = [("a", 1), ("b", 2)].map(|(tenant, number)| crate::store::Write::Submitted(new_job(tenant, number)));
    fixture.store.apply(cloakwork_storage::Survival::Crash, &jobs).await.unwrap();
    fixture.tokens.create_tenant(&Tenant::new("a").unwrap(), 0).await.unwrap();
    let browser = fixture.browser().await;
    let listed = browser.get("/console/api/jobs").await;
    let names: Vec<&str> =
        listed["jobs"].as_array().unwrap().iter().map(|job| job["tenant"].as_str().unwrap()).collect();
    assert_eq!((names, &listed["next"]), (vec!["b", "a"], &Value::Null));
    for (filter, count) in
        [("tenant=a", 1), ("tenant=a&state=queued", 1), ("tenant=a&state=failed", 0), ("tenant=c", 0)]
    {
        let listed = browser.get(&format!("/console/api/jobs?{filter}")).await;
        assert_eq!(listed["jobs"].as_array().unwrap().len(), count, "{filter}");
    }
    let name = listed["jobs"][1]["name"].as_str().unwrap();
    let job = browser.get(&format!("/console/api/job?name={name}")).await;
    assert_eq!((&job["state"], &job["latency"]), (&json!("queued"), &Value::Null));
    let overview = browser.get("/console/api/overview").await;
    assert_eq!(overview["server"]["is_owner"], json!(false));
    assert_eq!(overview["history"]["micros"], json!([]));
    let tenants = browser.get("/console/api/tenants").await;
    assert_eq!(tenants["tenants"][0]["name"], json!("a"));
    assert_eq!(browser.get("/console/api/usage?days=7&tenant=a").await["days"], json!([]));
    assert_eq!(browser.get("/console/api/keys").await["keys"], json!([]));
    assert_eq!(browser.get("/console/api/errors").await["reasons"], json!([]));
    let acts = browser.get("/console/api/audit").await;
    let acts: Vec<&str> =
        acts["entries"].as_array().unwrap().iter().map(|entry| entry["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["log in", "create tenant"]);
    // Jobs of all tenants cannot be listed by state.
    for bad in [
        "jobs?state=queued",
        "jobs?tenant=a&state=lost",
        "jobs?tenant=A",
        "jobs?before=x",
        "keys?after=x",
        "usage?tenant=X",
        "job?name=tenants/a/jobs/x",
        "audit?before=1",
    ] {
        let path = format!("/console/api/{bad}");
        let request = browser.request(Method::GET, &path).body(Body::empty()).unwrap();
        assert_eq!(fixture.send(PEER, request).await.status(), StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn a_body_that_never_ends_ends_the_request() {
    let fixture = Fixture::new(|_| {}).await;
    let request = Request::post("/console/api/login").header(HOST, HERE).header(ORIGIN, format!("http://{HERE}"));
    let never = Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let request = request.header(CONTENT_TYPE, "application/json").body(never).unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    assert_eq!(fixture.send(PEER, request).await.status(), StatusCode::REQUEST_TIMEOUT);
    assert!((10..12).contains(&began.elapsed().as_secs()));
}

/// Days without some of their tenants would look like days with less use.
#[tokio::test]
async fn usage_with_too_many_rows_is_refused() {
    let fixture = Fixture::new(|_| {}).await;
    let operators = &fixture.console.operators;
    let today = cloakwork_clock::unix_day(fixture.console.clock.unix_micros());
    for tenant in ["a", "b"] {
        let end = crate::jobs::End {
            state: cloakwork_proto::v1::JobState::Succeeded,
            ended_micros: fixture.console.clock.unix_micros(),
            outputs_expire_micros: None,
            error: None,
            outputs: Vec::new(),
            latency: Default::default(),
            attestation: None,
        };
        let new = new_job(tenant, tenant.as_bytes()[0]);
        let end = crate::store::Ended { job: new.meta.id, end: Arc::new(end) };
        let writes = [crate::store::Write::Submitted(new), crate::store::Write::Ended(end)];
        fixture.store.apply(cloakwork_storage::Survival::Crash, &writes).await.unwrap();
    }
    assert_eq!(operators.usage(None, Some(today - 1..=today), 2).await.unwrap().len(), 2);
    let refused = operators.usage(None, Some(today - 1..=today), 1).await.unwrap_err();
    assert!(refused.message().contains("more than 1 rows"), "{refused}");
}
