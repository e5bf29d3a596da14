//! Requests of one message.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use tonic::{Status, body::Body};

/// Bytes before a message: the compression flag and the message's length.
const PREFIX_BYTES: usize = 5;

/// Reads a request of one message to its end, and returns the message with its prefix. The decoder
/// refuses an incomplete message, and a message whose announced length exceeds `bytes_max`.
pub(crate) async fn whole(mut body: Body, bytes_max: u64) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        // Nothing follows the trailers of a body.
        let Ok(data) = frame?.into_data() else { break };
        if bytes.is_empty() && body.is_end_stream() {
            return Ok(first(data));
        }
        // The pieces are copied. Each is a slice of a buffer of the connection, and would keep the
        // whole buffer in memory.
        bytes.extend_from_slice(&data);
        if announced(&bytes).is_some_and(|length| length > bytes_max) {
            break;
        }
    }
    Ok(first(bytes.freeze()))
}

/// The first message with its prefix, without the bytes that follow it. The library would decode
/// these as further messages, and drop them.
fn first(mut bytes: Bytes) -> Bytes {
    if let Some(length) = announced(&bytes) {
        bytes.truncate(PREFIX_BYTES.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)));
    }
    bytes
}

/// The length of the first message, as its prefix announces it.
fn announced(bytes: &[u8]) -> Option<u64> {
    let [_, length @ ..] = bytes.first_chunk::<PREFIX_BYTES>()?;
    Some(u32::from_be_bytes(*length).into())
}

/// The message without its prefix, or `None` if the message is incomplete or compressed. The
/// decoder refuses both.
pub(crate) fn content(bytes: &[u8]) -> Option<&[u8]> {
    let (length, message) = (announced(bytes)?, bytes.get(PREFIX_BYTES..)?);
    (bytes[0] == 0 && message.len() as u64 == length).then_some(message)
}

/// A body of one piece.
pub(crate) struct Whole(pub(crate) Bytes);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(http_body::Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}
