//! Spans as data.

use crate::{SpanId, TraceContext};

/// A part of the work of a trace, with its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The work that was done.
    pub name: &'static str,
    /// The span's place in its trace.
    pub context: TraceContext,
    /// The span that this one is a part of.
    pub parent: Option<SpanId>,
    /// Side of a call, or work inside of a process.
    pub kind: Kind,
    /// When the work began, in nanoseconds of Unix time.
    pub start_nanos: u64,
    /// When the work ended, in nanoseconds of Unix time.
    pub end_nanos: u64,
    /// Properties.
    pub attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces, or other spans of this trace, that have to do with this one.
    pub links: Vec<TraceContext>,
    /// The error with which the work ended.
    pub error: Option<String>,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work inside of a process.
    Internal,
    /// A call, from its caller's view.
    Client,
    /// A call, from its server's view.
    Server,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// Fixed text.
    Fixed(&'static str),
    /// A whole number.
    Number(i64),
    /// A number.
    Real(f64),
}

impl Span {
    /// Work inside of a process, without attributes.
    pub fn internal(
        name: &'static str,
        context: TraceContext,
        parent: impl Into<Option<SpanId>>,
        start_nanos: u64,
        end_nanos: u64,
    ) -> Self {
        Self {
            name,
            context,
            parent: parent.into(),
            kind: Kind::Internal,
            start_nanos,
            end_nanos,
            attributes: Vec::new(),
            links: Vec::new(),
            error: None,
        }
    }

    /// Adds a property.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}
