//! Spans in the form of the exporter.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cloakwork_trace::{Kind, Span, TraceContext, Value};
use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// Converts a span.
pub(super) fn span(span: Span) -> SpanData {
    let Span { name, context: place, parent, kind, start_nanos, end_nanos, attributes, links, error } = span;
    let mut linked = SpanLinks::default();
    linked.links = links.into_iter().map(|link| Link::new(context(link), Vec::new(), 0)).collect();
    SpanData {
        span_context: context(place),
        parent_span_id: parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.0)),
        // A call's parent is at its caller. Within a process, spans have parents of the process.
        parent_span_is_remote: kind == Kind::Server,
        span_kind: match kind {
            Kind::Internal => SpanKind::Internal,
            Kind::Client => SpanKind::Client,
            Kind::Server => SpanKind::Server,
        },
        name: name.into(),
        start_time: time(start_nanos),
        end_time: time(end_nanos),
        attributes: attributes.into_iter().map(|(name, value)| KeyValue::new(name, converted(value))).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: linked,
        status: error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("cloakwork").build(),
    }
}

fn context(context: TraceContext) -> SpanContext {
    let TraceContext { trace, span, is_sampled } = context;
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from_bytes(trace.0), SpanId::from_bytes(span.0));
    SpanContext::new(trace, span, flags, false, TraceState::default())
}

fn time(nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

fn converted(value: Value) -> opentelemetry::Value {
    match value {
        Value::Text(text) => text.into(),
        Value::Fixed(text) => text.into(),
        Value::Number(number) => number.into(),
        Value::Real(number) => number.into(),
    }
}
