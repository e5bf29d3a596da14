//! The state and the outcome of a running call: every error gets a reason, and every call is
//! counted by its outcome.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use cloakwork_trace::{Kind, Span, SpanId, TraceContext};
use http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    error::{ApiError, INTERNAL, INVALID_ARGUMENT, METHOD_UNKNOWN, REQUEST_TOO_LARGE, Reason, code_name},
    metrics::Telemetry,
    tenant::Tenant,
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

/// Facts about the request of a call, for the layers below.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestState(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether the request broke off. The reader of the request body sets the flag. The call then
    /// counts as cancelled, whatever error its handler returns for the incomplete request.
    is_broken: AtomicBool,
    /// The call's span, if the call is traced.
    trace: OnceLock<CallTrace>,
}

/// The span of a call.
#[derive(Clone, Debug)]
pub(super) struct CallTrace {
    pub(super) context: TraceContext,
    /// The caller's span.
    pub(super) parent: Option<SpanId>,
    pub(super) tenant: Tenant,
    /// A moment, and its time of day. The times of the span follow from both.
    pub(super) at: Instant,
    pub(super) at_nanos: u64,
}

impl RequestState {
    /// Notes that the request broke off, and returns the error for its reader.
    pub(super) fn break_off(&self) -> Status {
        self.0.is_broken.store(true, Relaxed);
        // The fault is not the server's, so this error must not be counted as `INTERNAL`.
        Status::cancelled("the request broke off")
    }

    fn is_broken(&self) -> bool {
        self.0.is_broken.load(Relaxed)
    }

    /// Notes that the call is traced.
    pub(super) fn trace(&self, trace: CallTrace) {
        // A call is authenticated once.
        let _ = self.0.trace.set(trace);
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
        let (metrics, took) = (&self.telemetry.metrics, self.begin.elapsed());
        let trace = self.request.0.trace.get();
        metrics.grpc_calls.add(1, [self.method, code_name(self.code)]);
        let traced = trace.map(|trace| trace.context.trace);
        metrics.grpc_time.record_traced(took.as_secs_f64(), [self.method], traced);
        if let Some(reason) = self.reason {
            metrics.rejected.add(1, [reason]);
            self.telemetry.pulse.refused(reason);
        }
        if let Some(trace) = trace {
            self.record(trace, took);
        }
    }
}

impl Call {
    /// Records the span of the call.
    fn record(&self, trace: &CallTrace, took: Duration) {
        let CallTrace { context, parent, tenant, at, at_nanos } = trace;
        let method = self.method.trim_start_matches('/');
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let start_nanos = at_nanos.saturating_sub(nanos(at.saturating_duration_since(self.begin)));
        let mut span = Span {
            name: method,
            context: *context,
            parent: *parent,
            kind: Kind::Server,
            start_nanos,
            end_nanos: start_nanos.saturating_add(nanos(took)),
            attributes: Vec::new(),
            links: Vec::new(),
            error: None,
        }
        .with("rpc.system.name", "grpc")
        .with("rpc.method", method)
        .with("rpc.response.status_code", code_name(self.code))
        .with("cloakwork.tenant", tenant.as_str().to_owned());
        if let Some(reason) = self.reason {
            span = span.with("error.type", reason);
            span.error = Some(reason.to_owned());
        }
        self.telemetry.tracer.record(span);
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
