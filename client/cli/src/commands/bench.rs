//! `cloakwork bench`.

mod load;
mod report;

use std::{sync::Arc, time::Duration};

use cloakwork_client::{Client, ClientError, Encrypted, JobRequest, Keys, Program, RetryPolicy, proto::LatencyRecord};

use crate::{context::Context, failure::Failure, function::program, output::show, progress::bars};

/// Measure throughput and latency
///
/// Closed loop: each of N clients sends its next job when its last job has ended. This finds the
/// throughput. Open loop: jobs begin at a fixed rate whatever happens. The latency of each job
/// counts from its due time, so all jobs that a stall held up show the stall. This finds the
/// latency under a load.
///
/// Values are encrypted before the measured time, and results are decrypted and checked outside it.
/// Refusals are counted and not retried. The keys of the directory are used, and uploaded if the
/// server lacks them.
///
/// Examples:
///   cloakwork bench                                   One client, one bootstrap at a time.
///   cloakwork bench --clients 64 --duration 30
///   cloakwork bench --clients 2 --rows 512            Throughput of large jobs.
///   cloakwork bench --rate 100 --duration 60          Latency at 100 jobs a second.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Closed loop: number of clients that send one job after the other.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// Open loop: number of jobs begun per second.
    #[arg(long, value_name = "R", conflicts_with = "clients", value_parser = rate)]
    rate: Option<f64>,
    /// Number of rows of each job, with one bootstrap per row.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    rows: u64,
    /// Duration of the measurement in seconds.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    duration: u64,
    /// Open loop: maximum number of jobs in flight. Further jobs begin late, which counts as their
    /// latency.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: u32,
}

/// The job that is measured repeatedly.
pub(crate) struct Subject {
    client: Client,
    keys: Keys,
    key: String,
    program: Program,
    input: Encrypted,
    expected: Vec<u64>,
}

/// Outcome of one measured job.
pub(crate) enum Outcome {
    Done(Box<LatencyRecord>),
    Refused(String),
    Wrong,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let keys = context.keys().await?;
    let client = context.connect_with(RetryPolicy::NEVER).await?;
    context.connect().await?.push_key(&keys, &bars(context.global.json)).await?;
    let key = client.use_key(&keys).await?;
    let subject = Arc::new(Subject::new(client, keys, key, args.rows)?);
    // Loads the key and fills the caches, unmeasured. A failure here would recur in every measured
    // job.
    subject.once().await?;
    let time = Duration::from_secs(args.duration);
    let report = match args.rate {
        None => load::closed(subject.clone(), args.clients, time).await,
        Some(rate) => load::open(subject.clone(), rate, args.in_flight, time).await,
    };
    show(context.global.json, || report.document(), || report.text())?;
    match report.wrong() {
        0 => Ok(()),
        wrong => Err(Failure::WrongResult(format!("{wrong} jobs came back with wrong results"))),
    }
}

impl Subject {
    fn new(client: Client, keys: Keys, key: String, rows: u64) -> Result<Self, Failure> {
        let builder = cloakwork_client::ProgramBuilder::new(keys.set());
        let values = builder.values_of_a_block();
        if builder.messages() == values {
            let problem = format!("the keys are for {}; the benchmark needs a shortint set", keys.set().name);
            return Err(Failure::Usage(problem));
        }
        let square: Vec<u64> = (0..values).map(|x| x * x % values).collect();
        let (program, bound) = program(keys.set(), &square, 1)?;
        let inputs: Vec<u64> = (0..rows).map(|row| row % values).collect();
        let input = keys.encrypt(&inputs, bound)?;
        let expected = inputs.iter().map(|x| square[*x as usize]).collect();
        Ok(Self { client, keys, key, program, input, expected })
    }

    /// Runs one job, from the request to its fetched result.
    async fn fetch(&self) -> Result<(LatencyRecord, Encrypted), ClientError> {
        let request = JobRequest::new(self.program.clone(), &self.key).encrypted(self.input.clone());
        let finished = self.client.run(&request).await?;
        let list = self.client.output(&finished.output(0)?).await?;
        Ok((finished.job.latency.unwrap_or_default(), list))
    }

    /// Runs one job and checks its result. Any problem is an error.
    async fn once(&self) -> Result<(), Failure> {
        let (_, list) = self.fetch().await?;
        match *self.keys.decrypt(&list)? == self.expected {
            true => Ok(()),
            false => Err(Failure::WrongResult("the first job came back with a wrong result".into())),
        }
    }

    /// Checks the result of a measured job.
    fn judge(&self, fetched: Result<(LatencyRecord, Encrypted), ClientError>) -> Outcome {
        match fetched {
            Ok((record, list)) => match self.keys.decrypt(&list) {
                Ok(values) if *values == self.expected => Outcome::Done(Box::new(record)),
                _ => Outcome::Wrong,
            },
            Err(error) => Outcome::Refused(reason(&error)),
        }
    }
}

/// Name under which a failure is counted.
fn reason(error: &ClientError) -> String {
    match error {
        ClientError::JobFailed { reason, .. } => reason.clone(),
        ClientError::Refused(refusal) if refusal.reason.is_empty() => format!("{:?}", refusal.code),
        ClientError::Refused(refusal) => refusal.reason.clone(),
        ClientError::Transport { .. } => "connection failed".into(),
        ClientError::Timeout => "no answer in time".into(),
        other => other.to_string(),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=1e6).contains(&rate) => Ok(rate),
        _ => Err("expected a number of jobs a second from 0.001 to 1000000".into()),
    }
}
