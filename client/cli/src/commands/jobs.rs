//! `cloakwork jobs`.

use cloakwork_client::{
    Client, ClientError, has_ended,
    proto::{Job, JobStage, JobState},
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use crate::{
    context::Context,
    failure::Failure,
    latency,
    output::{Table, counted, duration, show},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List jobs, newest first.
    Ls {
        /// Only jobs in this state; may be repeated.
        #[arg(long)]
        state: Vec<State>,
        /// Maximum number of jobs to list.
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
    },
    /// Show a job, and the time of each of its stages.
    Show {
        /// Id or resource name of the job.
        job: String,
    },
    /// Print a job's changes until its end. Exits with 7 if the job failed or was cancelled.
    Watch {
        /// Id or resource name of the job.
        job: String,
    },
    /// Cancel a job that has not ended.
    Cancel {
        /// Id or resource name of the job.
        job: String,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum State {
    Queued,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let client = context.connect().await?;
    let json = context.global.json;
    match command {
        Command::Ls { state, limit } => list(&client, &state, limit, json).await,
        Command::Show { job } => {
            let job = client.job(&resource_name(&client, job).await?).await?;
            show(json, || json!({ "job": document(&job) }), || page(&job))
        }
        Command::Watch { job } => watch(&client, &resource_name(&client, job).await?, json).await,
        Command::Cancel { job } => {
            let job = client.cancel(&resource_name(&client, job).await?).await?;
            show(json, || json!({ "job": document(&job) }), || format!("{}: {}\n", job.name, state(&job)))
        }
    }
}

async fn list(client: &Client, states: &[State], limit: usize, json: bool) -> Result<(), Failure> {
    let states: Vec<JobState> = states.iter().map(|state| state.message()).collect();
    let jobs: Vec<Job> = client.jobs(&states).take(limit).try_collect().await?;
    let table = || {
        let mut table = Table::new(["job", "state", "rows", "bootstraps", "wall", "attempts", "why"]);
        for job in &jobs {
            let latency = job.latency.clone().unwrap_or_default();
            let why = job.error.as_ref().map(|error| error.reason.clone());
            table.row([
                job.name.rsplit('/').next().unwrap_or_default().to_owned(),
                state(job),
                job.rows.to_string(),
                job.pbs_count.to_string(),
                if has_ended(job) { duration(latency.wall_nanos) } else { "-".into() },
                job.attempts.to_string(),
                why.unwrap_or_default(),
            ]);
        }
        table.render()
    };
    show(json, || json!({ "jobs": jobs.iter().map(document).collect::<Vec<_>>() }), table)
}

async fn watch(client: &Client, name: &str, json: bool) -> Result<(), Failure> {
    let mut changes = client.watch(name);
    let mut last = None;
    while let Some(job) = changes.try_next().await? {
        show(
            json,
            || json!({ "job": document(&job) }),
            || format!("{}  {} of {}\n", standing(&job), job.rows_done, counted(job.rows, "row")),
        )?;
        last = Some(job);
    }
    let Some(job) = last.filter(|job| job.state() != JobState::Succeeded) else { return Ok(()) };
    let error = job.error.clone().unwrap_or_default();
    let state = if job.state() == JobState::Cancelled { "was cancelled" } else { "has failed" };
    let (name, reason, message) = (job.name, error.reason, error.message);
    Err(ClientError::JobFailed { name, state: state.into(), reason, message }.into())
}

async fn resource_name(client: &Client, job: String) -> Result<String, Failure> {
    if job.contains('/') { Ok(job) } else { Ok(format!("tenants/{}/jobs/{job}", client.tenant().await?)) }
}

pub(super) fn state(job: &Job) -> String {
    job.state().as_str_name().trim_start_matches("JOB_STATE_").to_lowercase()
}

/// The stage that the job's worker has reported, if any.
fn stage(job: &Job) -> Option<String> {
    let stage = job.stage().as_str_name().trim_start_matches("JOB_STAGE_").to_lowercase();
    (job.stage() != JobStage::Unspecified).then_some(stage)
}

fn standing(job: &Job) -> String {
    let stage = stage(job).map(|stage| format!(" ({})", stage.replace('_', " ")));
    state(job) + &stage.unwrap_or_default()
}

fn page(job: &Job) -> String {
    let mut text = format!("{}\n{}", job.name, standing(job));
    if let Some(error) = &job.error {
        text += &format!(": {}: {}", error.reason, error.message);
    }
    text +=
        &format!("\n{}, {}, {}\n", counted(job.rows, "row"), counted(job.pbs_count, "bootstrap"), job.parameter_set);
    text += &format!("program {}\nkey     {}\n", job.program, job.key);
    for output in &job.outputs {
        let size = output.digest.as_ref().map_or(0, |digest| digest.size_bytes);
        text += &format!("output  {} ({})\n", output.name, crate::output::bytes(size));
    }
    if let Some(record) = &job.latency {
        text += &format!("\n{}", latency::table(record));
    }
    text
}

/// The job as a JSON document with stable fields; times in seconds since 1970.
pub(super) fn document(job: &Job) -> Value {
    let outputs: Vec<Value> = job
        .outputs
        .iter()
        .map(|output| {
            let size = output.digest.as_ref().map(|digest| digest.size_bytes);
            json!({ "name": output.name, "size_bytes": size })
        })
        .collect();
    let error = job.error.as_ref().map(|error| json!({ "reason": error.reason, "message": error.message }));
    json!({
        "name": job.name,
        "state": state(job),
        "stage": stage(job),
        "program": job.program,
        "key": job.key,
        "parameter_set": job.parameter_set,
        "rows": job.rows,
        "rows_done": job.rows_done,
        "pbs_count": job.pbs_count,
        "priority": job.priority,
        "outputs": outputs,
        "error": error,
        "create_time": job.create_time.as_ref().map(|time| time.seconds),
        "end_time": job.end_time.as_ref().map(|time| time.seconds),
        "latency": job.latency.as_ref().map(latency::document),
    })
}

impl State {
    pub(crate) fn message(self) -> JobState {
        match self {
            Self::Queued => JobState::Queued,
            Self::Running => JobState::Running,
            Self::Succeeded => JobState::Succeeded,
            Self::Failed => JobState::Failed,
            Self::Cancelled => JobState::Cancelled,
        }
    }
}
