//! Callers whose jobs are checked: an open loop of requests, with an oracle that decrypts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use cloakwork_client::proto::JobState;
use cloakwork_tests_service::{Tenant, VALUES};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

/// Callers that begin jobs at a steady rate, whether or not earlier jobs have ended.
pub struct Load {
    stop: Arc<AtomicBool>,
    running: JoinHandle<Outcome>,
}

/// The jobs of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of jobs that were begun.
    pub jobs: u64,
    /// Calls that failed although the client repeated them.
    pub errors: Vec<String>,
    /// Jobs whose result was wrong.
    pub wrong: u64,
    /// The longest time from a request to its result.
    pub longest: Duration,
}

impl Load {
    /// Begins `per_second` jobs each second. One half are calls that wait for the result, and the
    /// other half jobs that are submitted and watched.
    pub fn start(tenant: Arc<Tenant>, per_second: u32) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let running = tokio::spawn(run(tenant, per_second, stop.clone()));
        Self { stop, running }
    }

    /// Begins no more jobs, and waits for the results of all.
    pub async fn end(self) -> Outcome {
        self.stop.store(true, Relaxed);
        self.running.await.expect("no panic")
    }
}

async fn run(tenant: Arc<Tenant>, per_second: u32, stop: Arc<AtomicBool>) -> Outcome {
    let mut ticks = interval(Duration::from_secs(1) / per_second);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut jobs, mut outcome) = (JoinSet::new(), Outcome::default());
    while !stop.load(Relaxed) {
        ticks.tick().await;
        let (tenant, number) = (tenant.clone(), outcome.jobs);
        outcome.jobs += 1;
        jobs.spawn(async move {
            let begun = Instant::now();
            (job(&tenant, number).await, begun.elapsed())
        });
    }
    while let Some(ended) = jobs.join_next().await {
        let (result, took) = ended.expect("no panic");
        match result {
            Ok(is_right) => {
                outcome.wrong += u64::from(!is_right);
                outcome.longest = outcome.longest.max(took);
            }
            Err(error) => outcome.errors.push(error),
        }
    }
    outcome
}

/// Runs a job, and returns whether its result is right.
async fn job(tenant: &Tenant, number: u64) -> Result<bool, String> {
    let value = number % VALUES;
    let request = tenant.squares(&[value]);
    let finished = async {
        if number.is_multiple_of(2) {
            return tenant.client.run(&request).await;
        }
        let ended = tenant.client.wait(&tenant.client.submit(&request).await?.name).await?;
        tenant.client.finish(ended, Duration::ZERO, &request).await
    };
    let finished = finished.await.map_err(|error| format!("job {number}: {error:?}"))?;
    let values = tenant.values(&finished).await.map_err(|error| format!("output of job {number}: {error:?}"))?;
    let has_succeeded = finished.job.state() == JobState::Succeeded;
    Ok(has_succeeded && values == [value * value % VALUES])
}
