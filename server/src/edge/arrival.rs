//! The first step of every request: checks that it is a gRPC call, determines the caller's address,
//! and copies the parts that the server keeps.
//!
//! A name, value or path that the HTTP library returns is a slice of a connection buffer, and keeps
//! the whole buffer in memory. HPACK lets a caller fill a header list with a few bytes. So the
//! request continues with copies of the headers that the server reads. The library's own headers
//! are dropped before the next request is decoded.

use std::sync::Arc;

use cloakwork_proto::{SHARD_OF_WORKER, is_loopback};
use cloakwork_trace::TRACEPARENT;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, FORWARDED, HOST, TE, VIA},
    request::Parts,
    uri::Authority,
};

use crate::{
    address::TrustedProxies,
    auth::{
        Peer,
        policy::{self, Load},
    },
    connection::{OpenCall, Slot, UnreadBody},
    error::{ApiError, INVALID_ARGUMENT, REQUEST_TOO_LARGE},
};

/// Headers that the server reads. All other headers are dropped.
const KEPT: [HeaderName; 9] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    TE,
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static(FORWARDED_BY_SERVER),
    HeaderName::from_static(SHARD_OF_WORKER),
    HeaderName::from_static(TRACEPARENT),
];

/// Header of a call that another server has passed on.
pub(super) const FORWARDED_BY_SERVER: &str = "cloakwork-forwarded";

/// Headers that proxies add. A request with one of these headers counts neither as direct nor as
/// certified, because the certificate would be the proxy's.
const FORWARDING: [HeaderName; 5] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
];

/// Maximum length of a kept header value in bytes.
const KEPT_HEADER_BYTES_MAX: usize = 1 << 10;

/// Maximum length of the header with the token in bytes. A token of the server has fewer than 100
/// bytes, and a token of an issuer up to 8 KiB.
const TOKEN_HEADER_BYTES_MAX: usize = (8 << 10) + 16;

/// Maximum number of values kept for each header. The second value is kept so that a call with two
/// tokens can be refused.
const KEPT_VALUES_MAX: usize = 2;

/// Memory of a call before its authentication in bytes: its task, its HTTP/2 stream, the headers
/// that the server keeps, and its answer.
const CALL_BYTES: u64 = 24 << 10;

/// Memory in bytes of a call that needs no token and has a stream of answers. The reader may leave
/// four answers unread: in the handler, in its channel, before the HTTP library and in it. An
/// answer of reflection has up to 24 KiB.
const STREAM_CALL_BYTES: u64 = 128 << 10;

/// The charge of an unauthenticated connection for a call that is not authenticated yet. Stored in
/// the extensions of a request.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    /// The charge for the call itself, held until the call is authenticated or answered.
    pub(super) call: Arc<OpenCall>,
    #[expect(dead_code, reason = "the charge for received bytes ends when it is dropped")]
    body: Arc<UnreadBody>,
}

/// The reason why a request is refused here: an HTTP status, and the gRPC error.
pub(super) type Refusal = (StatusCode, ApiError);

/// Receives the requests of one connection.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    pub(super) slot: Arc<Slot>,
    /// The peer at the other end of the connection.
    pub(super) peer: Peer,
    pub(super) proxies: Arc<TrustedProxies>,
    pub(super) header_fields_max: u64,
}

impl Arrivals {
    /// Checks a request, and returns its caller with the request or the refusal.
    pub(super) fn receive<B>(&self, request: Request<B>) -> (Peer, Result<Request<B>, Refusal>) {
        let (parts, body) = request.into_parts();
        (self.caller(&parts), self.checked(parts, body))
    }

    fn caller(&self, parts: &Parts) -> Peer {
        let Peer::Network { address, certified, .. } = self.peer else { return self.peer };
        if self.proxies.contains(address) {
            // The certificate belongs to the proxy, and does not identify the caller.
            let address = self.proxies.caller(address, &parts.headers);
            return Peer::Network { address, certified: false, direct: false };
        }
        let forwarded = FORWARDING.iter().any(|name| parts.headers.contains_key(name));
        Peer::Network { address, certified: certified && !forwarded, direct: !forwarded && is_for_loopback(parts) }
    }

    fn checked<B>(&self, parts: Parts, body: B) -> Result<Request<B>, Refusal> {
        if parts.method != Method::POST {
            let error = INVALID_ARGUMENT.error("a gRPC call is a POST request");
            return Err((StatusCode::METHOD_NOT_ALLOWED, error));
        }
        if !is_grpc(&parts.headers) {
            let error = INVALID_ARGUMENT.error("the content type of a gRPC call is application/grpc");
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
        }
        self.rebuilt(parts, body).map_err(|error| (StatusCode::OK, error))
    }

    /// Builds the request anew from copies of the parts that the server reads.
    fn rebuilt<B>(&self, parts: Parts, body: B) -> Result<Request<B>, ApiError> {
        let (fields, fields_max) = (parts.headers.len(), self.header_fields_max);
        if fields as u64 > fields_max {
            let message = format!("the call has {fields} header fields: at most {fields_max} (header_fields)");
            return Err(REQUEST_TOO_LARGE.error(message).with("limit", "header_fields"));
        }
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        let rule = policy::rule(parts.uri.path());
        // A path without a rule becomes `/`, which the policy refuses as an unknown method.
        *request.uri_mut() = Uri::from_static(rule.map_or("/", |rule| rule.method));
        *request.headers_mut() = kept(&parts.headers)?;
        if !self.slot.is_authenticated() {
            let has_stream = rule.is_some_and(|rule| rule.load == Load::ProbeStream);
            let call = Arc::new(self.slot.open_call(if has_stream { STREAM_CALL_BYTES } else { CALL_BYTES }));
            let body = Arc::new(self.slot.open_body());
            request.extensions_mut().insert(Charge { call, body });
        }
        request.extensions_mut().insert(self.slot.clone());
        Ok(request)
    }
}

/// Whether the content type is `application/grpc`, optionally with a message format and parameters.
fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let rest = value.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'+' | b';' | b' ')))
}

/// Whether the request's authority is a name or address of the loopback interface, or absent.
fn is_for_loopback(parts: &Parts) -> bool {
    match (parts.uri.authority(), parts.headers.get(HOST)) {
        (Some(authority), _) => is_loopback(authority.host()),
        (None, Some(host)) => Authority::try_from(host.as_bytes()).is_ok_and(|host| is_loopback(host.host())),
        (None, None) => true,
    }
}

/// Returns copies of the headers that the server reads, or refuses a value that is too long.
fn kept(headers: &HeaderMap) -> Result<HeaderMap, ApiError> {
    let mut copies = HeaderMap::with_capacity(KEPT.len());
    for name in KEPT {
        for value in headers.get_all(&name).into_iter().take(KEPT_VALUES_MAX) {
            let bytes_max = if name == AUTHORIZATION { TOKEN_HEADER_BYTES_MAX } else { KEPT_HEADER_BYTES_MAX };
            if value.len() > bytes_max {
                let message = format!("the header {name} has {} bytes: at most {bytes_max}", value.len());
                return Err(REQUEST_TOO_LARGE.error(message));
            }
            // The conversion cannot fail, because the bytes come from a valid header value.
            if let Ok(mut copy) = HeaderValue::from_bytes(value.as_bytes()) {
                copy.set_sensitive(name == AUTHORIZATION);
                copies.append(name.clone(), copy);
            }
        }
    }
    Ok(copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        fields.collect()
    }

    fn request(method: &str, uri: &str, fields: &[(&'static str, &str)]) -> Parts {
        let mut parts = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0;
        parts.headers = headers(fields);
        parts
    }

    #[test]
    fn only_grpc_content_types_are_accepted() {
        let is_grpc = |value| super::is_grpc(&headers(&[("content-type", value)]));
        for value in ["application/grpc", "application/grpc+proto", "application/grpc; charset=utf-8"] {
            assert!(is_grpc(value), "{value}");
        }
        for value in ["", "application/json", "application/grpc-web", "application/grpcx", "text/plain"] {
            assert!(!is_grpc(value), "{value}");
        }
        assert!(!super::is_grpc(&HeaderMap::new()));
    }

    #[test]
    fn a_name_of_this_machine_is_loopback_and_others_are_not() {
        for uri in ["http://127.0.0.1:7270/x", "http://localhost/x", "http://[::1]:7270/x", "/x"] {
            assert!(is_for_loopback(&request("POST", uri, &[])), "{uri}");
        }
        for uri in ["http://fhe.example.org/x", "http://10.0.0.7:7270/x", "http://localhost.example.org/x"] {
            assert!(!is_for_loopback(&request("POST", uri, &[])), "{uri}");
        }
        assert!(!is_for_loopback(&request("POST", "/x", &[("host", "fhe.example.org")])));
        assert!(!is_for_loopback(&request("POST", "/x", &[("host", "\u{ff}")])));
    }

    #[test]
    fn headers_that_the_server_does_not_read_are_dropped() {
        let given = headers(&[("authorization", "Bearer x"), ("te", "trailers"), ("x-other", "y"), ("cookie", "z")]);
        assert_eq!(kept(&given).unwrap(), headers(&[("authorization", "Bearer x"), ("te", "trailers")]));
        assert!(kept(&given).unwrap()[AUTHORIZATION].is_sensitive());
    }

    /// A call whose token were dropped would count as an anonymous call.
    #[test]
    fn a_header_that_is_too_long_is_refused_and_not_dropped() {
        for (name, bytes_max) in [("authorization", TOKEN_HEADER_BYTES_MAX), ("grpc-timeout", KEPT_HEADER_BYTES_MAX)] {
            let long = "x".repeat(bytes_max + 1);
            let error = kept(&headers(&[(name, &long)])).unwrap_err();
            assert_eq!(error.reason(), REQUEST_TOO_LARGE, "{name}");
            assert!(kept(&headers(&[(name, &long[1..])])).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_second_token_is_kept_so_that_it_is_refused() {
        let mut given = headers(&[("authorization", "Bearer a")]);
        for _ in 0..100 {
            given.append(AUTHORIZATION, "Bearer b".parse().unwrap());
        }
        assert_eq!(kept(&given).unwrap().get_all(AUTHORIZATION).iter().count(), KEPT_VALUES_MAX);
    }
}
