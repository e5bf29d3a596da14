//! What becomes of a request before anything else happens to it: all that is kept of it is copied.
//!
//! A name, value or path that the HTTP library returns is a slice of a buffer of the connection, and keeps that whole
//! buffer in memory. HPACK lets a caller fill a header list with a few bytes. So a request goes on with copies of the
//! headers that the server reads, and the library's own headers are dropped before the next request is decoded.

use std::sync::Arc;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, TE},
};

use crate::{
    auth::policy,
    connection::{OpenCall, Slot, UnreadBody},
    error::{ApiError, REQUEST_TOO_LARGE},
};

/// Headers that the server reads. All others are dropped.
const KEPT: [HeaderName; 6] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    TE,
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-timeout"),
];

/// Bytes of a header that is kept. A token has less than a hundred.
const KEPT_HEADER_BYTES_MAX: usize = 1 << 10;

/// Values of a header that are kept. The second one is kept so that a call with two tokens can be refused.
const KEPT_VALUES_MAX: usize = 2;

/// What an unauthenticated connection is charged with while a call is not authenticated. In the extensions of a request.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) call: Arc<OpenCall>,
    pub(super) body: Arc<UnreadBody>,
}

/// Takes a request from a connection.
pub(super) fn receive<B>(slot: &Arc<Slot>, header_fields: u64, request: Request<B>) -> Result<Request<B>, ApiError> {
    let (parts, body) = request.into_parts();
    let fields = parts.headers.len();
    if fields as u64 > header_fields {
        let message = format!("the call has {fields} header fields: at most {header_fields} (header_fields)");
        return Err(REQUEST_TOO_LARGE.error(message).with("limit", "header_fields"));
    }
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    // A path that has no rule is refused like any other.
    *request.uri_mut() = Uri::from_static(policy::rule(parts.uri.path()).map_or("/", |rule| rule.method));
    *request.headers_mut() = kept(&parts.headers)?;
    if !slot.is_authenticated() {
        let charge = Charge { call: Arc::new(slot.open_call()), body: Arc::new(slot.open_body()) };
        request.extensions_mut().insert(charge);
    }
    request.extensions_mut().insert(slot.clone());
    Ok(request)
}

/// Copies of the headers that the server reads.
fn kept(headers: &HeaderMap) -> Result<HeaderMap, ApiError> {
    let mut copies = HeaderMap::with_capacity(KEPT.len());
    for name in KEPT {
        for value in headers.get_all(&name).into_iter().take(KEPT_VALUES_MAX) {
            if value.len() > KEPT_HEADER_BYTES_MAX {
                let message = format!("the header {name} has {} bytes: at most {KEPT_HEADER_BYTES_MAX}", value.len());
                return Err(REQUEST_TOO_LARGE.error(message));
            }
            // A value that was a header's is a header's value.
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

    #[test]
    fn headers_that_the_server_does_not_read_are_dropped() {
        let given = headers(&[("authorization", "Bearer x"), ("te", "trailers"), ("x-other", "y"), ("cookie", "z")]);
        assert_eq!(kept(&given).unwrap(), headers(&[("authorization", "Bearer x"), ("te", "trailers")]));
        assert!(kept(&given).unwrap()[AUTHORIZATION].is_sensitive());
    }

    /// A call whose token is dropped would be an anonymous one.
    #[test]
    fn a_header_that_is_too_long_is_refused_and_not_dropped() {
        let long = "x".repeat(KEPT_HEADER_BYTES_MAX + 1);
        let error = kept(&headers(&[("authorization", &long)])).unwrap_err();
        assert_eq!(error.reason(), REQUEST_TOO_LARGE);
        assert!(kept(&headers(&[("authorization", &long[1..])])).is_ok());
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
