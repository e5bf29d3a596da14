//! Operators' commands as operators call them, against a server that answers by a script.

use std::{
    io::Read as _,
    net::SocketAddr,
    process::{Command, Output},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use cloakwork_client::{Timestamp, proto as v1};
use serde_json::{Value, json};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};
use v1::{
    WorkerState,
    admin_service_server::{AdminService, AdminServiceServer},
    capability_service_server::{CapabilityService, CapabilityServiceServer},
};

type Answer<T> = Result<Response<T>, Status>;

/// A name that would clear the screen, end its line and turn its reader's eye.
const HOSTILE: &str = "x\u{1b}[2J\r\ny\u{202e}z";
/// That name as people see it.
const VISIBLE: &str = r"x\u{1b}[2J\r\ny\u{202e}z";

const SECRET: &str = "cw_0123456789ab_5ec2e7";

/// A server of operators, and the changes that were asked of it.
#[derive(Clone, Default)]
struct Fake {
    changes: Arc<Mutex<Vec<String>>>,
    /// Number of listings of workers since worker a1 was drained.
    looks: Arc<AtomicU32>,
    pages: Arc<AtomicU32>,
}

impl Fake {
    /// Checks the token of a call.
    fn admit<T>(&self, request: Request<T>) -> Result<T, Status> {
        match request.metadata().get("authorization").and_then(|token| token.to_str().ok()) {
            Some("Bearer good") => Ok(request.into_inner()),
            Some("Bearer tenant") => Err(Status::permission_denied("the token lacks the scope admin")),
            _ => Err(Status::unauthenticated("no such token")),
        }
    }

    fn note(&self, change: String) {
        self.changes.lock().expect("a lock").push(change);
    }

    fn changes(&self) -> Vec<String> {
        std::mem::take(&mut *self.changes.lock().expect("a lock"))
    }

    fn is_drained(&self) -> bool {
        let changes = self.changes.lock().expect("a lock");
        changes.iter().any(|change| change == "drain workers/a1")
    }
}

fn answer<T>(message: T) -> Answer<T> {
    Ok(Response::new(message))
}

fn tenant(name: &str) -> v1::Tenant {
    let limits = vec![v1::TenantLimit { name: "tenant_keys".into(), value: 7 }];
    v1::Tenant { name: format!("tenants/{name}"), limits, keys: 3, stored_bytes: 5, ..Default::default() }
}

fn token(id: &str, tenant: &str) -> v1::Token {
    let expire_time = Some(Timestamp { seconds: 1_769_860_800, nanos: 0 });
    v1::Token {
        name: format!("tokens/{id}"),
        tenant: tenant.into(),
        note: HOSTILE.into(),
        expire_time,
        ..Default::default()
    }
}

#[tonic::async_trait]
impl AdminService for Fake {
    async fn list_pools(&self, request: Request<v1::ListPoolsRequest>) -> Answer<v1::ListPoolsResponse> {
        self.admit(request)?;
        let pool =
            v1::PoolStatus { kind: HOSTILE.into(), workers: 2, backlog_seconds: Some(1.5), ..Default::default() };
        answer(v1::ListPoolsResponse { pools: vec![pool] })
    }

    async fn list_workers(&self, request: Request<v1::ListWorkersRequest>) -> Answer<v1::ListWorkersResponse> {
        self.admit(request)?;
        let worker = |id: &str, display_name: &str| v1::WorkerStatus {
            name: format!("workers/{id}"),
            display_name: display_name.into(),
            state: WorkerState::Ready.into(),
            jobs: 2,
            ..Default::default()
        };
        let mut workers =
            vec![worker("a1", "rack 7"), worker("b2", HOSTILE), worker("c3", "twin"), worker("d4", "twin")];
        if self.is_drained() {
            workers[0].state = WorkerState::Draining.into();
            // A job ends between two listings.
            workers[0].jobs = 2_u32.saturating_sub(self.looks.fetch_add(1, SeqCst));
        }
        answer(v1::ListWorkersResponse { workers })
    }

    async fn drain_worker(&self, request: Request<v1::DrainWorkerRequest>) -> Answer<v1::DrainWorkerResponse> {
        let name = self.admit(request)?.name;
        self.note(format!("drain {name}"));
        answer(v1::DrainWorkerResponse {})
    }

    async fn resume_worker(&self, request: Request<v1::ResumeWorkerRequest>) -> Answer<v1::ResumeWorkerResponse> {
        let name = self.admit(request)?.name;
        self.note(format!("resume {name}"));
        answer(v1::ResumeWorkerResponse {})
    }

    /// Three pages. The second page is empty.
    async fn list_tenants(&self, request: Request<v1::ListTenantsRequest>) -> Answer<v1::ListTenantsResponse> {
        let (tenants, next) = match self.admit(request)?.page_token.as_str() {
            "" => (vec![tenant("acme"), tenant(HOSTILE)], "second"),
            "second" => (vec![], "third"),
            "third" => (vec![tenant("last")], ""),
            _ => return Err(Status::invalid_argument("an unknown page token")),
        };
        answer(v1::ListTenantsResponse { tenants, next_page_token: next.into() })
    }

    async fn create_tenant(&self, request: Request<v1::CreateTenantRequest>) -> Answer<v1::CreateTenantResponse> {
        let v1::CreateTenantRequest { tenant, shard } = self.admit(request)?;
        self.note(format!("create {tenant} {shard:?}"));
        match tenant.as_str() {
            "taken" => Err(Status::already_exists(format!("there is a tenant {HOSTILE}"))),
            "busy" => Err(Status::unavailable("the server is draining")),
            _ => answer(v1::CreateTenantResponse {}),
        }
    }

    async fn revoke_tenant(&self, request: Request<v1::RevokeTenantRequest>) -> Answer<v1::RevokeTenantResponse> {
        let name = self.admit(request)?.name;
        self.note(format!("revoke {name}"));
        answer(v1::RevokeTenantResponse {})
    }

    async fn delete_tenant(&self, request: Request<v1::DeleteTenantRequest>) -> Answer<v1::DeleteTenantResponse> {
        let name = self.admit(request)?.name;
        self.note(format!("delete {name}"));
        answer(v1::DeleteTenantResponse {})
    }

    async fn set_tenant_limits(
        &self,
        request: Request<v1::SetTenantLimitsRequest>,
    ) -> Answer<v1::SetTenantLimitsResponse> {
        let v1::SetTenantLimitsRequest { name, limits, removed_limits } = self.admit(request)?;
        let set = limits.iter().map(|limit| format!("{}={}", limit.name, limit.value));
        let changes: Vec<String> = set.chain(removed_limits.iter().map(|name| format!("-{name}"))).collect();
        self.note(format!("limit {name} {}", changes.join(" ")));
        answer(v1::SetTenantLimitsResponse { limits })
    }

    async fn list_tokens(&self, request: Request<v1::ListTokensRequest>) -> Answer<v1::ListTokensResponse> {
        let v1::ListTokensRequest { parent, page_token, .. } = self.admit(request)?;
        let (tokens, next) = match (parent.as_str(), page_token.as_str()) {
            ("tenants/acme", "") => (vec![token("0123456789ab", "acme")], ""),
            ("", "") => (vec![token("0123456789ab", "acme")], "more"),
            ("", "more") => (vec![token("ba9876543210", HOSTILE)], ""),
            _ => return Err(Status::not_found("no such tenant")),
        };
        answer(v1::ListTokensResponse { tokens, next_page_token: next.into() })
    }

    async fn create_token(&self, request: Request<v1::CreateTokenRequest>) -> Answer<v1::CreateTokenResponse> {
        let v1::CreateTokenRequest { parent, scopes, days, note } = self.admit(request)?;
        let secret = if parent == "tenants/hostile" { HOSTILE } else { SECRET };
        self.note(format!("token {parent} {} {days} {note}", scopes.join(",")));
        answer(v1::CreateTokenResponse { token: Some(token("0123456789ab", "acme")), secret: secret.into() })
    }

    async fn revoke_token(&self, request: Request<v1::RevokeTokenRequest>) -> Answer<v1::RevokeTokenResponse> {
        let name = self.admit(request)?.name;
        self.note(format!("revoke {name}"));
        answer(v1::RevokeTokenResponse {})
    }

    /// Pages without an end.
    async fn list_all_jobs(&self, request: Request<v1::ListAllJobsRequest>) -> Answer<v1::ListAllJobsResponse> {
        let v1::ListAllJobsRequest { page_size, parent, states, .. } = self.admit(request)?;
        if !parent.is_empty() {
            self.note(format!("jobs {parent} {states:?}"));
        }
        let size = page_size.clamp(1, 3);
        let page = self.pages.fetch_add(1, SeqCst);
        let job = |at| v1::Job {
            name: format!("tenants/acme/jobs/{page}-{at}"),
            state: v1::JobState::Running.into(),
            parameter_set: HOSTILE.into(),
            ..Default::default()
        };
        answer(v1::ListAllJobsResponse { jobs: (0..size).map(job).collect(), next_page_token: page.to_string() })
    }

    async fn get_usage(&self, request: Request<v1::GetUsageRequest>) -> Answer<v1::GetUsageResponse> {
        let v1::GetUsageRequest { parent, first_day, last_day } = self.admit(request)?;
        let stored_byte_seconds = if parent == "tenants/nan" { f64::NAN } else { 7.2e12 };
        let day = |tenant: &str, day| v1::DayUsage {
            tenant: tenant.into(),
            day,
            jobs: 4,
            stored_byte_seconds,
            ..Default::default()
        };
        answer(v1::GetUsageResponse { days: vec![day(&parent, first_day), day(HOSTILE, last_day)] })
    }

    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Answer<v1::ListAuditEntriesResponse> {
        let first = self.admit(request)?.page_token.is_empty();
        let entry = v1::AuditEntry {
            actor: "console".into(),
            act: "drain worker".into(),
            subject: HOSTILE.into(),
            ..Default::default()
        };
        let next_page_token = if first { "more" } else { "" }.into();
        answer(v1::ListAuditEntriesResponse { entries: vec![entry], next_page_token })
    }
}

/// A server on the port of tenants.
struct Tenants;

#[tonic::async_trait]
impl CapabilityService for Tenants {
    async fn get_capabilities(&self, _: Request<v1::GetCapabilitiesRequest>) -> Answer<v1::GetCapabilitiesResponse> {
        answer(v1::GetCapabilitiesResponse::default())
    }
}

async fn listen() -> (TcpListenerStream, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = url(listener.local_addr().expect("an address"));
    (TcpListenerStream::new(listener), url)
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

async fn serve() -> (Fake, String) {
    let (incoming, url) = listen().await;
    let fake = Fake::default();
    tokio::spawn(Server::builder().add_service(AdminServiceServer::new(fake.clone())).serve_with_incoming(incoming));
    (fake, url)
}

/// Runs `cloakwork admin` with no environment beyond these settings.
fn admin_as(token: &str, server: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloakwork"));
    // The variable of the tenants' port leads nowhere: no operator's call may go there.
    let command = command.env_clear().env("CLOAKWORK_SERVER", "http://127.0.0.1:1").env("CLOAKWORK_TOKEN", token);
    command.env("CLOAKWORK_OPERATOR_SERVER", server).arg("admin").args(arguments).output().expect("it runs")
}

fn admin(server: &str, arguments: &[&str]) -> Output {
    admin_as("good", server, arguments)
}

/// Standard output of a command that succeeds.
fn text(server: &str, arguments: &[&str]) -> String {
    let output = admin(server, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn document(server: &str, arguments: &[&str]) -> Value {
    let text = text(server, &[&["--json"], arguments].concat());
    // The document itself has no character that could mislead, and its strings keep their values.
    assert!(text.chars().all(|character| character == '\n' || !"\u{1b}\r\u{202e}".contains(character)), "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Standard error of a command.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_all_pages_up_to_the_limit() {
    let (fake, url) = serve().await;
    let names = |document: &Value, list: &str| -> Vec<String> {
        let items = document[list].as_array().expect("a list").iter();
        items.map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
    };
    let hostile = format!("tenants/{HOSTILE}");
    assert_eq!(names(&document(&url, &["tenants", "ls"]), "tenants"), ["tenants/acme", &hostile, "tenants/last"]);
    assert_eq!(names(&document(&url, &["tokens", "ls"]), "tokens"), ["tokens/0123456789ab", "tokens/ba9876543210"]);
    let of_acme = document(&url, &["tokens", "ls", "--tenant", "acme"]);
    assert_eq!(names(&of_acme, "tokens"), ["tokens/0123456789ab"]);
    assert_eq!(document(&url, &["audit"])["entries"].as_array().map(Vec::len), Some(2));
    assert_eq!(document(&url, &["audit", "--limit", "1"])["entries"].as_array().map(Vec::len), Some(1));
    for (limit, pages) in [("0", 0), ("1", 1), ("3", 1), ("7", 3)] {
        fake.pages.store(0, SeqCst);
        let jobs = document(&url, &["jobs", "--limit", limit]);
        assert_eq!(names(&jobs, "jobs").len().to_string(), limit);
        assert_eq!(fake.pages.load(SeqCst), pages, "pages for {limit} jobs");
    }
    document(&url, &["jobs", "--tenant", "acme", "--state", "failed", "--state", "queued", "--limit", "1"]);
    assert_eq!(fake.changes(), ["jobs tenants/acme [4, 1]"]);
    assert_eq!(admin(&url, &["jobs", "--state", "failed"]).status.code(), Some(2), "a state needs a tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_stay_in_their_cells() {
    let (_, url) = serve().await;
    for (arguments, rows) in [
        (&["pools"][..], 1),
        (&["workers"], 4),
        (&["tenants", "ls"], 3),
        (&["tokens", "ls"], 2),
        (&["audit"], 2),
        (&["usage"], 3),
        (&["usage", "--format", "csv"], 2),
    ] {
        let text = text(&url, arguments);
        assert!(text.contains(VISIBLE) || text.contains(&VISIBLE.replace('\\', r"\\")), "{arguments:?}: {text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{arguments:?}");
        assert_eq!(text.lines().count(), rows + 1, "{arguments:?}: {text}");
    }
    let metrics = text(&url, &["usage", "--format", "openmetrics"]);
    assert!(metrics.contains(&VISIBLE.replace('\\', r"\\")) && !metrics.contains('\u{1b}'), "{metrics}");
    let taken = admin(&url, &["tenants", "create", "taken"]);
    assert!(taken.status.code() == Some(4) && said(&taken).contains(VISIBLE), "{}", said(&taken));
    // A worker with a hostile name can be named by its id.
    assert_eq!(text(&url, &["resume", "b2"]), format!("workers/b2 ({VISIBLE}): gets jobs again\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_drained_and_resumed_by_id_or_name() {
    let (fake, url) = serve().await;
    assert_eq!(document(&url, &["resume", "rack 7"]), json!({ "worker": "workers/a1" }));
    let several = admin(&url, &["drain", "twin"]);
    assert!(several.status.code() == Some(2) && said(&several).contains("by its id: c3, d4"), "{}", said(&several));
    let unknown = admin(&url, &["drain", "rack 8"]);
    assert!(
        unknown.status.code() == Some(3) && said(&unknown).contains("`cloakwork admin workers`"),
        "{}",
        said(&unknown)
    );
    assert_eq!(fake.changes(), ["resume workers/a1"]);
    let text = text(&url, &["drain", "workers/a1"]);
    assert_eq!(text, "workers/a1 (rack 7): gets no further jobs, and holds 2 jobs\n");
    assert_eq!(fake.changes(), ["drain workers/a1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_can_wait_for_the_jobs_of_the_worker() {
    let (fake, url) = serve().await;
    let output = admin(&url, &["drain", "rack 7", "--wait"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(shown, "workers/a1 (rack 7): gets no further jobs, and holds 0 jobs\n", "{}", said(&output));
    assert!(said(&output).contains("holds 2 jobs\n") && said(&output).contains("holds 1 job\n"), "{}", said(&output));
    assert_eq!(fake.looks.load(SeqCst), 3);
    // This worker is shown as ready after its drain, as if another operator resumed it.
    let resumed = admin(&url, &["drain", "c3", "--wait"]);
    assert!(resumed.status.code() == Some(1) && said(&resumed).contains("another operator"), "{}", said(&resumed));
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_created_limited_revoked_and_deleted() {
    let (fake, url) = serve().await;
    assert_eq!(text(&url, &["tenants", "create", "new", "--shard", "2"]), "tenants/new: created\n");
    text(&url, &["tenants", "create", "new"]);
    text(&url, &["tenants", "revoke", "tenants/acme"]);
    assert_eq!(fake.changes(), ["create new Some(2)", "create new None", "revoke tenants/acme"]);

    // Without a terminal, nothing is deleted without --yes.
    let refused = admin(&url, &["tenants", "delete", "acme"]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("needs --yes"), "{}", said(&refused));
    assert_eq!(fake.changes(), [""; 0]);
    let deleted = document(&url, &["tenants", "delete", "acme", "--yes"]);
    assert_eq!(deleted, json!({ "tenant": "tenants/acme" }));
    assert_eq!(fake.changes(), ["delete tenants/acme"]);

    // The tenant is on the last page.
    assert_eq!(text(&url, &["tenants", "limits", "last"]), "value  limit\n    7  tenant_keys\n");
    assert_eq!(fake.changes(), [""; 0]);
    let limits = document(&url, &["tenants", "limits", "last", "--set", "tenant_bytes=1000"]);
    assert_eq!(limits["limits"], json!({ "tenant_bytes": 1000 }));
    text(&url, &["tenants", "limits", "last", "--unset", "tenant_keys", "--set", "tenant_bytes=1", "--set", "a=2"]);
    let changes = ["limit tenants/last tenant_bytes=1000", "limit tenants/last tenant_bytes=1 a=2 -tenant_keys"];
    assert_eq!(fake.changes(), changes);
    for (arguments, code) in [
        (&["tenants", "limits", "nobody"][..], 3),
        (&["tenants", "limits", "last", "--unset", "tenant_keys", "--set", "tenant_keys=1"], 2),
    ] {
        assert_eq!(admin(&url, arguments).status.code(), Some(code), "{arguments:?}");
    }
    assert_eq!(fake.changes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_a_token_is_alone_on_standard_output() {
    let (fake, url) = serve().await;
    let made = admin(&url, &["tokens", "create", "--tenant", "acme", "--scopes", "read,jobs", "--note", "a note"]);
    assert_eq!(String::from_utf8_lossy(&made.stdout), format!("{SECRET}\n"));
    assert!(said(&made).contains("public part 0123456789ab") && !said(&made).contains(SECRET), "{}", said(&made));
    let shown = document(&url, &["tokens", "create", "--tenant", "acme", "--days", "0"]);
    assert_eq!((&shown["secret"], &shown["token"]["tenant"]), (&json!(SECRET), &json!("acme")));
    text(&url, &["tokens", "revoke", "cw_0123456789ab"]);
    let changes = [
        "token tenants/acme jobs,read 90 a note",
        "token tenants/acme jobs,keys,read 0 ",
        "revoke tokens/0123456789ab",
    ];
    assert_eq!(fake.changes(), changes);
    // A whole token as an id is refused, and not repeated.
    let whole = admin(&url, &["tokens", "revoke", SECRET]);
    assert!(whole.status.code() == Some(2) && !said(&whole).contains(SECRET), "{}", said(&whole));
    // A server's text that is no token does not reach the terminal.
    let hostile = admin(&url, &["tokens", "create", "--tenant", "hostile"]);
    assert!(!hostile.status.success() && hostile.stdout.is_empty(), "{}", said(&hostile));
    // A token that cannot be printed can be revoked.
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloakwork"));
    command
        .env_clear()
        .env("CLOAKWORK_TOKEN", "good")
        .args(["admin", "--server", &url, "tokens", "create", "--tenant", "acme"]);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full disk");
    let lost = command.stdout(full).output().expect("it runs");
    assert!(lost.status.code() == Some(1) && said(&lost).contains("tokens revoke 0123456789ab"), "{}", said(&lost));
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_asked_for_by_tenant_and_day_and_printed_in_each_form() {
    let (_, url) = serve().await;
    let acme = ["usage", "--tenant", "acme", "--from", "2026-01-01", "--to", "2026-01-31"];
    let days = document(&url, &acme);
    assert_eq!(
        (&days[0]["tenant"], &days[0]["day"], &days[1]["day"]),
        (&json!("tenants/acme"), &json!("2026-01-01"), &json!("2026-01-31"))
    );
    assert_eq!(days[1]["tenant"], json!(HOSTILE));
    let as_format: Value =
        serde_json::from_str(&text(&url, &[&acme[..], &["--format", "json"]].concat())).expect("JSON");
    assert_eq!(as_format, days);
    let table = text(&url, &acme);
    let totals: Vec<&str> = table.lines().last().expect("totals").split_whitespace().collect();
    assert_eq!(totals[..3], ["total", "-", "8"], "{table}");
    let csv = text(&url, &[&acme[..], &["--format", "csv"]].concat());
    assert!(
        csv.starts_with("tenant,day,jobs,")
            && csv.contains("\r\ntenants/acme,2026-01-01,4,0,0,0.000000,0,7200000000000,0\r\n"),
        "{csv}"
    );
    let metrics = text(&url, &[&acme[..], &["--format", "openmetrics"]].concat());
    assert!(
        metrics.contains("cloakwork_usage_jobs_total{tenant=\"tenants/acme\",day=\"2026-01-01\"} 4\n"),
        "{metrics}"
    );
    assert!(metrics.ends_with("\n# EOF\n"), "{metrics}");
    for (arguments, code) in [
        (&["usage", "--from", "2026-02-01", "--to", "2026-01-01"][..], 2),
        (&["--json", "usage", "--format", "csv"], 2),
        (&["usage", "--tenant", "nan"], 1),
    ] {
        assert_eq!(admin(&url, arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_the_remedy() {
    let (fake, url) = serve().await;
    for (token, expected) in [("bad", "token create --tenant TENANT --scopes admin"), ("tenant", "the scope admin")] {
        let refused = admin_as(token, &url, &["workers"]);
        assert!(refused.status.code() == Some(4) && said(&refused).contains(expected), "{}", said(&refused));
        assert!(!said(&refused).contains(&format!("Bearer {token}")), "{}", said(&refused));
    }
    let (incoming, tenants) = listen().await;
    tokio::spawn(Server::builder().add_service(CapabilityServiceServer::new(Tenants)).serve_with_incoming(incoming));
    let wrong = admin(&tenants, &["pools"]);
    assert_eq!(wrong.status.code(), Some(4));
    assert!(
        said(&wrong).contains("the port of tenants") && said(&wrong).contains("listen.operator_address"),
        "{}",
        said(&wrong)
    );
    let failure = admin(&tenants, &["--json", "pools"]);
    let failure: Value = serde_json::from_slice(&failure.stderr).expect("a document");
    assert_eq!((&failure["error"]["code"], &failure["error"]["exit_code"]), (&json!("Unimplemented"), &json!(4)));
    // A change is made once, even where a read would be repeated.
    let busy = admin(&url, &["tenants", "create", "busy"]);
    assert!(
        busy.status.code() == Some(5) && said(&busy).contains("`cloakwork admin tenants ls` shows it"),
        "{}",
        said(&busy)
    );
    assert_eq!(fake.changes(), ["create busy None"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_closes_is_reported_with_what_may_have_happened() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closing = url(listener.local_addr().expect("an address"));
    // Takes each request, and closes the connection without an answer.
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let _ = connection.and_then(|mut connection| connection.read(&mut [0; 1024]));
        }
    });
    let read = admin(&closing, &["pools"]);
    assert!(read.status.code() == Some(5) && said(&read).contains("listen.operator_address"), "{}", said(&read));
    assert!(!said(&read).contains("if the call arrived"), "{}", said(&read));
    let change = admin(&closing, &["tokens", "create", "--tenant", "acme"]);
    assert!(change.status.code() == Some(5) && change.stdout.is_empty(), "{}", said(&change));
    assert!(said(&change).contains("`cloakwork admin tokens ls --tenant acme` shows it"), "{}", said(&change));
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let absent = admin(&url(free), &["workers"]);
    assert!(
        absent.status.code() == Some(5) && said(&absent).contains("CLOAKWORK_OPERATOR_SERVER"),
        "{}",
        said(&absent)
    );
}
