//! Traces and metrics that go to a collector of OpenTelemetry.

use std::time::Duration;

use cloakwork_client::{SpanId, TraceContext, TraceId, proto::LatencyRecord};
use cloakwork_tests_service::{Collector, Recorded, Server, Setup, Tenant, Worker, eventually};
use tokio::net::TcpListener;

const PARENT: TraceContext = TraceContext { trace: TraceId([7; 16]), span: SpanId([9; 8]), is_sampled: true };

/// The server exports over gRPC, and its worker over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn a_traced_job_has_a_tree_of_spans_that_agrees_with_its_latency_record() {
    let collector = Collector::start().await;
    let setup = Setup::default()
        .without_worker()
        .with("telemetry.otlp_endpoint", &collector.grpc)
        .with("telemetry.trace_percent", 0)
        .with("telemetry.metrics_seconds", 1);
    let server = Server::start(setup).await;
    let token = server.token("workers", "worker");
    let export = ["--otlp-endpoint", &collector.http, "--otlp-protocol", "http"];
    let mut worker = Worker::start_with(&server, "traced", &token, &export);
    let mut tenant = Tenant::new(server.client().await).await;
    // A job that is not traced. All traces begin at callers.
    tenant.check_squares(&[1, 2, 3]).await;
    tenant.client = tenant.client.in_trace(PARENT);
    let finished = tenant.check_squares(&[1, 2, 3]).await;
    let record = finished.job.latency.expect("a job that has ended has a record");
    let all = ["job", "validate", "queue", "attempt", "commit", "worker", "fetch", "compute", "hand in", "wave"];
    eventually("all spans have arrived", || async {
        let spans = collector.spans();
        all.iter().all(|name| spans.iter().any(|span| span.span.name == *name))
    })
    .await;
    let spans = collector.spans();
    check_tree(&spans, &record);
    let format = "application/openmetrics-text";
    let exemplar = format!("# {{trace_id=\"{}\"}}", PARENT.trace);
    let page = server.metrics_as(format).await;
    let traced = page.lines().any(|line| line.starts_with("cloakwork_job_seconds_bucket") && line.contains(&exemplar));
    assert!(traced && page.ends_with("# EOF\n"), "{page}");
    eventually("metrics have arrived", || async {
        collector.has_metric("cloakwork-server", "cloakwork_jobs_submitted_total")
    })
    .await;
    // The worker sends its metrics once a minute, and at its end.
    assert!(worker.process().terminate(Duration::from_secs(20)), "{}", worker.process().log());
    assert!(collector.has_metric("cloakwork-worker", "cloakwork_worker_waves_total"));
}

fn check_tree(spans: &[Recorded], record: &LatencyRecord) {
    let in_trace = |span: &&Recorded| span.span.trace_id == PARENT.trace.0;
    let of_trace: Vec<&Recorded> = spans.iter().filter(in_trace).collect();
    let one = |name: &str| {
        let found: Vec<_> = of_trace.iter().filter(|span| span.span.name == name).collect();
        assert_eq!(found.len(), 1, "spans with the name {name}: {spans:#?}");
        *found[0]
    };
    let [job, attempt, worker, compute] = ["job", "attempt", "worker", "compute"].map(one);
    let call = of_trace.iter().find(|span| span.span.span_id == job.span.parent_span_id).expect("the job has a call");
    assert_eq!(call.span.name, "cloakwork.v1.JobService/RunJob");
    assert_eq!(call.span.parent_span_id, PARENT.span.0);
    assert_eq!((&*call.service, &*worker.service), ("cloakwork-server", "cloakwork-worker"));
    for (span, parent) in [
        (one("validate"), job),
        (one("queue"), job),
        (attempt, job),
        (one("commit"), job),
        (worker, attempt),
        (one("fetch"), worker),
        (compute, worker),
        (one("hand in"), worker),
        (one("cloakwork.v1.WorkerService/CommitResult"), worker),
    ] {
        assert_eq!(span.span.parent_span_id, parent.span.span_id, "the parent of {}", span.span.name);
    }
    // The record that the caller got and the spans come from the same times.
    assert_eq!(one("validate").nanos(), record.validate_nanos);
    assert_eq!(one("queue").nanos(), record.queue_nanos);
    assert_eq!(attempt.number("cloakwork.blind_rotate_nanos"), Some(record.blind_rotate_nanos as i64));
    let parts = ["validate", "queue", "attempt", "commit"].map(|name| one(name).nanos());
    assert_eq!(parts.iter().sum::<u64>(), job.nanos(), "the parts fill the job");
    assert_eq!(job.nanos(), record.wall_nanos);
    // The worker measures with a clock of its own, and reads the time of day once for each span.
    let slack = 5_000_000;
    assert!(worker.span.start_time_unix_nano + slack >= attempt.span.start_time_unix_nano);
    assert!(compute.span.end_time_unix_nano <= job.span.end_time_unix_nano + slack);
    let waits = record.wave_wait_nanos;
    let computed = record.key_switch_nanos + record.blind_rotate_nanos + record.other_compute_nanos;
    assert!(compute.nanos() + slack >= computed + waits, "{} < {computed} + {waits}", compute.nanos());
    // Waves have traces of their own, and both sides are linked.
    let waves: Vec<_> = spans.iter().filter(|span| span.span.name == "wave").collect();
    assert!(!waves.is_empty() && waves.iter().all(|wave| wave.span.trace_id != PARENT.trace.0));
    for wave in waves {
        assert!(wave.span.links.iter().any(|link| link.span_id == compute.span.span_id), "a wave is linked to its job");
        assert!(compute.span.links.iter().any(|link| link.span_id == wave.span.span_id), "a job to its waves");
        assert!(wave.number("cloakwork.width").is_some() && wave.text("cloakwork.cut").is_some());
    }
    let traces: std::collections::BTreeSet<_> = spans.iter().map(|span| span.span.trace_id.clone()).collect();
    let roots = spans.iter().filter(|span| span.span.name == "wave").count();
    assert_eq!(traces.len(), 1 + roots, "the other job has no trace");
}

/// The collector accepts connections, and never answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_collector_delays_nothing_and_drops_are_counted() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let setup = Setup::default()
        .with("telemetry.otlp_endpoint", endpoint)
        .with("telemetry.otlp_protocol", "http")
        .with("telemetry.trace_percent", 100)
        .with("telemetry.traces_per_second", 1_000_000);
    let server = Server::start(setup).await;
    let tenant = Tenant::new(server.client().await).await;
    for _ in 0..20 {
        let finished = tenant.check_squares(&[1, 2, 3]).await;
        assert!(finished.wall < Duration::from_secs(4), "a call waits for the collector: {:?}", finished.wall);
    }
    eventually("dropped spans are counted", || async {
        let page = server.metrics().await;
        let dropped =
            page.lines().find_map(|line| line.strip_prefix("cloakwork_spans_dropped_total{reason=\"failed\"} "));
        dropped.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 0))
    })
    .await;
    assert!(server.metrics().await.contains("cloakwork_spans_exported_total 0\n"));
}
