//! Messages to a worker: the jobs that the worker should hold, with the contents of new ones.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_proto::v1::{self, AttachResponse};
use cloakwork_scheduler::JobId;
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::dispatch::{Leases, Wish};

/// Turns wishes, the sets of leases that a worker is to hold, into messages. A stream sends the
/// content of each job once.
pub(super) struct Assignments {
    /// Leases that the worker has listed on this stream.
    shown: watch::Receiver<HashSet<(JobId, u64)>>,
    /// Certificates of the worker's key. Each certificate is sent once.
    certificates: watch::Receiver<Bytes>,
    sent: HashSet<(JobId, u64)>,
    interval: Duration,
    draining: CancellationToken,
    told_draining: bool,
}

impl Assignments {
    /// Assignments for a worker that lists its leases in `shown` and reports every `interval`.
    pub(super) fn new(
        shown: watch::Receiver<HashSet<(JobId, u64)>>,
        mut certificates: watch::Receiver<Bytes>,
        interval: Duration,
        draining: CancellationToken,
    ) -> Self {
        certificates.mark_changed();
        Self { shown, certificates, sent: HashSet::new(), interval, draining, told_draining: false }
    }

    /// Yields one or more messages for each wish, and again when the server begins to drain or has
    /// a new certificate.
    pub(super) fn stream(
        self,
        mut wishes: watch::Receiver<Wish>,
    ) -> impl Stream<Item = Result<AttachResponse, Status>> + Send {
        wishes.mark_changed();
        let next = |(mut this, mut wishes): (Self, watch::Receiver<Wish>)| async move {
            loop {
                tokio::select! {
                    changed = wishes.changed() => changed.ok()?,
                    // Repeats the wish, because each message holds a whole wish. The first wish is
                    // not there yet when a worker attaches, and takes the certificate with it.
                    Ok(()) = this.certificates.changed(), if wishes.borrow().is_some() => {
                        this.certificates.mark_changed();
                    }
                    // Repeats the wish, in order to report that the server is draining.
                    () = this.draining.cancelled(), if !this.told_draining => this.told_draining = true,
                }
                // Nothing is sent before the first decision: an empty wish would withdraw all jobs
                // of the worker.
                let wish = wishes.borrow_and_update().clone();
                if let Some(wish) = wish {
                    return Some((this.messages(&wish), (this, wishes)));
                }
            }
        };
        let messages = futures_util::stream::unfold((self, wishes), next);
        futures_util::StreamExt::flat_map(messages, |messages| tokio_stream::iter(messages).map(Ok))
    }

    /// The messages for a wish: one message, or several if the contents of its new jobs are too
    /// large for one. Each message holds the complete wish, with the contents of different jobs.
    fn messages(&mut self, wish: &Leases) -> Vec<AttachResponse> {
        self.sent.retain(|lease| wish.contains_key(lease));
        let mut messages = Vec::new();
        loop {
            let mut room = CONTENT_BYTES;
            let mut more = false;
            let now = Instant::now();
            let assignments = wish.iter().map(|(lease, leased)| {
                let fits = room > 0;
                let new = !self.sent.contains(lease) && !self.shown.borrow().contains(lease);
                more |= new && !fits;
                let content = (new && fits).then(|| {
                    self.sent.insert(*lease);
                    room = room.saturating_sub(leased.work.bytes());
                    leased.content()
                });
                let time_left = leased.deadline.saturating_duration_since(now).try_into().ok();
                v1::Assignment { lease: Some(leased.lease()), content, time_left }
            });
            let assignments = assignments.collect();
            let certificate = match self.certificates.has_changed() {
                Ok(true) => self.certificates.borrow_and_update().clone(),
                _ => Bytes::new(),
            };
            messages.push(AttachResponse {
                assignments,
                report_interval: self.interval.try_into().ok(),
                draining: self.draining.is_cancelled(),
                certificate,
            });
            if !more {
                return messages;
            }
        }
    }
}

/// Bytes of content after which a message takes no further job. The last job may exceed the bound
/// by the size of one request.
const CONTENT_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use futures_util::FutureExt as _;

    use super::*;

    /// A stream that looked again at once, for a certificate that it cannot send yet, would take a
    /// thread of the runtime for itself.
    #[test]
    fn a_stream_with_a_certificate_and_without_a_wish_waits() {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let (_shown, shown) = watch::channel(HashSet::new());
            let (certificate, certificates) = watch::channel(Bytes::from_static(b"first"));
            let (wish, wishes) = watch::channel(None);
            let draining = CancellationToken::new();
            let assignments = Assignments::new(shown, certificates, Duration::from_secs(1), draining.clone());
            let mut messages = Box::pin(assignments.stream(wishes));
            let before = messages.next().now_or_never().is_none();
            certificate.send_replace(Bytes::from_static(b"second"));
            draining.cancel();
            let renewed = messages.next().now_or_never().is_none();
            wish.send_replace(Some(std::sync::Arc::default()));
            let first = messages.next().now_or_never().flatten().and_then(Result::ok).expect("a message");
            let _ = done.send((before, renewed, first.certificate, first.draining));
        });
        // The thread may also be slow.
        let ended = ended.recv_timeout(Duration::from_secs(60)).expect("the stream waits");
        assert_eq!(ended, (true, true, Bytes::from_static(b"second"), true));
    }
}
