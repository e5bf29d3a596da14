//! The answers of one connection that have not been sent to their end.
//!
//! The HTTP library takes a piece of an answer, and takes the next piece when the reader has room.
//! A deadline, an eviction or a revoked token ends an answer only when a piece is taken. A reader
//! without room would therefore keep an answer for ever, with its open file or its stream of
//! messages. For this reason, each connection checks these answers itself.
//!
//! The library also keeps pieces that it has taken until the reader has room. Nothing but the end
//! of the connection takes these pieces from it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::body::Answer;

/// Time between two looks at the answers of a connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time in which a reader has no room for the next piece of an answer. The answer then
/// ends, and so does the connection if the library still keeps a piece of that age.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(300);

/// The answers of a connection.
#[derive(Debug, Default)]
pub(super) struct Answers {
    open: Mutex<Open>,
    added: Notify,
    unsent: Mutex<Unsent>,
}

#[derive(Debug, Default)]
struct Open {
    added: u64,
    answers: HashMap<u64, Arc<Mutex<Answer>>>,
}

/// The pieces that the HTTP library keeps.
#[derive(Debug, Default)]
struct Unsent {
    noted: u64,
    since: BTreeMap<u64, Instant>,
}

impl Answers {
    /// Notes a piece until the HTTP library drops it.
    pub(super) fn note(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let mut unsent = self.unsent();
        unsent.noted += 1;
        let number = unsent.noted;
        unsent.since.insert(number, Instant::now());
        Bytes::from_owner(Piece { bytes, answers: self.clone(), number })
    }

    /// Adds an answer, until the returned value is dropped.
    pub(super) fn add(self: &Arc<Self>, answer: &Arc<Mutex<Answer>>) -> Listed {
        let mut open = self.open();
        open.added += 1;
        let number = open.added;
        open.answers.insert(number, answer.clone());
        if open.answers.len() == 1 {
            self.added.notify_one();
        }
        Listed { answers: self.clone(), number }
    }

    /// Ends stalled answers. Returns when the connection must end as well.
    pub(super) async fn end_stalled(&self) {
        loop {
            if self.open().answers.is_empty() && self.unsent().since.is_empty() {
                self.added.notified().await;
            }
            sleep(CHECK_INTERVAL).await;
            self.check();
            if self.is_stuck() {
                return;
            }
        }
    }

    /// Whether the HTTP library has kept a piece for too long.
    fn is_stuck(&self) -> bool {
        // Pieces are numbered in the order of their times.
        self.unsent().since.first_key_value().is_some_and(|(_, since)| since.elapsed() > UNREAD_TIME_MAX)
    }

    fn check(&self) {
        let answers: Vec<_> = self.open().answers.values().cloned().collect();
        let now = Instant::now();
        for answer in answers {
            // The body is dropped without the lock: its own resources may wait for this answer.
            let ended = lock(&answer).end_if_stalled(now, UNREAD_TIME_MAX);
            drop(ended);
        }
    }

    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer's place among the answers of its connection. Dropping it removes the answer.
#[derive(Debug)]
pub(super) struct Listed {
    answers: Arc<Answers>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let removed = self.answers.open().answers.remove(&self.number);
        // Dropped without the lock.
        drop(removed);
    }
}

/// A piece of an answer, noted until it is dropped.
struct Piece {
    bytes: Bytes,
    answers: Arc<Answers>,
    number: u64,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.answers.unsent().since.remove(&self.number);
    }
}

/// Locks an answer. A panic while an answer is locked ends its connection's task or its own, and
/// leaves nothing half-changed.
pub(super) fn lock(answer: &Mutex<Answer>) -> MutexGuard<'_, Answer> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use bytes::Bytes;
    use http_body::{Body as _, Frame};
    use tokio::{
        sync::mpsc::{self, error::TryRecvError},
        time::{advance, timeout},
    };
    use tonic::{Code, Status, body::Body};

    use super::*;
    use crate::{
        auth::policy::Load,
        edge::{
            body::{Cut, Guarded, Taken},
            call::Call,
            deadline,
            probe::Probes,
        },
        metrics::Telemetry,
    };

    /// A body of some pieces that does not end. Dropping it drops its sender, which a test
    /// observes.
    struct Pieces(usize, #[expect(dead_code, reason = "dropped with the body")] mpsc::Sender<()>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"piece")))))
                }
                None => Poll::Pending,
            }
        }
    }

    struct Fixture {
        answers: Arc<Answers>,
        body: Guarded,
        dropped: mpsc::Receiver<()>,
    }

    impl Fixture {
        fn new(pieces: usize, cut: Option<Cut>) -> Self {
            let (sender, dropped) = mpsc::channel(1);
            let answers = Arc::<Answers>::default();
            let call = Call::begin(Arc::new(Telemetry::new(10).unwrap()), "/test");
            let taken = Taken::Probe(Probes::new(1).enter(Load::Probe), None);
            let answer = Answer::new(Body::new(Pieces(pieces, sender)), cut, call, taken, Some(answers.clone()));
            Self { body: Guarded::new(answer), answers, dropped }
        }

        fn take(&mut self) -> Poll<Option<Frame<Bytes>>> {
            let polled = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop()));
            polled.map(|frame| frame.map(Result::unwrap))
        }

        fn takes_a_piece(&mut self) -> bool {
            matches!(self.take(), Poll::Ready(Some(frame)) if frame.is_data())
        }

        /// Looks at the answers, and returns whether the body still exists.
        fn keeps_body_after_check(&mut self) -> bool {
            self.answers.check();
            self.dropped.try_recv() == Err(TryRecvError::Empty)
        }

        /// The status that the reader receives if it reads on.
        fn status(&mut self) -> Code {
            let Poll::Ready(Some(frame)) = self.take() else { panic!("trailers follow") };
            let status = Status::from_header_map(frame.trailers_ref().unwrap()).unwrap();
            assert!(matches!(self.take(), Poll::Ready(None)));
            status.code()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_ends_an_answer_whose_reader_has_stalled() {
        let cut: Cut = Box::pin(async {
            sleep(Duration::from_secs(10)).await;
            deadline::exceeded()
        });
        let mut fixture = Fixture::new(2, Some(cut));
        assert!(fixture.takes_a_piece() && fixture.keeps_body_after_check());
        advance(Duration::from_secs(11)).await;
        assert!(!fixture.keeps_body_after_check());
        assert!(!fixture.body.is_end_stream());
        assert_eq!(fixture.status(), Code::DeadlineExceeded);
        assert!(fixture.body.is_end_stream());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_if_its_reader_takes_nothing_for_too_long() {
        let mut fixture = Fixture::new(3, None);
        for _ in 0..2 {
            assert!(fixture.takes_a_piece());
            advance(UNREAD_TIME_MAX - Duration::from_secs(1)).await;
            assert!(fixture.keeps_body_after_check(), "each piece that is taken renews the time");
        }
        advance(Duration::from_secs(1)).await;
        assert!(!fixture.keeps_body_after_check());
        assert_eq!(fixture.status(), Code::DeadlineExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_whose_reader_waits_for_more_stays() {
        let mut fixture = Fixture::new(1, None);
        assert!(fixture.takes_a_piece());
        assert!(fixture.take().is_pending());
        advance(10 * UNREAD_TIME_MAX).await;
        assert!(fixture.keeps_body_after_check());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_its_stalled_answers_by_itself() {
        let mut fixture = Fixture::new(1, None);
        let answers = fixture.answers.clone();
        let ending = tokio::spawn(async move { answers.end_stalled().await });
        let begun = Instant::now();
        assert!(fixture.takes_a_piece());
        let dropped = timeout(2 * UNREAD_TIME_MAX, fixture.dropped.recv()).await;
        assert_eq!(dropped.expect("the answer ends"), None);
        assert!(begun.elapsed() <= UNREAD_TIME_MAX + 2 * CHECK_INTERVAL);
        drop(fixture.body);
        assert!(fixture.answers.open().answers.is_empty(), "an answer at its end is not kept");
        assert!(!ending.is_finished(), "the reader has taken the piece");
        ending.abort();
    }

    /// The HTTP library drops an answer whose last piece it has taken, and keeps that piece.
    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_if_its_peer_does_not_take_a_piece_for_too_long() {
        let mut fixture = Fixture::new(2, None);
        let answers = fixture.answers.clone();
        let ending = tokio::spawn(async move { answers.end_stalled().await });
        let Poll::Ready(Some(first)) = fixture.take() else { panic!("a piece") };
        advance(UNREAD_TIME_MAX / 2).await;
        let Poll::Ready(Some(second)) = fixture.take() else { panic!("a piece") };
        drop((first, fixture.body));
        let begun = Instant::now();
        timeout(2 * UNREAD_TIME_MAX, ending).await.expect("the connection ends").unwrap();
        assert!(begun.elapsed() >= UNREAD_TIME_MAX, "the first piece was sent in time");
        assert_eq!(second.into_data().unwrap(), b"piece"[..]);
        assert!(fixture.answers.unsent().since.is_empty());
    }
}
