//! The state and the outcome of a running call: every error gets a reason, and every call is
//! counted by its outcome.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    error::{ApiError, INTERNAL, INVALID_ARGUMENT, METHOD_UNKNOWN, REQUEST_TOO_LARGE, Reason, code_name},
    metrics::Telemetry,
};

/// Counts its call when dropped. If no outcome was set before, the caller has gone away, and
/// the call counts as cancelled.
#[derive(Debug)]
pub(super) struct Call {
    telemetry: Arc<Telemetry>,
    method: &'static str,
    begin: Instant,
    code: Code,
    reason: Option<&'static str>,
    request: RequestState,
}

/// Whether the request of a call broke off. The reader of the request body sets the flag. The call
/// then counts as cancelled, whatever error its handler returns for the incomplete request.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestState(Arc<AtomicBool>);

impl RequestState {
    /// Notes that the request broke off, and returns the error for its reader.
    pub(super) fn break_off(&self) -> Status {
        self.0.store(true, Relaxed);
        // The fault is not the server's, so this error must not be counted as `INTERNAL`.
        Status::cancelled("the request broke off")
    }

    fn is_broken(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Call {
    pub(super) fn begin(telemetry: Arc<Telemetry>, method: &'static str) -> Self {
        Self {
            telemetry,
            method,
            begin: Instant::now(),
            code: Code::Cancelled,
            reason: None,
            request: RequestState::default(),
        }
    }

    /// The flag that the reader of the request body sets when the request breaks off.
    pub(super) fn request(&self) -> RequestState {
        self.request.clone()
    }

    /// Notes the outcome of the call from headers or trailers. An error without a reason gets a
    /// reason.
    pub(super) fn end(&mut self, headers: &mut HeaderMap) {
        let Some(status) = Status::from_header_map(headers) else {
            return;
        };
        if self.request.is_broken() {
            // The caller is gone and does not receive this answer.
            self.code = Code::Cancelled;
            return;
        }
        self.code = status.code();
        if status.code() == Code::Ok {
            return;
        }
        if let Some(info) = status.get_details_error_info() {
            self.reason = Some(Reason::named(&info.reason).map_or("other", |reason| reason.code));
        } else if let Some(error) = explained(&status) {
            self.fail(error, headers);
        }
    }

    /// Ends the call with an error of the server's own.
    pub(super) fn fail(&mut self, error: ApiError, headers: &mut HeaderMap) {
        self.code = error.reason().grpc;
        self.reason = Some(error.reason().code);
        for name in [Status::GRPC_STATUS, Status::GRPC_MESSAGE, Status::GRPC_STATUS_DETAILS] {
            headers.remove(name);
        }
        if let Err(error) = Status::from(error).add_header(headers) {
            tracing::error!(%error, "a status did not fit into headers");
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let metrics = &self.telemetry.metrics;
        metrics.grpc_calls.add(1, [self.method, code_name(self.code)]);
        metrics.grpc_time.record(self.begin.elapsed().as_secs_f64(), [self.method]);
        if let Some(reason) = self.reason {
            metrics.rejected.add(1, [reason]);
        }
    }
}

/// Maps a status of the transport, which has no reason, to an error with a reason. The transport
/// reports a malformed request as an internal error; this function corrects that to
/// `INVALID_ARGUMENT`.
fn explained(status: &Status) -> Option<ApiError> {
    const MALFORMED: [&str; 4] = ["decode", "Missing request message", "protocol error", "Unexpected EOF"];
    let message = status.message().to_owned();
    match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => Some(REQUEST_TOO_LARGE.error(message)),
        Code::Unimplemented => Some(METHOD_UNKNOWN.error("the server has no such method")),
        Code::Internal if MALFORMED.iter().any(|part| message.contains(part)) => Some(INVALID_ARGUMENT.error(message)),
        Code::Internal | Code::Unknown => Some(INTERNAL.error(message)),
        _ => None,
    }
}
