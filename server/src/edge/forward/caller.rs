//! The body of a call that is passed on, which keeps the fault of its caller.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::{Status, body::Body};

/// A body that keeps its error. The connection to the owner reports only that the call has failed,
/// so a caller that sends too much would look like an owner that does not answer.
pub(super) struct CallerBody {
    body: Body,
    fault: Arc<OnceLock<Status>>,
}

impl CallerBody {
    /// Also returns the place of the error.
    pub(super) fn new(body: Body) -> (Self, Arc<OnceLock<Status>>) {
        let fault = Arc::<OnceLock<Status>>::default();
        (Self { body, fault: fault.clone() }, fault)
    }
}

impl HttpBody for CallerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Err(status)) = &frame {
            // A body has one error at most.
            let _ = self.fault.set(status.clone());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
