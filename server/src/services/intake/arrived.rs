//! The number of bytes of a stream of messages that have arrived.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::{Request, Status, body::Body};

/// Bytes of a stream that its decoder has read, with the bytes between messages. In the extensions
/// of each request whose messages form a stream.
///
/// The bytes in a message are slices of the decoder's buffers. A slice keeps its buffer in memory,
/// with all bytes that arrived around it. These bytes may be far more than the slice: other
/// messages, and fields that the server does not know.
#[derive(Clone, Debug, Default)]
pub(in crate::services) struct Arrived {
    bytes: Arc<AtomicU64>,
    /// Bytes for which earlier slices have accounted.
    accounted_bytes: u64,
}

impl Arrived {
    /// The counter of a request.
    pub(in crate::services) fn of<T>(request: &Request<T>) -> Self {
        request.extensions().get().cloned().unwrap_or_default()
    }

    /// Bytes that arrived since the last call of this function. The buffers of all slices since
    /// then have about this size together.
    pub(in crate::services) fn since_last(&mut self) -> u64 {
        let bytes = self.bytes.load(Relaxed);
        bytes.saturating_sub(std::mem::replace(&mut self.accounted_bytes, bytes))
    }
}

/// A request body that counts its bytes.
pub(super) struct Metered {
    inner: Body,
    arrived: Arrived,
}

impl Metered {
    pub(super) fn new(inner: Body, arrived: Arrived) -> Self {
        Self { inner, arrived }
    }
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.arrived.bytes.fetch_add(data.len() as u64, Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
