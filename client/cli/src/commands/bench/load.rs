//! Two ways to put a server under load.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{Outcome, Subject, report::Report};

/// Closed loop: each client sends a job when its last job has ended.
pub(super) async fn closed(subject: Arc<Subject>, clients: u32, time: Duration) -> Report {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let subject = subject.clone();
        tasks.spawn(async move {
            let mut report = Report::new(subject.expected.len());
            while started.elapsed() < time {
                let begun = Instant::now();
                let fetched = subject.fetch().await;
                let latency = begun.elapsed();
                let outcome = subject.judge(fetched);
                if matches!(outcome, Outcome::Refused(_)) {
                    // After an immediate refusal, the client pauses before its next request.
                    sleep(Duration::from_millis(10)).await;
                }
                report.add(latency, outcome);
            }
            report
        });
    }
    let mut report = Report::new(subject.expected.len());
    while let Some(task) = tasks.join_next().await {
        report.merge(task.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    report.finish(format!("closed loop, {clients} clients"), started.elapsed());
    report
}

/// Open loop: jobs begin at a fixed rate. Latencies count from the time at which a job was due.
pub(super) async fn open(subject: Arc<Subject>, rate: f64, in_flight: u32, time: Duration) -> Report {
    let (done, mut results) = mpsc::channel(in_flight as usize);
    let room = Arc::new(Semaphore::new(in_flight as usize));
    let started = Instant::now();
    let rows = subject.expected.len();
    let begin = async move {
        for number in 0.. {
            let due = started + Duration::from_secs_f64(f64::from(number) / rate);
            if due >= started + time {
                break;
            }
            sleep_until(due).await;
            // The semaphore is never closed. A job that waits here is late, and its latency
            // includes the wait.
            let Ok(place) = room.clone().acquire_owned().await else { break };
            let (subject, done) = (subject.clone(), done.clone());
            tokio::spawn(async move {
                let fetched = subject.fetch().await;
                let latency = due.elapsed();
                drop(place);
                // The send fails only after the end of the whole benchmark.
                let _ = done.send((latency, subject.judge(fetched))).await;
            });
        }
    };
    let collect = async {
        let mut report = Report::new(rows);
        while let Some((latency, outcome)) = results.recv().await {
            report.add(latency, outcome);
        }
        report
    };
    let ((), mut report) = tokio::join!(begin, collect);
    report.finish(format!("open loop, {rate} jobs a second"), started.elapsed());
    report
}
