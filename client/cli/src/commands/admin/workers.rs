//! `cloakwork admin pools`, `workers`, `drain` and `resume`.

use std::time::Duration;

use cloakwork_client::{
    Operator, RetryPolicy,
    proto::{PoolStatus, WorkerState, WorkerStatus},
};
use serde_json::{Value, json};

use super::{names::id, of_change};
use crate::{
    context::Context,
    failure::Failure,
    output::{Table, bytes, counted, show},
    visible::one_line,
};

/// Time between two looks at a worker that is being drained.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn pools(operator: &Operator, json: bool) -> Result<(), Failure> {
    let pools = operator.pools().await?;
    let document = || json!({ "pools": pools.iter().map(pool_document).collect::<Vec<_>>() });
    show(json, document, || pool_table(&pools))
}

pub(super) async fn list(operator: &Operator, json: bool) -> Result<(), Failure> {
    let workers = operator.workers().await?;
    let document = || json!({ "workers": workers.iter().map(document).collect::<Vec<_>>() });
    show(json, document, || table(&workers))
}

pub(super) async fn drain(context: &Context, operator: &Operator, worker: &str, wait: bool) -> Result<(), Failure> {
    let name = named(&operator.workers().await?, worker)?.name.clone();
    operator.drain_worker(&name).await.map_err(|error| of_change(error, "workers"))?;
    let json = context.global.json;
    let left = if wait {
        let said = format!(
            "interrupted; {0} gets no further jobs\nThis gives it jobs again: cloakwork admin resume {0}",
            one_line(id(&name))
        );
        context.until_interrupt(idle(operator, &name, json), said).await?
    } else {
        look(operator, &name).await?
    };
    let document =
        || json!({ "worker": name, "attached": left.is_some(), "jobs": left.as_ref().map_or(0, |it| it.jobs) });
    show(json, document, || match &left {
        None => format!("{}: it has left\n", one_line(&name)),
        Some(worker) => {
            format!("{}: gets no further jobs, and holds {}\n", title(worker), counted(worker.jobs.into(), "job"))
        }
    })
}

pub(super) async fn resume(operator: &Operator, worker: &str, json: bool) -> Result<(), Failure> {
    let workers = operator.workers().await?;
    let worker = named(&workers, worker)?;
    operator.resume_worker(&worker.name).await.map_err(|error| of_change(error, "workers"))?;
    show(json, || json!({ "worker": worker.name }), || format!("{}: gets jobs again\n", title(worker)))
}

/// Waits until a drained worker holds no job. Returns `None` if the worker has left.
async fn idle(operator: &Operator, name: &str, json: bool) -> Result<Option<WorkerStatus>, Failure> {
    // Jobs may take long, and the server may restart meanwhile.
    let operator = operator.clone().retry_policy(RetryPolicy::default());
    let mut said = None;
    loop {
        let Some(worker) = look(&operator, name).await? else { return Ok(None) };
        if worker.state() == WorkerState::Ready {
            let problem = format!("{}: gets jobs again, because another operator resumed it", title(&worker));
            return Err(Failure::Io(std::io::Error::other(problem)));
        }
        if worker.jobs == 0 {
            return Ok(Some(worker));
        }
        if !json && said != Some(worker.jobs) {
            eprintln!("cloakwork: {} holds {}", title(&worker), counted(worker.jobs.into(), "job"));
            said = Some(worker.jobs);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

async fn look(operator: &Operator, name: &str) -> Result<Option<WorkerStatus>, Failure> {
    Ok(operator.workers().await?.into_iter().find(|worker| worker.name == name))
}

/// The worker with this id. Without one, the only worker with this display name: workers choose
/// their display names, so an id counts first.
fn named<'a>(workers: &'a [WorkerStatus], worker: &str) -> Result<&'a WorkerStatus, Failure> {
    let wanted = worker.strip_prefix("workers/").unwrap_or(worker);
    if let Some(found) = workers.iter().find(|known| id(&known.name) == wanted) {
        return Ok(found);
    }
    let called: Vec<&WorkerStatus> = workers.iter().filter(|known| known.display_name == worker).collect();
    match called[..] {
        [found] => Ok(found),
        [] => Err(Failure::NotFound(format!(
            "no worker '{worker}' is attached to this server: `cloakwork admin workers` lists those that are"
        ))),
        _ => {
            let ids: Vec<String> = called.iter().map(|known| one_line(id(&known.name))).collect();
            Err(Failure::Usage(format!(
                "several workers are called '{worker}': name one by its id: {}",
                ids.join(", ")
            )))
        }
    }
}

/// A worker's id, and its name for people.
fn title(worker: &WorkerStatus) -> String {
    let (name, display_name) = (one_line(&worker.name), one_line(&worker.display_name));
    if display_name.is_empty() { name } else { format!("{name} ({display_name})") }
}

fn pool_table(pools: &[PoolStatus]) -> String {
    let mut table = Table::new(["workers", "draining", "backlog", "keys", "memory of keys", "pool"]);
    for pool in pools {
        table.row([
            pool.workers.to_string(),
            pool.draining.to_string(),
            pool.backlog_seconds.map_or_else(|| "-".into(), |seconds| format!("{seconds:.1} s")),
            pool.resident_keys.to_string(),
            bytes(pool.resident_key_bytes),
            pool.kind.clone(),
        ]);
    }
    table.render()
}

fn pool_document(pool: &PoolStatus) -> Value {
    json!({
        "kind": pool.kind,
        "workers": pool.workers,
        "draining": pool.draining,
        "backlog_seconds": pool.backlog_seconds,
        "resident_keys": pool.resident_keys,
        "resident_key_bytes": pool.resident_key_bytes,
    })
}

fn table(workers: &[WorkerStatus]) -> String {
    let mut table = Table::new(["worker", "state", "jobs", "keys", "memory of keys", "sets", "pool", "name", "class"]);
    for worker in workers {
        table.row([
            id(&worker.name).to_owned(),
            state(worker),
            worker.jobs.to_string(),
            worker.resident_keys.to_string(),
            bytes(worker.resident_key_bytes),
            worker.parameter_sets.len().to_string(),
            worker.pool.clone(),
            worker.display_name.clone(),
            // The longest cell. Empty for a worker whose results are not comparable.
            worker.class.clone(),
        ]);
    }
    table.render()
}

fn document(worker: &WorkerStatus) -> Value {
    json!({
        "name": worker.name,
        "display_name": worker.display_name,
        "pool": worker.pool,
        "class": worker.class,
        "state": state(worker),
        "jobs": worker.jobs,
        "resident_keys": worker.resident_keys,
        "resident_key_bytes": worker.resident_key_bytes,
        "parameter_sets": worker.parameter_sets,
    })
}

/// The state, or `unspecified` for one that this program does not know.
fn state(worker: &WorkerStatus) -> String {
    worker.state().as_str_name().trim_start_matches("WORKER_STATE_").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(id: &str, display_name: &str) -> WorkerStatus {
        WorkerStatus {
            name: format!("workers/{id}"),
            display_name: display_name.into(),
            pool: "cpu".into(),
            class: "c1".into(),
            state: WorkerState::Draining.into(),
            jobs: 2,
            resident_keys: 3,
            resident_key_bytes: 4_000_000,
            parameter_sets: vec!["A".into(), "B".into()],
        }
    }

    #[test]
    fn an_id_counts_before_a_name_and_a_name_counts_if_one_worker_has_it() {
        // The second worker calls itself like the first one's id.
        let workers = [worker("1", "a"), worker("2", "1"), worker("3", "b"), worker("4", "b")];
        for (text, id) in [("1", "workers/1"), ("workers/2", "workers/2"), ("a", "workers/1"), ("4", "workers/4")] {
            assert_eq!(named(&workers, text).expect("a worker").name, id, "{text}");
        }
        let several = named(&workers, "b").expect_err("two workers");
        assert!(several.exit_code() == 2 && several.to_string().ends_with("by its id: 3, 4"), "{several}");
        for unknown in ["c", "workers/a", "workers/"] {
            assert_eq!(named(&workers, unknown).expect_err(unknown).exit_code(), 3);
        }
    }

    #[test]
    fn workers_and_pools_have_tables_and_documents() {
        let workers = [worker("a0", "rack\u{1b}[2J")];
        let text = "\
worker  state     jobs  keys  memory of keys  sets  pool  name           class
a0      draining     2     3          4.0 MB     2  cpu   rack\\u{1b}[2J  c1
";
        assert_eq!(table(&workers), text);
        let shown = document(&workers[0]);
        assert_eq!((&shown["state"], &shown["parameter_sets"]), (&json!("draining"), &json!(["A", "B"])));
        let other = WorkerStatus { state: 77, ..worker("0b", "") };
        assert_eq!((state(&other), title(&other)), ("unspecified".into(), "workers/0b".into()));

        let pool = |kind: &str, backlog_seconds| PoolStatus {
            kind: kind.into(),
            workers: 2,
            draining: 1,
            backlog_seconds,
            resident_keys: 3,
            resident_key_bytes: 360_000_000,
        };
        let text = "\
workers  draining  backlog  keys  memory of keys  pool
      2         1   12.3 s     3        360.0 MB  gpu
      2         1        -     3        360.0 MB  cpu
";
        let pools = [pool("gpu", Some(12.34)), pool("cpu", None)];
        assert_eq!(pool_table(&pools), text);
        assert_eq!(pools.map(|pool| pool_document(&pool)["backlog_seconds"].clone()), [json!(12.34), Value::Null]);
    }
}
