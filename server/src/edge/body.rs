//! The body of a response, which owns the resources that the call holds until its last byte.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::{Status, body::Body};

use super::{admission::Place, call::Call, memory::TenantMemory, probe::Probe};
use crate::{connection::OpenCall, error::ApiError};

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

/// Passes a response body on until it ends or is cut off.
pub(super) struct Guarded {
    // Dropped when the body is cut off, so that the task that produces the body can notice.
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
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    this.call.end(trailers);
                }
                match this.taken.count(frame) {
                    Ok(frame) => return Poll::Ready(Some(Ok(frame))),
                    Err(error) => error,
                }
            }
            Poll::Ready(end) => return Poll::Ready(end),
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
