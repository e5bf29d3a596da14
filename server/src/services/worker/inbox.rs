//! The reports that arrive on a worker's stream after the first.
//!
//! Each report is complete, so the latest supersedes those before it. A worker may send reports
//! faster than the dispatcher takes them. Without skipping, they would fill memory, and the calls
//! of tenants would wait behind them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use cloakwork_proto::v1::AttachRequest;
use cloakwork_scheduler::{JobId, WorkerId};
use tokio::{
    sync::{oneshot, watch},
    task::yield_now,
    time::sleep,
};
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use super::report;
use crate::{
    dispatch::{Wish, WorkerReport},
    error::{ApiError, INVALID_ARGUMENT},
};

/// The reports on a stream.
pub(super) struct Inbox<S> {
    pub(super) messages: S,
    /// The worker that opened the stream.
    pub(super) worker: WorkerId,
    /// Receives the leases that the worker lists.
    pub(super) shown: watch::Sender<HashSet<(JobId, u64)>>,
    /// The interval at which workers are asked to report.
    pub(super) interval: Duration,
}

type Latest = Option<Arc<WorkerReport>>;

impl<S> Inbox<S>
where
    S: Stream<Item = Result<AttachRequest, Status>> + Unpin,
{
    /// Reads reports and gives the latest to `deliver` until the stream ends. Returns the error
    /// that ended the stream, if an error did.
    ///
    /// Reading ends early in two cases. First, the worker has attached again by another stream,
    /// which closes `wishes`. Second, the answers on this stream have ended, which closes
    /// `answers`. The stream then has no place, and the worker may have lost its rights.
    pub(super) async fn pass_on<F>(
        self,
        wishes: watch::Receiver<Wish>,
        answers: &mut oneshot::Sender<Status>,
        deliver: impl Fn(Arc<WorkerReport>) -> F,
    ) -> Result<(), Status>
    where
        F: Future<Output = Result<(), ApiError>>,
    {
        let (latest, waiting) = watch::channel(None);
        let interval = self.interval;
        let pass_on = async { tokio::try_join!(self.read(latest), pace(waiting, interval, deliver)) };
        tokio::select! {
            () = closed(wishes) => Ok(()),
            () = answers.closed() => Ok(()),
            ended = pass_on => ended.map(drop),
        }
    }

    async fn read(mut self, latest: watch::Sender<Latest>) -> Result<(), Status> {
        while let Some(message) = self.messages.next().await {
            let message = message?;
            let report = report::report(&message)?;
            if report.worker != self.worker {
                let error = INVALID_ARGUMENT.error("the stream belongs to another worker");
                return Err(error.field("worker_id", "the same in all reports of a stream").into());
            }
            self.shown.send_replace(report::shown(&message));
            latest.send_replace(Some(Arc::new(report)));
            // The message may be many times as large as the report.
            drop(message);
            // Long reports that come without a pause would keep all other tasks from this thread.
            yield_now().await;
        }
        Ok(())
    }
}

/// Delivers the latest report, waits until it is taken, pauses, and starts again. Returns when no
/// more reports come and the last one is delivered.
async fn pace<F>(
    mut waiting: watch::Receiver<Latest>,
    interval: Duration,
    deliver: impl Fn(Arc<WorkerReport>) -> F,
) -> Result<(), Status>
where
    F: Future<Output = Result<(), ApiError>>,
{
    while waiting.changed().await.is_ok() {
        let Some(report) = waiting.borrow_and_update().clone() else { continue };
        let pause = pause_after(report.report.leases.len(), interval);
        deliver(report).await?;
        sleep(pause).await;
    }
    Ok(())
}

/// The pause after a report, and the part of the pause for each lease in the report. The dispatcher
/// takes time in proportion to the leases, and tenants need most of its time.
const REPORT_PAUSE: Duration = Duration::from_millis(10);
const LEASE_PAUSE: Duration = Duration::from_micros(30);

/// The pause after a report with this number of leases. A quarter of the interval is enough:
/// further pauses would make leases expire where intervals are short.
fn pause_after(leases: usize, interval: Duration) -> Duration {
    let leases = u32::try_from(leases).unwrap_or(u32::MAX);
    REPORT_PAUSE.saturating_add(LEASE_PAUSE.saturating_mul(leases)).min(interval / 4)
}

async fn closed(mut wishes: watch::Receiver<Wish>) {
    while wishes.changed().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use std::{future::ready, sync::Mutex};

    use bytes::Bytes;
    use cloakwork_scheduler::{LeaseReport, Report, Stage};
    use tokio::{
        sync::mpsc,
        time::{Instant, timeout},
    };
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);
    /// Timeout for steps that need almost no time.
    const STEP_TIMEOUT: Duration = Duration::from_secs(60);

    /// A report whose wanted cost is `number`.
    fn numbered(number: u64, leases: usize) -> Arc<WorkerReport> {
        let lease = LeaseReport { job: JobId(1), epoch: 1, stage: Stage::Waiting, progress: 0, rows_done: 0 };
        Arc::new(WorkerReport {
            worker: WorkerId(1),
            name: "worker".into(),
            report: Report { wanted_cost: number, leases: vec![lease; leases], ..Report::default() },
            waves: Vec::new(),
            resident: Vec::new(),
            resident_bytes: 0,
        })
    }

    /// Sends 100 reports, one each millisecond, and returns when each delivered report came. The
    /// receiver takes `busy` for each report.
    async fn delivered(leases: usize, busy: Duration) -> Vec<(Instant, u64)> {
        let delivered = Mutex::new(Vec::new());
        let deliver = |report: Arc<WorkerReport>| {
            delivered.lock().unwrap().push((Instant::now(), report.report.wanted_cost));
            async move {
                sleep(busy).await;
                Ok(())
            }
        };
        let (latest, waiting) = watch::channel(None);
        let send = async move {
            for number in 0..100 {
                latest.send_replace(Some(numbered(number, leases)));
                sleep(Duration::from_millis(1)).await;
            }
        };
        let ((), paced) = tokio::join!(send, pace(waiting, INTERVAL, deliver));
        paced.unwrap();
        delivered.into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn reports_are_paced_by_their_leases_and_the_last_one_arrives() {
        let delivered = delivered(1000, Duration::ZERO).await;
        let pause = Duration::from_millis(40);
        assert!(delivered.windows(2).all(|pair| pair[1].0 - pair[0].0 >= pause), "{delivered:?}");
        assert_eq!(delivered.first().map(|(_, number)| *number), Some(0));
        assert_eq!(delivered.last().map(|(_, number)| *number), Some(99));
    }

    #[tokio::test(start_paused = true)]
    async fn one_report_of_a_stream_waits_for_a_busy_dispatcher() {
        let delivered = delivered(0, Duration::from_secs(1)).await;
        let numbers: Vec<u64> = delivered.into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [0, 99], "the reports between them are superseded");
    }

    #[test]
    fn a_pause_grows_with_the_leases_up_to_a_quarter_of_the_interval() {
        assert_eq!(pause_after(0, INTERVAL), REPORT_PAUSE);
        assert_eq!(pause_after(1000, INTERVAL), Duration::from_millis(40));
        assert_eq!(pause_after(report::LEASES_MAX, INTERVAL), Duration::from_millis(250));
        assert_eq!(pause_after(usize::MAX, INTERVAL), Duration::from_millis(250));
        assert_eq!(pause_after(1000, Duration::from_millis(10)), Duration::from_micros(2500));
    }

    type Messages = ReceiverStream<Result<AttachRequest, Status>>;

    /// An inbox of worker 1, and the sender of its messages.
    fn inbox() -> (mpsc::Sender<Result<AttachRequest, Status>>, Inbox<Messages>) {
        let (sender, messages) = mpsc::channel(1);
        let shown = watch::Sender::default();
        (sender, Inbox { messages: ReceiverStream::new(messages), worker: WorkerId(1), shown, interval: INTERVAL })
    }

    #[tokio::test]
    async fn reading_ends_when_the_stream_is_replaced_or_its_answers_end() {
        for is_replaced in [true, false] {
            let (reports, inbox) = inbox();
            let (wish, wishes) = watch::channel(None);
            let (mut failure, failed) = oneshot::channel();
            let (mut wish, mut failed) = (Some(wish), Some(failed));
            if is_replaced {
                wish = None;
            } else {
                failed = None;
            }
            let reading = inbox.pass_on(wishes, &mut failure, |_| ready(Ok(())));
            timeout(STEP_TIMEOUT, reading).await.expect("an end").unwrap();
            assert!(reports.is_closed(), "the request is dropped");
            drop((wish, failed));
        }
    }

    #[tokio::test]
    async fn a_report_of_another_worker_ends_the_stream_with_an_error() {
        let (reports, inbox) = inbox();
        let (_wish, wishes) = watch::channel(None);
        let (mut failure, _failed) = oneshot::channel();
        let foreign = AttachRequest { worker_id: Bytes::from_static(&[2; 16]), ..AttachRequest::default() };
        reports.send(Ok(foreign)).await.unwrap();
        let reading = inbox.pass_on(wishes, &mut failure, |_| ready(Ok(())));
        let refused = timeout(STEP_TIMEOUT, reading).await.expect("an end").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    }
}
