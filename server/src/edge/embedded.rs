//! The path for calls of the worker inside this process. The calls run in the worker's own tasks.
//! So a panic in a call must not end the worker, and no call may run on once the resources behind
//! the edge are closed.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use cloakwork_worker::Uplink;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};

use super::Edge;
use crate::auth::{Peer, policy::Port};

/// A gate for embedded calls that can be closed.
#[derive(Clone, Debug, Default)]
pub struct Door {
    closed: CancellationToken,
    /// Each running call holds a read lock.
    running: Arc<RwLock<()>>,
}

impl Door {
    /// Ends the running calls, admits no further calls, and returns when all calls have released
    /// their resources.
    pub async fn close(&self) {
        self.closed.cancel();
        drop(self.running.write().await);
    }
}

impl Edge {
    /// Returns the uplink for the worker inside this process, which makes the same calls as any
    /// other worker, without a connection. The uplink has a separate gate ([`Door`]), so that the
    /// worker can hand in results while the server drains.
    pub fn uplink(self: &Arc<Self>, door: &Door) -> Uplink {
        let (edge, door) = (self.clone(), door.clone());
        Uplink::new(tower::service_fn(move |request: Request<Body>| {
            edge.clone().handle_embedded(door.clone(), request)
        }))
    }

    pub(super) async fn handle_embedded(
        self: Arc<Self>,
        Door { closed, running }: Door,
        request: Request<Body>,
    ) -> Result<Response<Body>, Status> {
        // This fails only while `Door::close` waits for or holds the write lock.
        let place = running.try_read_owned().map_err(|_| stopped())?;
        let path = request.uri().path().to_owned();
        let handled = AssertUnwindSafe(self.handle(Port::Api, Peer::Embedded, request)).catch_unwind();
        let response = tokio::select! {
            biased;
            () = closed.cancelled() => return Err(stopped()),
            handled = handled => handled.map_err(|_| panicked(&path))?,
        };
        let closed = Box::pin(closed.cancelled_owned());
        Ok(response.map(|body| Body::new(Contained { inner: Some(body), closed, path, _place: place })))
    }
}

/// A response body that ends with an error when the door closes or when the inner body panics.
struct Contained {
    inner: Option<Body>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    path: String,
    _place: OwnedRwLockReadGuard<()>,
}

impl http_body::Body for Contained {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let error = match this.closed.as_mut().poll(cx) {
            Poll::Ready(()) => stopped(),
            Poll::Pending => match catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(cx))) {
                Ok(polled) => return polled,
                Err(_) => panicked(&this.path),
            },
        };
        this.inner = None;
        Poll::Ready(Some(Err(error)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}

fn stopped() -> Status {
    Status::unavailable("the server has stopped")
}

/// Logs that a call panicked, and returns its error. The panic hook has already logged the panic's
/// message.
fn panicked(path: &str) -> Status {
    tracing::error!(path, "a call of the embedded worker panicked");
    Status::internal("the call failed inside the server")
}
