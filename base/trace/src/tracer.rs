//! The handle through which all parts of a process record spans.

use std::{fmt, sync::Arc};

use crate::{Sampling, Span, TraceContext, ids::Ids, sampler::Sampler};

/// Takes spans away. A call must return at once, and may drop the span.
pub trait Sink: Send + Sync {
    /// Takes a span.
    fn take(&self, span: Span);
}

/// Decides which traces are recorded, and hands spans to the sink. Cheap to clone. A tracer that is
/// off records nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Shared>>);

struct Shared {
    ids: Ids,
    sampler: Sampler,
    sink: Arc<dyn Sink>,
}

impl Tracer {
    /// A tracer that records nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// A tracer whose spans go to `sink`.
    pub fn new(sampling: Sampling, sink: Arc<dyn Sink>) -> Self {
        Self(Some(Arc::new(Shared { ids: Ids::new(), sampler: Sampler::new(sampling), sink })))
    }

    /// The context of a call that arrives with this parent, if the call is recorded. A call without
    /// a parent may begin a trace.
    pub fn enter(&self, parent: Option<TraceContext>, now_micros: i64) -> Option<TraceContext> {
        let shared = self.0.as_ref()?;
        let is_sampled = shared.sampler.samples(parent, shared.ids.next(), now_micros);
        is_sampled.then(|| match parent {
            Some(parent) => TraceContext { span: shared.ids.span(), ..parent },
            None => TraceContext { trace: shared.ids.trace(), span: shared.ids.span(), is_sampled: true },
        })
    }

    /// The context of a new span in the same trace. Returns `None` if the tracer is off, or if the
    /// trace is not sampled.
    pub fn child(&self, parent: TraceContext) -> Option<TraceContext> {
        let shared = self.0.as_ref().filter(|_| parent.is_sampled)?;
        Some(TraceContext { span: shared.ids.span(), ..parent })
    }

    /// The context of a new trace, which is recorded.
    pub fn root(&self) -> Option<TraceContext> {
        let shared = self.0.as_ref()?;
        Some(TraceContext { trace: shared.ids.trace(), span: shared.ids.span(), is_sampled: true })
    }

    /// Records a span that has ended.
    pub fn record(&self, span: Span) {
        if let Some(shared) = &self.0 {
            shared.sink.take(span);
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tracer(on)" } else { "Tracer(off)" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{SpanId, TraceId};

    #[derive(Default)]
    struct Kept(Mutex<Vec<Span>>);

    impl Sink for Kept {
        fn take(&self, span: Span) {
            self.0.lock().expect("no panic").push(span);
        }
    }

    #[test]
    fn a_call_continues_the_trace_of_its_caller_under_a_span_of_its_own() {
        let kept = Arc::<Kept>::default();
        let tracer = Tracer::new(Sampling { ratio: 0.0, traces_per_second: 10 }, kept.clone());
        let parent = TraceContext { trace: TraceId([1; 16]), span: SpanId([2; 8]), is_sampled: true };
        assert_eq!(tracer.enter(None, 0), None);
        let call = tracer.enter(Some(parent), 0).expect("sampled by its caller");
        assert_eq!((call.trace, call.is_sampled), (parent.trace, true));
        assert_ne!(call.span, parent.span);
        let child = tracer.child(call).expect("sampled");
        tracer.record(Span::internal("work", child, call.span, 5, 7).with("rows", 3_u64));
        let spans = kept.0.lock().expect("no panic");
        assert_eq!((spans.len(), spans[0].parent, spans[0].context.trace), (1, Some(call.span), parent.trace));
        assert_eq!(tracer.child(TraceContext { is_sampled: false, ..parent }), None);
    }

    #[test]
    fn a_tracer_that_is_off_enters_no_call() {
        let parent = TraceContext { trace: TraceId([1; 16]), span: SpanId([2; 8]), is_sampled: true };
        assert_eq!(Tracer::off().enter(Some(parent), 0), None);
        assert_eq!((Tracer::off().child(parent), Tracer::off().root()), (None, None));
    }
}
