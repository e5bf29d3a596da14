//! Calls that need no token: health checks and reflection. Each call has a place, a limit on its
//! body and a time limit. When all places are taken, the longest-running call is evicted, so that a
//! flood of these calls cannot block health checks.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

use super::{arrival::Charge, call::RequestState};
use crate::{
    auth::policy::Load,
    error::{ApiError, DEADLINE_EXCEEDED, OVERLOADED, REQUEST_TOO_LARGE},
};

/// Maximum number of body pieces that wait for their reader. One more piece ends the call.
const PIECES_MAX: usize = 16;

/// Maximum size of a piece in bytes.
const PIECE_BYTES_MAX: usize = 2 << 10;

/// Maximum size of a whole body in bytes. Messages contain only names of services and symbols.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The running calls that need no token.
#[derive(Debug)]
pub(super) struct Probes {
    most: usize,
    /// Calls with one answer, and calls with a stream of answers. The two kinds have separate
    /// places, because a stream may last long and must not take the place of a health check.
    running: [Mutex<Running>; 2],
}

#[derive(Debug, Default)]
struct Running {
    begun: u64,
    /// The calls in the order in which they began.
    calls: BTreeMap<u64, CancellationToken>,
}

impl Probes {
    /// Creates places for `most` calls of each kind at once.
    pub(super) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most: usize::try_from(most).unwrap_or(usize::MAX), running: Default::default() })
    }

    /// Takes a place for a call. If all places are taken, the oldest call is evicted.
    pub(super) fn enter(self: &Arc<Self>, load: Load) -> Probe {
        let kind = usize::from(load == Load::ProbeStream);
        let end = CancellationToken::new();
        let mut running = self.running(kind);
        if running.calls.len() >= self.most
            && let Some((_, oldest)) = running.calls.pop_first()
        {
            oldest.cancel();
        }
        running.begun += 1;
        let number = running.begun;
        running.calls.insert(number, end.clone());
        drop(running);
        Probe { probes: self.clone(), kind, number, end }
    }

    fn running(&self, kind: usize) -> MutexGuard<'_, Running> {
        self.running[kind].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a running call. Dropping the value frees the place.
#[derive(Debug)]
pub(super) struct Probe {
    probes: Arc<Probes>,
    kind: usize,
    number: u64,
    end: CancellationToken,
}

impl Probe {
    /// Resolves when the call is evicted.
    pub(super) fn evicted(&self) -> WaitForCancellationFutureOwned {
        self.end.clone().cancelled_owned()
    }

    /// The error of an evicted call.
    pub(super) fn eviction() -> ApiError {
        OVERLOADED.error("another call took the place of this one (probes)").with("limit", "probes")
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.probes.running(self.kind).calls.remove(&self.number);
    }
}

/// Returns a copy of the body, which is read as it arrives. The limits are `idle` between two
/// pieces, and the constants above.
///
/// A piece that is not read would keep the connection's buffer in memory, which may be 1000 times
/// as large. So each piece is copied at once. `charge` is released when the body ends.
pub(super) fn read_at_once<B>(body: B, idle: Duration, state: RequestState, charge: Option<Charge>) -> axum::body::Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        let _charge = charge;
        let mut body = pin!(body);
        let read = read(body.as_mut(), idle, &state, &sender);
        let status = tokio::select! {
            read = read => match read {
                Ok(()) => return,
                Err(status) => status,
            },
            () = sender.closed() => return,
        };
        // If the channel is full, the error is lost, and the call ends without it.
        let _ = sender.try_send(Err(status));
    });
    axum::body::Body::from_stream(ReceiverStream::new(receiver))
}

async fn read<B>(
    mut body: Pin<&mut B>,
    idle: Duration,
    state: &RequestState,
    sender: &mpsc::Sender<Result<Bytes, Status>>,
) -> Result<(), Status>
where
    B: http_body::Body<Data = Bytes>,
{
    let too_large = |what: &str, most_bytes: usize| {
        Status::from(REQUEST_TOO_LARGE.error(format!("{what} has more than {most_bytes} bytes")))
    };
    let mut received_bytes = 0;
    loop {
        let frame = timeout(idle, poll_fn(|cx| body.as_mut().poll_frame(cx))).await;
        let frame = frame.map_err(|_| {
            let message = format!("nothing arrived for {} ms (probe_idle_ms)", idle.as_millis());
            DEADLINE_EXCEEDED.error(message)
        })?;
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|_| state.break_off())?;
        let Ok(data) = frame.into_data() else { continue };
        received_bytes += data.len();
        if data.len() > PIECE_BYTES_MAX {
            return Err(too_large("a piece of the request", PIECE_BYTES_MAX));
        }
        if received_bytes > BODY_BYTES_MAX {
            return Err(too_large("the request", BODY_BYTES_MAX));
        }
        if sender.try_send(Ok(Bytes::copy_from_slice(&data))).is_err() {
            return Err(OVERLOADED.error("messages arrive faster than they are answered").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio_stream::StreamExt as _;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    fn pieces(count: usize, bytes: usize) -> (mpsc::Sender<Bytes>, axum::body::Body) {
        let (sender, receiver) = mpsc::channel(count.max(1));
        for _ in 0..count {
            sender.try_send(Bytes::from(vec![7; bytes])).unwrap();
        }
        let stream = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
        (sender, axum::body::Body::from_stream(stream))
    }

    async fn failure(body: axum::body::Body) -> Status {
        let error = axum::body::to_bytes(body, usize::MAX).await.unwrap_err();
        Status::from_error(error.into_inner())
    }

    #[tokio::test]
    async fn a_body_within_its_limits_arrives_whole() {
        let (sender, body) = pieces(PIECES_MAX, PIECE_BYTES_MAX);
        drop(sender);
        let read =
            axum::body::to_bytes(read_at_once(body, IDLE, RequestState::default(), None), usize::MAX).await.unwrap();
        assert_eq!(read.len(), PIECES_MAX * PIECE_BYTES_MAX);
    }

    #[tokio::test]
    async fn an_unread_body_beyond_its_limits_is_dropped() {
        for (count, bytes) in [(PIECES_MAX + 1, 1), (1, PIECE_BYTES_MAX + 1)] {
            let (sender, body) = pieces(count, bytes);
            let unread = read_at_once(body, IDLE, RequestState::default(), None);
            // The body is dropped although the receiver of its copy still exists.
            sender.closed().await;
            drop(unread);
        }
    }

    #[tokio::test]
    async fn a_body_is_dropped_when_its_reader_is_gone() {
        let (sender, body) = pieces(1, 1);
        drop(read_at_once(body, IDLE, RequestState::default(), None));
        sender.closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_size_of_a_whole_body_is_limited() {
        let (sender, body) = pieces(1, PIECE_BYTES_MAX);
        tokio::spawn(async move {
            while sender.send(Bytes::from(vec![7; PIECE_BYTES_MAX])).await.is_ok() {
                // The reader keeps up, so only the limit on the whole body applies.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let status = failure(read_at_once(body, IDLE, RequestState::default(), None)).await;
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_times_out() {
        let (_sender, body) = pieces(1, 1);
        let status = failure(read_at_once(body, IDLE, RequestState::default(), None)).await;
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status:?}");
    }

    #[tokio::test]
    async fn the_oldest_call_is_evicted_and_streams_take_no_place_of_health_checks() {
        let probes = Probes::new(2);
        let [first, second] = [probes.enter(Load::Probe), probes.enter(Load::Probe)];
        let streams = [probes.enter(Load::ProbeStream), probes.enter(Load::ProbeStream)];
        assert!(!first.end.is_cancelled());
        let third = probes.enter(Load::Probe);
        assert!(first.end.is_cancelled() && !second.end.is_cancelled());
        assert!(streams.iter().all(|stream| !stream.end.is_cancelled()));
        first.evicted().await;
        drop((first, second));
        let fourth = probes.enter(Load::Probe);
        assert!(!third.end.is_cancelled());
        drop((third, fourth, streams));
        assert!((0..2).all(|kind| probes.running(kind).calls.is_empty()));
    }
}
