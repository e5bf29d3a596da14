//! `cloakwork admin jobs` and `audit`.

use cloakwork_client::{
    Operator, has_ended,
    proto::{AuditEntry, Job, JobState},
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use super::{
    names::{self, id},
    page_size,
};
use crate::{
    commands::jobs::{State, document, state},
    failure::Failure,
    output::{Table, duration, show, time},
};

pub(super) async fn jobs(
    operator: &Operator,
    tenant: Option<&str>,
    states: &[State],
    limit: usize,
    json: bool,
) -> Result<(), Failure> {
    let tenant = tenant.map(names::of_tenant).unwrap_or_default();
    let states: Vec<JobState> = states.iter().map(|state| state.message()).collect();
    let jobs: Vec<Job> = operator.jobs(&tenant, &states, page_size(limit)).take(limit).try_collect().await?;
    show(json, || json!({ "jobs": jobs.iter().map(document).collect::<Vec<_>>() }), || job_table(&jobs))
}

pub(super) async fn audit(operator: &Operator, limit: usize, json: bool) -> Result<(), Failure> {
    let entries: Vec<AuditEntry> = operator.audit(page_size(limit)).take(limit).try_collect().await?;
    let document = || json!({ "entries": entries.iter().map(entry_document).collect::<Vec<_>>() });
    show(json, document, || entry_table(&entries))
}

fn job_table(jobs: &[Job]) -> String {
    let mut table = Table::new(["created", "tenant", "job", "state", "rows", "bootstraps", "wall", "attempts", "why"]);
    for job in jobs {
        let wall = job.latency.as_ref().map_or(0, |latency| latency.wall_nanos);
        table.row([
            time(job.create_time.as_ref()),
            job.name.split('/').nth(1).unwrap_or_default().to_owned(),
            id(&job.name).to_owned(),
            state(job),
            job.rows.to_string(),
            job.pbs_count.to_string(),
            if has_ended(job) { duration(wall) } else { "-".into() },
            job.attempts.to_string(),
            job.error.as_ref().map(|error| error.reason.clone()).unwrap_or_default(),
        ]);
    }
    table.render()
}

fn entry_table(entries: &[AuditEntry]) -> String {
    let mut table = Table::new(["time", "count", "actor", "act", "subject", "detail"]);
    for entry in entries {
        table.row([
            time(entry.time.as_ref()),
            entry.count.to_string(),
            entry.actor.clone(),
            entry.act.clone(),
            entry.subject.clone(),
            entry.detail.clone(),
        ]);
    }
    table.render()
}

fn entry_document(entry: &AuditEntry) -> Value {
    json!({
        "time": entry.time.as_ref().map(|time| time.seconds),
        "actor": entry.actor,
        "act": entry.act,
        "subject": entry.subject,
        "detail": entry.detail,
        "count": entry.count,
    })
}

#[cfg(test)]
mod tests {
    use cloakwork_client::{
        Timestamp,
        proto::{JobError, LatencyRecord},
    };

    use super::*;

    const NOON: Timestamp = Timestamp { seconds: 1_769_860_800, nanos: 5 };

    #[test]
    fn jobs_show_their_tenant() {
        let queued = Job {
            name: "tenants/acme/jobs/1".into(),
            state: JobState::Queued.into(),
            rows: 3,
            pbs_count: 12,
            create_time: Some(NOON),
            ..Job::default()
        };
        let failed = Job {
            name: "tenants/b/jobs/2".into(),
            state: JobState::Failed.into(),
            error: Some(JobError { reason: "JOB_POISON".into(), message: String::new() }),
            latency: Some(LatencyRecord { wall_nanos: 1_500, ..LatencyRecord::default() }),
            attempts: 3,
            create_time: Some(NOON),
            ..Job::default()
        };
        let text = "             created  tenant  job  state   rows  bootstraps    wall  attempts  why
2026-01-31T12:00:00Z  acme      1  queued     3          12       -         0
2026-01-31T12:00:00Z  b         2  failed     0           0  1.5 us         3  JOB_POISON
";
        assert_eq!(job_table(&[queued, failed]), text);
    }

    #[test]
    fn entries_show_who_did_what() {
        let entry = AuditEntry {
            time: Some(NOON),
            actor: "203.0.113.9".into(),
            act: "refused call".into(),
            subject: "/cloakwork.v1.AdminService/ListTenants".into(),
            detail: "no such token\r\n2026-01-31T12:00:00Z  1 ops".into(),
            count: 7,
        };
        let table = entry_table(std::slice::from_ref(&entry));
        assert_eq!(table.lines().count(), 2, "a text of a caller adds no row: {table}");
        assert!(table.contains(r"no such token\r\n2026"), "{table}");
        let shown = entry_document(&entry);
        assert_eq!((&shown["time"], &shown["count"]), (&json!(NOON.seconds), &json!(7)));
    }
}
