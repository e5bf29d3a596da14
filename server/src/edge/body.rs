//! The body of a response, with everything that must last until its end.

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

/// Resolves when a body must end that does not end by itself, and says why.
pub(super) type Cut = Pin<Box<dyn Future<Output = ApiError> + Send>>;

/// What a call takes until its last byte.
#[expect(dead_code, reason = "the places are there to be dropped")]
pub(super) enum Taken {
    /// A call that needs no token.
    Probe(Probe, Option<Arc<OpenCall>>),
    /// A call of a tenant. The bytes of the answer are counted in the tenant's share; the connection may hold them for
    /// longer than the call.
    Tenant(Place, Option<TenantMemory>),
}

impl Taken {
    /// Resolves when the call has to make room for another one.
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
