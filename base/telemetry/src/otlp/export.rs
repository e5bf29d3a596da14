//! The export of spans: a limited queue, and a task that sends batches.
//!
//! Recording a span never waits. If the collector is slow or away, the queue fills, and further
//! spans are dropped and counted.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use cloakwork_trace::{Sampling, Sink, Span, Tracer};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};

use super::convert;

/// Maximum number of spans that wait. A span takes up to some KiB, mostly for its links.
const QUEUE_MAX: usize = 4096;

/// Maximum number of spans in one request.
const BATCH_MAX: usize = 512;

/// Time for which spans of a batch wait for more.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// Longest time for a batch, with all repetitions.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for the spans that wait at the end of the process.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(2);

/// The export, before its task runs.
#[derive(Debug)]
pub struct Export {
    queue: Queue,
    spans: mpsc::Receiver<Span>,
    exporter: SpanExporter,
}

/// Spans that were sent and dropped so far.
#[derive(Clone, Debug, Default)]
pub struct SpanCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    queue_full: AtomicU64,
    failed: AtomicU64,
}

/// The end of the queue to which spans are recorded.
#[derive(Clone)]
struct Queue {
    sender: mpsc::Sender<Span>,
    counts: SpanCounts,
}

impl Export {
    pub(super) fn new(exporter: SpanExporter) -> Self {
        let (sender, spans) = mpsc::channel(QUEUE_MAX);
        Self { queue: Queue { sender, counts: SpanCounts::default() }, spans, exporter }
    }

    /// A tracer that records to this export.
    pub fn tracer(&self, sampling: Sampling) -> Tracer {
        Tracer::new(sampling, Arc::new(self.queue.clone()))
    }

    /// The counts of this export.
    pub fn counts(&self) -> SpanCounts {
        self.queue.counts.clone()
    }

    /// Sends spans until `stop` resolves, and then the ones that wait.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { queue: Queue { counts, sender: _sender }, mut spans, exporter } = self;
        let mut stop = std::pin::pin!(stop);
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let deadline = loop {
            tokio::select! {
                () = &mut stop => break Instant::now() + LAST_SPANS_TIMEOUT,
                more = gather(&mut spans, &mut batch) => if !more { return },
            }
            let mut sending = std::pin::pin!(counts.send(&exporter, &mut batch));
            tokio::select! {
                () = &mut sending => {}
                () = &mut stop => {
                    let deadline = Instant::now() + LAST_SPANS_TIMEOUT;
                    // A batch on its way shares the time limit of the spans that wait.
                    let _ = timeout_at(deadline, sending).await;
                    break deadline;
                }
            }
        };
        loop {
            while batch.len() < BATCH_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() || timeout_at(deadline, counts.send(&exporter, &mut batch)).await.is_err() {
                return;
            }
        }
    }
}

/// Waits for spans, and shortly for more of them. Returns false once there will be none.
async fn gather(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) -> bool {
    if batch.is_empty() && spans.recv_many(batch, BATCH_MAX).await == 0 {
        return false;
    }
    let more = async { while batch.len() < BATCH_MAX && spans.recv_many(batch, BATCH_MAX - batch.len()).await > 0 {} };
    // An error means that the batch has waited long enough.
    let _ = timeout(BATCH_DELAY, more).await;
    true
}

impl SpanCounts {
    /// Number of exported spans.
    pub fn exported(&self) -> u64 {
        self.0.exported.load(Relaxed)
    }

    /// Number of dropped spans, by the label of the reason.
    pub fn dropped(&self) -> [(&'static str, u64); 2] {
        [("queue_full", self.0.queue_full.load(Relaxed)), ("failed", self.0.failed.load(Relaxed))]
    }

    /// Sends a batch, and counts its spans.
    async fn send(&self, exporter: &SpanExporter, batch: &mut Vec<Span>) {
        let count = batch.len() as u64;
        let spans = batch.drain(..).map(convert::span).collect();
        let sent = match timeout(BATCH_TIMEOUT, exporter.export(spans)).await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        };
        match sent {
            Ok(()) => _ = self.0.exported.fetch_add(count, Relaxed),
            Err(error) => {
                self.0.failed.fetch_add(count, Relaxed);
                tracing::warn!(cause = error, count, "spans of traces were not exported");
            }
        }
    }
}

impl Sink for Queue {
    fn take(&self, span: Span) {
        if self.sender.try_send(span).is_err() {
            self.counts.0.queue_full.fetch_add(1, Relaxed);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("counts", &self.counts).finish_non_exhaustive()
    }
}
