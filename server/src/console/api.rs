//! The calls of the console's pages, in JSON. `server/console` describes them for the pages.

mod view;

use std::{net::IpAddr, sync::Arc};

use axum::{
    Extension, Json,
    extract::{Query, State, rejection::JsonRejection},
    http::{
        HeaderMap, StatusCode,
        header::{ORIGIN, RETRY_AFTER, SET_COOKIE},
    },
    response::{IntoResponse, Response},
};
use cloakwork_clock::unix_day;
use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::JobId;
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::Code;
use uuid::Uuid;

use super::{
    Console,
    sessions::{SESSION_SECONDS, Session},
};
use crate::{
    audit::Act,
    auth::{Peer, Principal, Scope},
    database,
    error::{ApiError, INTERNAL, INVALID_ARGUMENT, PERMISSION_DENIED, UNAUTHENTICATED, quoted},
    jobs::id,
    resource::{JobName, KeyName, WorkerName},
    tenant::Tenant,
};

/// Number of rows of a page.
const PAGE_ROWS: u32 = 50;

/// Maximum number of tenants that the console lists.
const CONSOLE_TENANTS_MAX: u32 = 1000;

/// Maximum number of days of usage that the console shows.
const USAGE_DAYS_MAX: i64 = 400;

/// Maximum number of rows of usage that the console shows: thirty days of all tenants that the
/// console lists.
const CONSOLE_USAGE_ROWS_MAX: u32 = 30_000;

/// An error as an answer.
pub(super) struct Refusal(Box<Response>);

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        *refusal.0
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        let status = match error.reason().grpc {
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => StatusCode::BAD_REQUEST,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        refusal(status, &error)
    }
}

pub(super) fn refusal(status: StatusCode, error: &ApiError) -> Refusal {
    let body = json!({"error": {"reason": error.reason().code, "message": error.message()}});
    let mut response = (status, Json(body)).into_response();
    if let Some(delay) = error.retry_delay() {
        response.headers_mut().insert(RETRY_AFTER, delay.as_secs().saturating_add(1).into());
    }
    Refusal(Box::new(response))
}

type Answer = Result<Json<Value>, Refusal>;
type Body<T> = Result<Json<T>, JsonRejection>;

/// The body of a request, or a refusal that does not repeat the body.
fn body<T>(body: Body<T>) -> Result<T, Refusal> {
    match body {
        Ok(Json(body)) => Ok(body),
        Err(rejection) => {
            Err(refusal(rejection.status(), &INVALID_ARGUMENT.error("the body of the request is malformed")))
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Login {
    link: Option<String>,
    token: Option<String>,
}

/// Begins a session.
pub(super) async fn login(
    State(console): State<Arc<Console>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    login: Body<Login>,
) -> Result<Response, Refusal> {
    let (actor, principal) = match body(login)? {
        Login { link: Some(code), token: None } => by_link(&console, peer, &code)?,
        Login { link: None, token: Some(token) } => by_token(&console, peer, &token).await?,
        _ => return Err(INVALID_ARGUMENT.error("send either a link or a token").into()),
    };
    let begun = console.sessions.begin(actor, principal);
    let (session, cookie) = begun.map_err(|error| INTERNAL.error(format!("no randomness: {error}")))?;
    let act = Act { act: "log in", subject: "console".to_owned(), detail: String::new() };
    console.operators.tokens.by(&session.actor).note_alone(act).await.map_err(database::failed)?;
    // TLS may end at a proxy.
    let is_secure =
        console.has_tls || headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https:"));
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{}={}; Path=/console; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS}{secure}",
        console.cookie_name(),
        cookie.reveal()
    );
    let mut body = view::session(&session, console.has_writes);
    body["csrf"] = session.csrf.reveal().into();
    Ok(([(SET_COOKIE, cookie)], Json(body)).into_response())
}

fn by_link(console: &Console, peer: Peer, code: &str) -> Result<(String, Principal), ApiError> {
    // The right link works at once, also while others at the same address guess. Guessing 256 bits
    // is hopeless.
    if console.link.as_ref().is_some_and(|link| link.redeem(code)) {
        let principal = Principal::without_token(Tenant::local(), [Scope::Admin].into_iter().collect());
        return Ok(("console at this machine".to_owned(), principal));
    }
    let message = "the link was used already, or is of an earlier start: `cloakwork-server console` prints a new one";
    let error = UNAUTHENTICATED.error(message);
    console.operators.audit.refused(peer.address(), LOGIN, &error);
    console.failures(peer)?;
    console.failed(peer);
    Err(error)
}

/// The login, as the audit log names it.
const LOGIN: &str = "/console/api/login";

async fn by_token(console: &Console, peer: Peer, token: &str) -> Result<(String, Principal), ApiError> {
    let is_near = |address: IpAddr| address.to_canonical().is_loopback() || console.trusted_networks.contains(address);
    if !console.has_tls && !console.is_on_loopback && !peer.ip().is_some_and(is_near) {
        let message = "a token would travel unencrypted: set listen.admin_tls, connect through a tunnel to this machine, \
                       or add your network to console.trusted_networks";
        return Err(PERMISSION_DENIED.error(message));
    }
    match console.authenticator.operator(token, peer.address()).await {
        Ok(principal) => Ok((format!("console, {}", principal.actor()), principal)),
        Err(error) => {
            if matches!(error.reason().grpc, Code::Unauthenticated | Code::PermissionDenied) {
                console.failed(peer);
                console.operators.audit.refused(peer.address(), LOGIN, &error);
            }
            Err(error)
        }
    }
}

/// Ends the session.
pub(super) async fn logout(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    if let Some(cookie) = console.cookie(&headers) {
        console.sessions.end(cookie);
    }
    let gone = format!("{}=; Path=/console; HttpOnly; SameSite=Strict; Max-Age=0", console.cookie_name());
    ([(SET_COOKIE, gone)], Json(json!({}))).into_response()
}

pub(super) async fn session(
    State(console): State<Arc<Console>>,
    Extension(session): Extension<Session>,
) -> Json<Value> {
    Json(view::session(&session, console.has_writes))
}

pub(super) async fn overview(State(console): State<Arc<Console>>) -> Answer {
    let snapshot = console.operators.snapshot().await?;
    let samples = console.telemetry.pulse.samples();
    Ok(Json(view::overview(&console, &snapshot, &samples)))
}

#[derive(Deserialize)]
pub(super) struct JobsOf {
    before: Option<String>,
    tenant: Option<String>,
    state: Option<String>,
}

pub(super) async fn jobs(State(console): State<Arc<Console>>, Query(wanted): Query<JobsOf>) -> Answer {
    let before = wanted.before.as_deref().map(job_id).transpose()?;
    let tenant = wanted.tenant.as_deref().map(Tenant::new).transpose()?;
    let state: Vec<JobState> = wanted.state.as_deref().map(state).into_iter().collect::<Result<_, _>>()?;
    let page = console.operators.jobs(tenant.as_ref().map(Tenant::as_str), &state, before, PAGE_ROWS).await?;
    let jobs: Vec<Value> = page.jobs.iter().map(|job| view::job(&job.to_proto(), &job.meta, false)).collect();
    Ok(Json(json!({"jobs": jobs, "next": page.next.map(id::to_text)})))
}

fn state(name: &str) -> Result<JobState, ApiError> {
    let unknown = || INVALID_ARGUMENT.error(format!("{} is not a job state", quoted(name)));
    view::STATES.iter().find(|(_, known)| *known == name).map(|(state, _)| *state).ok_or_else(unknown)
}

#[derive(Deserialize)]
pub(super) struct Named {
    name: String,
}

pub(super) async fn job(State(console): State<Arc<Console>>, Query(Named { name }): Query<Named>) -> Answer {
    let view = console.operators.job(&JobName::parse(&name)?).await?;
    Ok(Json(view::job(&view.to_proto(), &view.meta, true)))
}

pub(super) async fn cancel(
    State(console): State<Arc<Console>>,
    Extension(session): Extension<Session>,
    named: Body<Named>,
) -> Answer {
    console.operators.cancel(&session.actor, &JobName::parse(&body(named)?.name)?).await?;
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
pub(super) struct OfWorker {
    worker: String,
}

pub(super) async fn drain(
    State(console): State<Arc<Console>>,
    Extension(session): Extension<Session>,
    worker: Body<OfWorker>,
) -> Answer {
    set_drained(&console, &session, &body(worker)?.worker, true).await
}

pub(super) async fn resume(
    State(console): State<Arc<Console>>,
    Extension(session): Extension<Session>,
    worker: Body<OfWorker>,
) -> Answer {
    set_drained(&console, &session, &body(worker)?.worker, false).await
}

async fn set_drained(console: &Console, session: &Session, name: &str, is_drained: bool) -> Answer {
    console.operators.set_drained(&session.actor, WorkerName::parse(name)?, is_drained).await?;
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
pub(super) struct After {
    after: Option<String>,
}

pub(super) async fn keys(State(console): State<Arc<Console>>, Query(page): Query<After>) -> Answer {
    let after = page.after.as_deref().map(KeyName::parse).transpose()?;
    let mut keys = console.operators.keys(after.as_ref(), PAGE_ROWS + 1).await?;
    let has_more = keys.len() > PAGE_ROWS as usize;
    keys.truncate(PAGE_ROWS as usize);
    let next = keys.last().filter(|_| has_more).map(|last| format!("tenants/{}/keys/{}", last.tenant, last.key_id));
    let residents = console.operators.residents();
    let keys: Vec<Value> = keys.iter().map(|key| view::key(key, &residents)).collect();
    Ok(Json(json!({"keys": keys, "next": next})))
}

pub(super) async fn tenants(State(console): State<Arc<Console>>) -> Answer {
    let operators = &console.operators;
    let rows = operators.tokens.tenants_after("", CONSOLE_TENANTS_MAX).await.map_err(database::failed)?;
    let limits = operators.own_limits().await?;
    let tenants: Vec<Value> = rows.iter().map(|row| view::tenant(row, &limits)).collect();
    Ok(Json(json!({"tenants": tenants})))
}

#[derive(Deserialize)]
pub(super) struct UsageOf {
    days: Option<i64>,
    tenant: Option<String>,
}

pub(super) async fn usage(State(console): State<Arc<Console>>, Query(wanted): Query<UsageOf>) -> Answer {
    let tenant = wanted.tenant.as_deref().map(Tenant::new).transpose()?;
    let today = unix_day(console.clock.unix_micros());
    let count = wanted.days.unwrap_or(30).clamp(1, USAGE_DAYS_MAX);
    let (tenant, days) = (tenant.as_ref().map(Tenant::as_str), today - count + 1..=today);
    let rows = console.operators.usage(tenant, Some(days), CONSOLE_USAGE_ROWS_MAX).await?;
    let days: Vec<Value> = rows.iter().map(view::usage).collect();
    Ok(Json(json!({"days": days})))
}

pub(super) async fn errors(State(console): State<Arc<Console>>) -> Json<Value> {
    let reasons: Vec<Value> = console.telemetry.pulse.reasons().into_iter().map(view::reason).collect();
    Json(json!({"reasons": reasons}))
}

#[derive(Deserialize)]
pub(super) struct Before {
    before: Option<String>,
}

pub(super) async fn audit(State(console): State<Arc<Console>>, Query(page): Query<Before>) -> Answer {
    let before = page.before.as_deref().map(job_id).transpose()?.map(id::to_bytes);
    let mut entries = console.operators.audit.page(before, PAGE_ROWS + 1).await.map_err(database::failed)?;
    let has_more = entries.len() > PAGE_ROWS as usize;
    entries.truncate(PAGE_ROWS as usize);
    let next = entries.last().filter(|_| has_more).map(view::entry_id);
    let entries: Vec<Value> = entries.iter().map(view::entry).collect();
    Ok(Json(json!({"entries": entries, "next": next})))
}

/// An ID of a job or of an audit entry.
fn job_id(text: &str) -> Result<JobId, ApiError> {
    let id = Uuid::try_parse(text).map_err(|_| INVALID_ARGUMENT.error("the page does not begin at an ID"))?;
    Ok(JobId(id.as_u128()))
}
