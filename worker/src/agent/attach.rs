//! The stream to the server: opened again whenever it breaks, while the jobs go on.

use std::{sync::Arc, time::Duration};

use cloakwork_proto::{printable, v1};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{Agent, FAREWELL};
use crate::{WorkerError, backoff::Backoff};

/// How a stream ended.
enum End {
    /// As it should: nothing is left to do.
    Left,
    /// Broken, refused, or ended by the server.
    Lost {
        status: Status,
        /// The server had answered on it.
        attached: bool,
    },
}

/// Changes that come closer together than this share a report. Nothing waits for one: results go their own way, and the
/// server knows what it has assigned.
const COALESCE: Duration = Duration::from_millis(10);
/// Longest wait for the server to open a stream.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bounds of what a server may ask for, and what holds before it has asked.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(1);

impl Agent {
    /// Keeps a stream open until nothing is left to do.
    pub(super) async fn serve(self: &Arc<Self>) -> Result<(), WorkerError> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        let mut welcome = false;
        loop {
            match self.session().await {
                End::Left => return Ok(()),
                End::Lost { status, attached } => {
                    if attached {
                        backoff.reset();
                        welcome = true;
                    }
                    // Whoever was welcome may be refused by a server that is not itself yet; a right that is gone stays gone.
                    if is_refusal(&status) && (!welcome || status.code() == Code::Unauthenticated) {
                        return Err(WorkerError::Refused { message: printable(status.message()).into_owned() });
                    }
                    tracing::warn!(code = ?status.code(), cause = status.message(), "lost the server, trying again");
                }
            }
            if self.may_leave() {
                return Ok(());
            }
            backoff.wait().await;
        }
    }

    async fn session(self: &Arc<Self>) -> End {
        let (reports, inbox) = mpsc::channel(2);
        let lost = |status, attached| End::Lost { status, attached };
        if reports.try_send(self.report()).is_err() {
            return lost(Status::internal("no room for a first report"), false);
        }
        let mut client = self.client.clone();
        let opened = tokio::time::timeout(PATIENCE, client.attach(ReceiverStream::new(inbox))).await;
        let mut wishes = match opened {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return lost(status, false),
            Err(_) => return lost(Status::deadline_exceeded("the server did not open the stream"), false),
        };
        let (mut interval, mut attached, mut told) = (INTERVAL, false, false);
        let mut due = Instant::now() + interval;
        loop {
            if self.may_leave() {
                self.farewell(reports, &mut wishes).await;
                return End::Left;
            }
            tokio::select! {
                wish = wishes.message() => match wish {
                    Ok(Some(wish)) => {
                        if !attached {
                            attached = true;
                            let device = self.device.describe().name;
                            tracing::info!(name = self.options.name, device, "attached to the server");
                        }
                        if let Some(asked) = wish.report_interval.and_then(|asked| Duration::try_from(asked).ok()) {
                            interval = asked.clamp(*INTERVALS.start(), *INTERVALS.end());
                            due = due.min(Instant::now() + interval);
                        }
                        if wish.draining && !told {
                            told = true;
                            tracing::info!("the server is about to stop: what is held goes on, until it is back");
                        }
                        self.apply(wish);
                        continue;
                    }
                    Ok(None) => return lost(Status::unavailable("the server ended the stream"), attached),
                    Err(status) => return lost(status, attached),
                },
                () = self.changed.notified() => {
                    due = due.min(Instant::now() + COALESCE);
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
            }
            due = Instant::now() + interval;
            // A server that does not read gets the state of things when it reads again.
            if let Err(mpsc::error::TrySendError::Closed(_)) = reports.try_send(self.report()) {
                return lost(Status::unavailable("the stream is closed"), attached);
            }
        }
    }

    /// The last report, and time for the server to read it.
    async fn farewell(&self, reports: mpsc::Sender<v1::AttachRequest>, wishes: &mut Streaming<v1::AttachResponse>) {
        let talk = async {
            if reports.send(self.report()).await.is_ok() {
                drop(reports);
                while let Ok(Some(_)) = wishes.message().await {}
            }
        };
        let _ = tokio::time::timeout(FAREWELL, talk).await;
    }
}

/// Will the server never want this worker as it is?
fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented | Code::InvalidArgument
    )
}
