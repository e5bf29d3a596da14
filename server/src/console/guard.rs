//! The checks that requests to the console pass: host, origin, session, and the right to write.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::Next,
    response::Response,
};
use tokio::time::timeout;

use super::{
    Console,
    api::{Refusal, refusal},
    sessions::Session,
};
use crate::{
    auth::Credential,
    database,
    error::{DEADLINE_EXCEEDED, PERMISSION_DENIED, UNAUTHENTICATED},
};

/// Header with the session's second secret. Browsers send cookies to all ports of a host, but not
/// this header.
const CSRF_HEADER: &str = "x-csrf-token";

/// Scripts, styles and calls come from the console itself, and no page frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Time for a request, with its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Ends a request whose body does not arrive.
pub(super) async fn in_time(request: Request, next: Next) -> Response {
    match timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let error = DEADLINE_EXCEEDED.error("the request took more than ten seconds");
            refusal(StatusCode::REQUEST_TIMEOUT, &error).into()
        }
    }
}

/// Refuses hosts that are not the console's, and requests to change something that come from
/// another site. Adds the headers that every answer has.
pub(super) async fn hosts(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let mut response = match check_host(&console, request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into(),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check_host(console: &Console, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let misdirected =
        |message: &str| refusal(StatusCode::MISDIRECTED_REQUEST, &PERMISSION_DENIED.error(message.to_owned()));
    let host = only(headers, HOST.as_str()).filter(|host| console.hosts.allows(host));
    let Some(host) = host else {
        return Err(misdirected("the console has no such host name: use an address, or add the name to console.hosts"));
    };
    if *method == Method::GET || *method == Method::HEAD {
        return Ok(());
    }
    // TLS may end at a proxy, so the scheme may differ from the one of this port.
    let origin = only(headers, ORIGIN.as_str())
        .and_then(|origin| origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://")));
    match origin {
        Some(origin) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(refusal(StatusCode::FORBIDDEN, &PERMISSION_DENIED.error("the request comes from another site"))),
    }
}

/// The value of a header that is there once.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Finds the session of a request, or refuses the request. The handler gets the session.
pub(super) async fn session(State(console): State<Arc<Console>>, mut request: Request, next: Next) -> Response {
    match console.cookie(request.headers()).and_then(|cookie| console.sessions.find(cookie)) {
        Some(session) => {
            if !has_csrf(&session, request.headers()) {
                let error = UNAUTHENTICATED.error("the request has not the secret of its session: log in again");
                return refusal(StatusCode::UNAUTHORIZED, &error).into();
            }
            if let Some(ended) = void(&console, &session).await {
                return ended.into();
            }
            request.extensions_mut().insert(session);
            next.run(request).await
        }
        None => refusal(StatusCode::UNAUTHORIZED, &UNAUTHENTICATED.error("log in to the console")).into(),
    }
}

/// The refusal of a session whose token or tenant was revoked.
async fn void(console: &Console, session: &Session) -> Option<Refusal> {
    let tokens = &console.operators.tokens;
    let is_valid = match &session.principal.credential {
        Credential::Connection => return None,
        Credential::Token(token) => tokens.is_valid(token).await,
        // The session ends with the token. The tenant may end earlier.
        Credential::Issued { .. } => {
            let standing = tokens.standing(&session.principal.tenant).await;
            standing.map(|standing| standing.is_some_and(|(_, is_revoked)| !is_revoked))
        }
    };
    match is_valid {
        Ok(true) => None,
        Ok(false) => {
            let error = UNAUTHENTICATED.error("the token of the session or its tenant was revoked, or has expired");
            Some(refusal(StatusCode::UNAUTHORIZED, &error))
        }
        Err(error) => Some(database::failed(error).into()),
    }
}

/// Refuses changes unless the settings permit them.
pub(super) async fn writes(
    State(console): State<Arc<Console>>,
    Extension(_): Extension<Session>,
    request: Request,
    next: Next,
) -> Response {
    if console.has_writes {
        return next.run(request).await;
    }
    let error =
        PERMISSION_DENIED.error("the console is read-only: set console.writes = true, or use `cloakwork admin`");
    refusal(StatusCode::FORBIDDEN, &error).into()
}

impl Console {
    /// Name of the session's cookie, which no other process uses. Consoles at several ports of a
    /// host have several sessions.
    pub(super) fn cookie_name(&self) -> &str {
        &self.cookie_name
    }

    /// The cookie of the session, if the request has one.
    pub(super) fn cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        cookie(headers, self.cookie_name())
    }
}

/// The value of a cookie that is there once.
fn cookie<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(name, _)| *name == wanted);
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}

fn has_csrf(session: &Session, headers: &HeaderMap) -> bool {
    only(headers, CSRF_HEADER).is_some_and(|secret| session.csrf.is(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(cookie(&headers, "session"), None);
        headers.append(COOKIE, HeaderValue::from_static("a=1; session2=x"));
        headers.append(COOKIE, HeaderValue::from_static("b=2; session=secret; c=3"));
        assert_eq!(cookie(&headers, "session"), Some("secret"));
        // Another port of the host may have planted a second one.
        headers.append(COOKIE, HeaderValue::from_static("session=planted"));
        assert_eq!(cookie(&headers, "session"), None);
    }
}
