//! The spans of a traced job on its worker.

use std::time::Instant;

use cloakwork_proto::v1::LatencyRecord;
use cloakwork_trace::{Span, SpanId, TRACEPARENT, TraceContext};
use tonic::metadata::MetadataMap;

use crate::observer::Observer;

/// The trace of a job, from its assignment to the answer to its result.
pub(crate) struct JobTrace {
    observer: Observer,
    /// The span of the whole job on this worker.
    context: TraceContext,
    /// The span of the attempt, which the server records.
    attempt: SpanId,
    start: Instant,
}

impl JobTrace {
    /// Begins the trace of a job with this context, if the job is traced.
    pub(crate) fn begin(observer: &Observer, traceparent: &str) -> Option<Self> {
        let attempt = TraceContext::parse(traceparent)?;
        let context = observer.tracer.child(attempt)?;
        Some(Self { observer: observer.clone(), context, attempt: attempt.span, start: Instant::now() })
    }

    /// The context of the job's span.
    pub(crate) fn context(&self) -> TraceContext {
        self.context
    }

    /// Makes a call a part of the job's trace.
    pub(crate) fn add_to(&self, headers: &mut MetadataMap) {
        add_to(self.context, headers);
    }

    /// The context of a step that begins.
    pub(crate) fn step(&self) -> Option<TraceContext> {
        self.observer.tracer.child(self.context)
    }

    /// Records a step that has ended just now.
    pub(crate) fn record(
        &self,
        name: &'static str,
        step: Option<TraceContext>,
        from: Instant,
        links: Vec<TraceContext>,
    ) {
        let Some(step) = step else { return };
        let [start_nanos, end_nanos] = [from, Instant::now()].map(|at| self.observer.nanos_at(at));
        let span = Span::internal(name, step, self.context.span, start_nanos, end_nanos);
        self.observer.tracer.record(Span { links, ..span });
    }

    /// Records the span of the job, with the times of its record.
    pub(crate) fn end(&self, record: &LatencyRecord, error: Option<String>) {
        let [start_nanos, end_nanos] = [self.start, Instant::now()].map(|at| self.observer.nanos_at(at));
        let span = Span::internal("worker", self.context, self.attempt, start_nanos, end_nanos)
            .with("cloakwork.worker", record.worker.clone())
            .with("cloakwork.device", record.device.clone())
            .with("cloakwork.bootstraps", record.pbs_count)
            .with("cloakwork.waves", record.wave_count)
            .with("cloakwork.mean_wave_fill", record.mean_wave_fill);
        self.observer.tracer.record(Span { error, ..span });
    }
}

/// Makes a call a part of a span.
pub(crate) fn add_to(context: TraceContext, headers: &mut MetadataMap) {
    if let Ok(value) = context.to_string().parse() {
        headers.insert(TRACEPARENT, value);
    }
}
