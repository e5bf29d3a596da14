//! Distributed traces. A call or a job of a sampled trace has a context. The context travels with
//! it, and each part of the service records its spans under it.
//!
//! Spans are data with explicit times. A [`Sink`] takes them away; this crate does no I/O and reads
//! no clock.

#![forbid(unsafe_code)]

mod context;
mod ids;
mod sampler;
mod span;
mod tracer;

pub use context::{SpanId, TRACEPARENT, TraceContext, TraceId};
pub use sampler::Sampling;
pub use span::{Kind, Span, Value};
pub use tracer::{Sink, Tracer};
