//! The report stream to the server. The worker reopens a broken stream while the jobs go on.

use std::{sync::Arc, time::Duration};

use cloakwork_proto::{printable, v1};
use cloakwork_retry::Pauses;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{Agent, FINAL_EXCHANGE_TIMEOUT, commit::is_quarantine};
use crate::{WorkerError, connection::is_elsewhere};

/// How a stream ended.
enum End {
    /// Regular end: the worker has drained.
    Drained,
    /// The stream broke, was refused, or was ended by the server.
    Lost {
        status: Status,
        /// Whether the server had answered on the stream.
        attached: bool,
    },
}

/// Delay that lets close changes share a report. Nothing waits for a report: results have calls of
/// their own, and the server knows its assignments.
const REPORT_COALESCE_DELAY: Duration = Duration::from_millis(10);
/// Pause before a quarantined worker attaches again. The server refuses it until either of them
/// restarts.
const QUARANTINE_PAUSE: Duration = Duration::from_secs(10);
/// Longest wait for the server to open a stream.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// Range of report intervals that a server may ask for.
const REPORT_INTERVAL_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
/// Report interval until the server asks for another.
const REPORT_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

impl Agent {
    /// Keeps a stream open until the worker has drained.
    pub(super) async fn serve(self: &Arc<Self>) -> Result<(), WorkerError> {
        let mut pauses = Pauses::new(Duration::from_millis(50), Duration::from_secs(1));
        let mut was_attached = false;
        loop {
            let pause = match self.session().await {
                End::Drained => return Ok(()),
                End::Lost { status, attached } => {
                    if attached {
                        pauses.reset();
                        was_attached = true;
                    }
                    // A server that is still starting may refuse a worker that was attached before,
                    // so the worker tries again. A revoked token stays revoked, and the worker
                    // ends.
                    if is_refusal(&status) && (!was_attached || status.code() == Code::Unauthenticated) {
                        return Err(WorkerError::Refused { message: printable(status.message()).into_owned() });
                    }
                    if is_quarantine(&status) {
                        // Its jobs went to other workers. The process stays: another one would get
                        // jobs, with the same hardware.
                        self.retain_leases(|_| false);
                        tracing::error!(
                            cause = status.message(),
                            "the server has quarantined this worker: examine the machine, then restart the worker"
                        );
                        QUARANTINE_PAUSE
                    } else {
                        let problem = match (is_elsewhere(&status), was_attached) {
                            (true, _) => "this server does not own the shard; looking for the owner",
                            (false, true) => "the connection to the server was lost, retrying",
                            (false, false) => "the server cannot be reached, retrying",
                        };
                        tracing::warn!(code = ?status.code(), cause = status.message(), "{problem}");
                        pauses.next_pause()
                    }
                }
            };
            tokio::select! {
                biased;
                () = self.drained() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Waits until the worker has drained.
    async fn drained(&self) {
        while !self.is_drained() {
            self.changed.notified().await;
        }
    }

    async fn session(self: &Arc<Self>) -> End {
        let (reports, inbox) = mpsc::channel(2);
        let lost = |status, attached| End::Lost { status, attached };
        if reports.try_send(self.report()).is_err() {
            return lost(Status::internal("the channel has no room for the first report"), false);
        }
        let mut client = self.client.clone();
        let opened = tokio::time::timeout(ATTACH_TIMEOUT, client.attach(ReceiverStream::new(inbox))).await;
        let mut responses = match opened {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return lost(status, false),
            Err(_) => return lost(Status::deadline_exceeded("the server did not open the stream"), false),
        };
        let (mut interval, mut attached, mut drain_logged) = (REPORT_INTERVAL_DEFAULT, false, false);
        let mut due = Instant::now() + interval;
        loop {
            if self.is_drained() {
                self.send_final_report(reports, &mut responses).await;
                return End::Drained;
            }
            tokio::select! {
                response = responses.message() => match response {
                    Ok(Some(response)) => {
                        if !attached {
                            attached = true;
                            let device = self.device.describe().name;
                            tracing::info!(name = self.options.name, device, "attached to the server");
                        }
                        if let Some(asked) = response.report_interval.and_then(|asked| Duration::try_from(asked).ok()) {
                            interval = asked.clamp(*REPORT_INTERVAL_RANGE.start(), *REPORT_INTERVAL_RANGE.end());
                            due = due.min(Instant::now() + interval);
                        }
                        if response.draining && !drain_logged {
                            drain_logged = true;
                            tracing::info!("the server is about to stop: held jobs continue until the server is back");
                        }
                        self.apply(response);
                        continue;
                    }
                    Ok(None) => return lost(Status::unavailable("the server ended the stream"), attached),
                    Err(status) => return lost(status, attached),
                },
                () = self.changed.notified() => {
                    due = due.min(Instant::now() + REPORT_COALESCE_DELAY);
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
            }
            due = Instant::now() + interval;
            // If the channel is full because the server does not read, the report is dropped. A
            // later report supersedes it.
            if let Err(mpsc::error::TrySendError::Closed(_)) = reports.try_send(self.report()) {
                return lost(Status::unavailable("the stream is closed"), attached);
            }
        }
    }

    /// Sends the last report and gives the server time to read it.
    async fn send_final_report(
        &self,
        reports: mpsc::Sender<v1::AttachRequest>,
        responses: &mut Streaming<v1::AttachResponse>,
    ) {
        let talk = async {
            if reports.send(self.report()).await.is_ok() {
                drop(reports);
                while let Ok(Some(_)) = responses.message().await {}
            }
        };
        let _ = tokio::time::timeout(FINAL_EXCHANGE_TIMEOUT, talk).await;
    }
}

/// Whether the status means that the server will never accept this worker as it is.
fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented | Code::InvalidArgument
    )
}

#[cfg(test)]
mod tests {
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    #[test]
    fn a_quarantined_worker_stays_and_a_refused_one_ends() {
        let details = ErrorDetails::with_error_info("WORKER_QUARANTINED", "cloakwork", []);
        let quarantine = Status::with_error_details(Code::FailedPrecondition, "found wrong", details);
        assert!(is_quarantine(&quarantine) && !is_refusal(&quarantine));
        let refused = Status::unauthenticated("revoked");
        assert!(is_refusal(&refused) && !is_quarantine(&refused));
        let unknown = Status::failed_precondition("the worker has no assignment yet");
        assert!(!is_refusal(&unknown) && !is_quarantine(&unknown));
    }
}
