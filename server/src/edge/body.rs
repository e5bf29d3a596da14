//! The body of a response, which owns the resources that the call holds until its last byte.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tonic::{Status, body::Body};

use super::{
    admission::Place,
    answers::{Answers, Listed, lock},
    call::Call,
    forward::RETRY_DELAY,
    memory::TenantMemory,
    probe::Probe,
};
use crate::{
    connection::OpenCall,
    error::{ApiError, DEADLINE_EXCEEDED, NOT_OWNER},
};

/// A future that resolves when a response body must end early, with the error that ends the body.
pub(super) type Cut = Pin<Box<dyn Future<Output = ApiError> + Send>>;

/// The resources that a call holds until the last byte of its response.
#[expect(dead_code, reason = "the values release their resources when they are dropped")]
pub(super) enum Taken {
    /// A call that needs no token.
    Probe(Probe, Option<Arc<OpenCall>>),
    /// A call of a tenant. The bytes of the answer are counted in the tenant's share of memory. The
    /// connection may hold these bytes for longer than the call runs.
    Tenant(Place, Option<TenantMemory>),
}

impl Taken {
    /// Resolves when the call is evicted in favour of another call.
    pub(super) fn evicted(&self) -> impl Future<Output = ApiError> + Send + 'static {
        let evicted = match self {
            Self::Probe(probe, _) => Some(probe.evicted()),
            Self::Tenant(..) => None,
        };
        async {
            match evicted {
                Some(evicted) => evicted.await,
                None => std::future::pending().await,
            }
            Probe::eviction()
        }
    }

    fn count(&self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, ApiError> {
        match (self, frame.into_data()) {
            (Self::Tenant(_, Some(share)), Ok(data)) => Ok(Frame::data(share.count(data)?)),
            (_, Ok(data)) => Ok(Frame::data(data)),
            (_, Err(trailers)) => Ok(trailers),
        }
    }
}

/// Passes an answer on until it ends or is cut off.
pub(super) struct Guarded {
    answer: Arc<Mutex<Answer>>,
    _listed: Option<Listed>,
}

impl Guarded {
    /// Guards an answer, which its connection lists.
    pub(super) fn new(answer: Answer) -> Self {
        let answers = answer.answers.clone();
        let answer = Arc::new(Mutex::new(answer));
        Self { _listed: answers.map(|answers| answers.add(&answer)), answer }
    }
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        lock(&self.answer).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.answer).is_at_end()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.answer).body.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}

/// The body of an answer, with the resources that its call holds.
pub(super) struct Answer {
    /// Dropped when the answer is cut off, so that the task that produces the body can notice.
    body: Option<Body>,
    cut: Option<Cut>,
    call: Call,
    /// Released when the answer is cut off. The HTTP library may keep an answer that nobody reads
    /// for as long as the connection lives.
    taken: Option<Taken>,
    /// When a piece was taken, while the next piece has not been asked for.
    unread_since: Option<Instant>,
    /// The trailers of an answer that was cut off between two pieces.
    trailers: Option<HeaderMap>,
    /// The answers of the connection, if the call came over one.
    answers: Option<Arc<Answers>>,
}

/// The resources of an answer that was cut off.
#[expect(dead_code, reason = "the values release their resources when they are dropped")]
pub(super) struct Released {
    body: Option<Body>,
    taken: Option<Taken>,
}

impl Answer {
    /// An answer to a call over the connection of `answers`, or inside the process.
    pub(super) fn new(body: Body, cut: Option<Cut>, call: Call, taken: Taken, answers: Option<Arc<Answers>>) -> Self {
        let unread_since = Some(Instant::now());
        Self { body: Some(body), cut, call, taken: Some(taken), unread_since, trailers: None, answers }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.unread_since = None;
        let Some(body) = &mut self.body else {
            return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
        };
        let error = match http_body::Body::poll_frame(Pin::new(body), cx) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    self.call.end(trailers);
                }
                let counted = match &self.taken {
                    Some(taken) => taken.count(frame),
                    None => Ok(frame),
                };
                match counted {
                    Ok(frame) => {
                        self.unread_since = Some(Instant::now());
                        return Poll::Ready(Some(Ok(self.noted(frame))));
                    }
                    Err(error) => error,
                }
            }
            // Only the answer of another server can break off.
            Poll::Ready(Some(Err(cause))) => {
                tracing::debug!(%cause, "an answer that was passed on broke off");
                NOT_OWNER.error("the server that owns the tenant's shard broke off its answer").retry_after(RETRY_DELAY)
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => match &mut self.cut {
                Some(cut) => std::task::ready!(cut.as_mut().poll(cx)),
                None => return Poll::Pending,
            },
        };
        self.cut_off(error);
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    /// Cuts the answer off if its reader takes nothing, and either the answer must end early or
    /// this has lasted for `unread_time_max`. Returns the resources of the answer, which the caller
    /// drops.
    pub(super) fn end_if_stalled(&mut self, now: Instant, unread_time_max: Duration) -> Option<Released> {
        let unread_time = now.saturating_duration_since(self.unread_since?);
        let error = if unread_time >= unread_time_max {
            let message = format!("the caller read nothing of the answer for {} s", unread_time.as_secs());
            Some(DEADLINE_EXCEEDED.error(message))
        } else {
            // Nothing waits for this future while the reader takes nothing, so no waker is lost.
            match self.cut.as_mut().map(|cut| cut.as_mut().poll(&mut Context::from_waker(Waker::noop()))) {
                Some(Poll::Ready(error)) => Some(error),
                Some(Poll::Pending) | None => None,
            }
        };
        Some(self.cut_off(error?))
    }

    /// Ends the answer with an error, and returns its resources.
    fn cut_off(&mut self, error: ApiError) -> Released {
        let mut trailers = HeaderMap::new();
        self.call.fail(error, &mut trailers);
        self.trailers = Some(trailers);
        (self.cut, self.unread_since) = (None, None);
        Released { body: self.body.take(), taken: self.taken.take() }
    }

    /// The frame, whose data its connection notes until they are sent.
    fn noted(&self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match (&self.answers, frame.into_data()) {
            (Some(answers), Ok(data)) => Frame::data(answers.note(data)),
            (None, Ok(data)) => Frame::data(data),
            (_, Err(frame)) => frame,
        }
    }

    fn is_at_end(&self) -> bool {
        match &self.body {
            Some(body) => http_body::Body::is_end_stream(body),
            None => self.trailers.is_none(),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("call", &self.call).finish_non_exhaustive()
    }
}
