//! The body of a response, with everything that must last until its end.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::{Status, body::Body};

use super::{admission::Place, call::Call, memory::Held};
use crate::error::ApiError;

/// Resolves when a body must end that does not end by itself, and says why.
pub(super) type Cut = Pin<Box<dyn Future<Output = ApiError> + Send>>;

/// What a call takes until its last byte.
pub(super) struct Taken {
    pub(super) place: Place,
    /// The piece of the answer that is on its way.
    pub(super) answer: Option<Held>,
}

impl Taken {
    /// Makes room for a piece of the answer in place of the one before it.
    fn hold<E>(&self, frame: &Option<Result<Frame<Bytes>, E>>) -> Result<(), ApiError> {
        let Some(answer) = &self.answer else { return Ok(()) };
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        answer.resize(data.map_or(0, |data| data.len() as u64))
    }
}

/// Passes a body on until it ends or is cut.
pub(super) struct Guarded {
    // Dropped when it is cut, so that whoever fills it learns of it.
    inner: Option<Body>,
    cut: Option<Cut>,
    call: Call,
    taken: Taken,
}

impl Guarded {
    pub(super) fn new(inner: Body, cut: Option<Cut>, call: Call, taken: Taken) -> Self {
        Self { inner: Some(inner), cut, call, taken }
    }
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let error = match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(mut frame) => {
                if let Some(Ok(frame)) = &mut frame
                    && let Some(trailers) = frame.trailers_mut()
                {
                    this.call.end(trailers);
                }
                // By now the piece before it has been read.
                match this.taken.hold(&frame) {
                    Ok(()) => return Poll::Ready(frame),
                    Err(error) => error,
                }
            }
            Poll::Pending => match &mut this.cut {
                Some(cut) => std::task::ready!(cut.as_mut().poll(cx)),
                None => return Poll::Pending,
            },
        };
        this.inner = None;
        let mut trailers = HeaderMap::new();
        this.call.fail(error, &mut trailers);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}
