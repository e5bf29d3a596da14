//! Spans of jobs, with the times of their latency records.
//!
//! The identifiers of a job's spans follow from the job's own, so that the spans fit together when
//! another server takes the job over.

use std::time::Instant;

use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::{JobId, Why};
use cloakwork_trace::{Span, SpanId, TraceContext};

use super::live::Live;
use crate::{
    jobs::{End, JobMeta, id},
    metrics::Telemetry,
};

/// The context of the span of an attempt, for its worker.
pub(super) fn attempt(meta: &JobMeta, epoch: u64) -> Option<TraceContext> {
    Some(TraceContext { span: of_attempt(meta.id, epoch), ..meta.trace? })
}

/// Records the spans of a job that has ended: one for the whole job, and one for each part of its
/// latency record.
pub(super) fn ended(telemetry: &Telemetry, live: &Live, end: &End) {
    let meta = &*live.meta;
    let Some(call) = meta.trace else { return };
    let record = &end.latency;
    let (job, end_nanos) = (TraceContext { span: of_job(meta.id), ..call }, telemetry.now_nanos());
    let start_nanos = end_nanos.saturating_sub(record.wall_nanos);
    let mut span = Span::internal("job", job, call.span, start_nanos, end_nanos)
        .with("cloakwork.job", id::to_text(meta.id))
        .with("cloakwork.tenant", meta.tenant.to_string())
        .with("cloakwork.operation", meta.operation)
        .with("cloakwork.parameter_set", meta.set.name())
        .with("cloakwork.rows", meta.rows)
        .with("cloakwork.bootstraps", meta.pbs_count)
        .with("cloakwork.attempts", u64::from(record.attempts))
        .with("cloakwork.waves", record.wave_count);
    if end.state != JobState::Succeeded {
        span.error = Some(end.error.as_ref().map_or_else(String::new, |error| error.reason.clone()));
    }
    telemetry.tracer.record(span);
    let others = [record.validate_nanos, record.queue_nanos, record.commit_nanos];
    let attempt_nanos = others.into_iter().fold(record.wall_nanos, u64::saturating_sub);
    let mut from = start_nanos;
    for (name, nanos) in [
        ("validate", record.validate_nanos),
        ("queue", record.queue_nanos),
        ("attempt", attempt_nanos),
        ("commit", record.commit_nanos),
    ] {
        let (part_start, part_end) = (from, from.saturating_add(nanos));
        from = part_end;
        if nanos == 0 {
            continue;
        }
        let context = match name {
            "attempt" => Some(TraceContext { span: of_attempt(meta.id, live.epoch), ..call }),
            _ => telemetry.tracer.child(job),
        };
        let Some(context) = context else { return };
        let part = Span::internal(name, context, job.span, part_start, part_end);
        telemetry.tracer.record(if name == "attempt" { with_stages(part, live.epoch, record) } else { part });
    }
}

/// Records the span of an attempt that did not end its job.
pub(super) fn requeued(telemetry: &Telemetry, live: &Live, why: Why) {
    let (Some(context), Some(leased)) = (attempt(&live.meta, live.epoch), live.timeline.leased) else { return };
    let end_nanos = telemetry.now_nanos();
    let took = u64::try_from(Instant::now().saturating_duration_since(leased).as_nanos()).unwrap_or(u64::MAX);
    let start_nanos = end_nanos.saturating_sub(took);
    let mut span = Span::internal("attempt", context, of_job(live.meta.id), start_nanos, end_nanos)
        .with("cloakwork.epoch", live.epoch);
    span.error = Some(format!("{why:?}"));
    telemetry.tracer.record(span);
}

/// Adds the worker and its stages. Stages alternate, so they are numbers and no spans.
fn with_stages(span: Span, epoch: u64, record: &LatencyRecord) -> Span {
    span.with("cloakwork.epoch", epoch)
        .with("cloakwork.worker", record.worker.clone())
        .with("cloakwork.device", record.device.clone())
        .with("cloakwork.dispatch_nanos", record.dispatch_nanos)
        .with("cloakwork.key_load_nanos", record.key_load_nanos)
        .with("cloakwork.fetch_nanos", record.fetch_nanos)
        .with("cloakwork.wave_wait_nanos", record.wave_wait_nanos)
        .with("cloakwork.key_switch_nanos", record.key_switch_nanos)
        .with("cloakwork.blind_rotate_nanos", record.blind_rotate_nanos)
        .with("cloakwork.other_compute_nanos", record.other_compute_nanos)
        .with("cloakwork.store_nanos", record.store_nanos)
}

/// The span of a job: the second half of its identifier, which is random.
fn of_job(job: JobId) -> SpanId {
    SpanId((job.0 as u64).max(1).to_be_bytes())
}

/// The span of an attempt at a job.
fn of_attempt(job: JobId, epoch: u64) -> SpanId {
    let salt = epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    SpanId(((job.0 as u64) ^ salt).max(1).to_be_bytes())
}
