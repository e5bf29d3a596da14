//! The body of a response, with everything that must last until its end.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep_until};
use tonic::{Status, body::Body};

use super::{
    admission::Place,
    call::Call,
    deadline::{self, Deadline},
};

/// Passes a body on until it ends or its time is over.
pub(super) struct Guarded {
    // Dropped when the time is over, so that whoever fills it learns of it.
    inner: Option<Body>,
    timer: Option<Pin<Box<Sleep>>>,
    call: Call,
    _place: Place,
}

impl Guarded {
    pub(super) fn new(inner: Body, deadline: Deadline, call: Call, place: Place) -> Self {
        let timer = deadline.0.map(|at| Box::pin(sleep_until(at)));
        Self { inner: Some(inner), timer, call, _place: place }
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
        match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(mut frame) => {
                if let Some(Ok(frame)) = &mut frame
                    && let Some(trailers) = frame.trailers_mut()
                {
                    this.call.end(trailers);
                }
                Poll::Ready(frame)
            }
            Poll::Pending => {
                let Some(timer) = &mut this.timer else {
                    return Poll::Pending;
                };
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.inner = None;
                let mut trailers = HeaderMap::new();
                this.call.fail(deadline::exceeded(), &mut trailers);
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}
