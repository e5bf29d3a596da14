//! The content of the console, as JSON.

use std::collections::{BTreeMap, HashMap};

use cloakwork_proto::v1::{self, JobStage, JobState, LatencyRecord, WorkerState};
use cloakwork_worker::metrics::cut_name;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::{Console, sessions::Session};
use crate::{
    audit::Entry,
    auth::TenantRow,
    dispatch::{PoolSnapshot, Snapshot, WorkerSnapshot},
    error::Reason,
    jobs::{JobMeta, stages},
    operators::{KeyRow, Residents},
    pulse::{INTERVAL_SECONDS, ReasonCounts, Sample},
    resource::WorkerName,
    services::day_text,
    store::DayUsage,
};

pub(super) fn session(session: &Session, has_writes: bool) -> Value {
    json!({
        "actor": session.actor,
        "can_write": has_writes,
        "expires_micros": session.expires_micros,
    })
}

pub(super) fn overview(console: &Console, snapshot: &Snapshot, samples: &[Sample]) -> Value {
    let facts = &console.facts;
    json!({
        "now_micros": console.clock.unix_micros(),
        "server": {
            "version": env!("CARGO_PKG_VERSION"),
            "state": console.readiness.name(),
            "is_owner": console.operators.shard().is_some(),
            "shard": console.operators.shard().unwrap_or_default(),
            "started_micros": facts.started_micros,
            "tls": facts.has_api_tls,
            "database": facts.database,
            "address": facts.address,
        },
        "queued": snapshot.queued,
        "running": snapshot.running,
        "oldest_queued_seconds": snapshot.oldest_queued_micros.map(|micros| micros as f64 / 1e6),
        "pools": snapshot.pools.iter().map(pool).collect::<Vec<_>>(),
        "workers": snapshot.workers.iter().map(worker).collect::<Vec<_>>(),
        "history": history(samples),
    })
}

fn pool(pool: &PoolSnapshot) -> Value {
    json!({
        "kind": pool.kind,
        "workers": pool.workers,
        "draining": pool.draining,
        "jobs": pool.jobs,
        "backlog_seconds": pool.backlog_seconds,
        "resident_keys": pool.resident_keys,
        "resident_bytes": pool.resident_bytes,
    })
}

fn worker(worker: &WorkerSnapshot) -> Value {
    json!({
        "name": WorkerName(worker.id).to_string(),
        "display_name": &*worker.name,
        "pool": worker.pool,
        "class": worker.class,
        "state": match worker.state() {
            WorkerState::Unspecified | WorkerState::Disconnected => "disconnected",
            WorkerState::Draining => "draining",
            WorkerState::Ready => "ready",
        },
        "is_drained": worker.is_drained_by_operator,
        "jobs": worker.jobs,
        "resident_keys": worker.resident_keys,
        "resident_bytes": worker.resident_bytes,
        "parameter_sets": worker.sets,
    })
}

/// The samples as one list for each figure.
fn history(samples: &[Sample]) -> Value {
    let list = |figure: fn(&Sample) -> Value| samples.iter().map(figure).collect::<Vec<Value>>();
    let cut = |place: usize| samples.iter().map(|sample| sample.cuts_per_second[place]).collect::<Vec<f64>>();
    json!({
        "interval_seconds": INTERVAL_SECONDS,
        "micros": list(|sample| sample.at_micros.into()),
        "queued": list(|sample| sample.queued.into()),
        "running": list(|sample| sample.running.into()),
        "jobs_per_second": list(|sample| sample.jobs_per_second.into()),
        "failures_per_second": list(|sample| sample.failures_per_second.into()),
        "bootstraps_per_second": list(|sample| sample.bootstraps_per_second.into()),
        "wave_fill": list(|sample| sample.wave_fill.into()),
        "wave_width": list(|sample| sample.wave_width.into()),
        "cuts": {"full": cut(0), "deadline": cut(1), "idle": cut(2), "other_key": cut(3), "drain": cut(4)},
        "p50_seconds": list(|sample| sample.p50_seconds.into()),
        "p99_seconds": list(|sample| sample.p99_seconds.into()),
    })
}

/// The states of jobs, and their names in the console.
pub(super) const STATES: [(JobState, &str); 5] = [
    (JobState::Queued, "queued"),
    (JobState::Running, "running"),
    (JobState::Succeeded, "succeeded"),
    (JobState::Failed, "failed"),
    (JobState::Cancelled, "cancelled"),
];

pub(super) fn job(job: &v1::Job, meta: &JobMeta, with_latency: bool) -> Value {
    let latency = job.latency.as_ref();
    json!({
        "name": job.name,
        "tenant": &*meta.tenant,
        "state": STATES.iter().find(|(state, _)| *state == job.state()).map_or("queued", |(_, name)| name),
        "stage": match job.stage() {
            JobStage::Unspecified => None,
            JobStage::Fetching => Some("fetching"),
            JobStage::LoadingKey => Some("loading_key"),
            JobStage::Waiting => Some("waiting"),
            JobStage::Computing => Some("computing"),
            JobStage::Committing => Some("committing"),
        },
        "operation": meta.operation,
        "parameter_set": job.parameter_set,
        "rows": job.rows,
        "rows_done": job.rows_done,
        "bootstraps": job.pbs_count,
        "priority": job.priority,
        "attempts": job.attempts,
        "created_micros": meta.created_micros,
        "ended_micros": job.end_time.map(|time| time.seconds * 1_000_000 + i64::from(time.nanos) / 1000),
        "deadline_micros": meta.deadline_micros,
        "error": job.error.as_ref().map(|error| json!({"reason": error.reason, "message": error.message})),
        "key": job.key,
        "program": job.program,
        "wall_nanos": latency.map(|latency| latency.wall_nanos),
        "latency": latency.filter(|_| with_latency).map(self::latency),
    })
}

fn latency(record: &LatencyRecord) -> Value {
    let waves = record.waves.iter().map(|wave| {
        json!({
            "width": wave.width,
            "own_width": wave.own_width,
            "compute_nanos": wave.compute_nanos,
            "cut": cut_name(wave.cut()),
        })
    });
    let cuts = record.cuts.iter().map(|cut| json!({"cut": cut_name(cut.cut()), "waves": cut.waves}));
    let operations = record.operations.iter();
    let operations = operations.map(|one| json!({"name": one.name, "count": one.count, "nanos": one.nanos}));
    json!({
        "stages": stages(record).map(|(name, nanos)| json!({"name": name, "nanos": nanos})),
        "wall_nanos": record.wall_nanos,
        "device_nanos": record.device_nanos,
        "bootstraps": record.pbs_count,
        "wave_count": record.wave_count,
        "mean_wave_fill": record.mean_wave_fill,
        "companion_waves": record.companion_waves,
        "waves": waves.collect::<Vec<_>>(),
        "cuts": cuts.collect::<Vec<_>>(),
        "operations": operations.collect::<Vec<_>>(),
        "worker": record.worker,
        "device": record.device,
        "attempts": record.attempts,
    })
}

pub(super) fn key(key: &KeyRow, residents: &Residents) -> Value {
    json!({
        "tenant": key.tenant,
        "key_id": key.key_id.to_string(),
        "bytes": key.bytes,
        "parts": key.parts,
        "parameter_sets": key.sets,
        "created_micros": key.created_micros,
        "is_deleting": key.is_deleting,
        "resident_workers": residents.of(&key.tenant, key.key_id),
    })
}

pub(super) fn tenant(row: &TenantRow, limits: &HashMap<String, BTreeMap<String, u64>>) -> Value {
    let own = limits.get(&row.name).into_iter().flatten();
    let own: Vec<Value> = own.map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "name": row.name,
        "shard": row.shard,
        "created_micros": row.created_micros,
        "revoked_micros": row.revoked_micros,
        "deleting_micros": row.deleting_micros,
        "stored_bytes": row.stored_bytes,
        "keys": row.keys,
        "limits": own,
    })
}

pub(super) fn usage(usage: &DayUsage) -> Value {
    json!({
        "tenant": usage.tenant,
        "day": day_text(usage.day),
        "jobs": usage.jobs,
        "unsuccessful_jobs": usage.unsuccessful_jobs,
        "bootstraps": usage.bootstraps,
        "device_seconds": usage.device_nanos as f64 / 1e9,
        "received_bytes": usage.received_bytes,
        "stored_byte_seconds": usage.stored_kib_seconds as f64 * 1024.0,
        "key_seconds": usage.key_seconds,
    })
}

pub(super) fn reason((reason, counts): (&'static str, ReasonCounts)) -> Value {
    let advice = Reason::named(reason).map_or("", |reason| reason.advice);
    json!({"reason": reason, "calls": counts.calls, "jobs": counts.jobs, "advice": advice})
}

pub(super) fn entry_id(entry: &Entry) -> String {
    Uuid::from_bytes(entry.id).to_string()
}

pub(super) fn entry(entry: &Entry) -> Value {
    json!({
        "id": entry_id(entry),
        "at_micros": entry.at_micros,
        "actor": entry.actor,
        "act": entry.act,
        "subject": entry.subject,
        "detail": entry.detail,
        "refusals": entry.refusals,
    })
}
