//! The body of a stream that anybody may open. It is read as it comes: what waits unread in a connection keeps the
//! connection's buffers, which may be a thousand times as large. Little of it waits here either.

use std::{future::poll_fn, pin::pin};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

/// Pieces that wait for whoever answers; with one more, the stream ends.
const PIECES_MAX: usize = 16;

/// Bytes of a piece.
const PIECE_BYTES_MAX: usize = 2 << 10;

/// What the body brings, as far as it keeps to these.
pub(super) fn read_at_once<B>(body: B) -> axum::body::Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        let mut body = pin!(body);
        loop {
            let frame = tokio::select! {
                frame = poll_fn(|cx| body.as_mut().poll_frame(cx)) => frame,
                () = sender.closed() => return,
            };
            let Some(Ok(frame)) = frame else { return };
            let Ok(data) = frame.into_data() else { continue };
            // A copy, as the piece may be a small part of what it keeps.
            if data.len() > PIECE_BYTES_MAX || sender.try_send(Bytes::copy_from_slice(&data)).is_err() {
                return;
            }
        }
    });
    axum::body::Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, std::convert::Infallible>))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(count: usize, bytes: usize) -> (mpsc::Sender<Bytes>, axum::body::Body) {
        let (sender, receiver) = mpsc::channel(count);
        for _ in 0..count {
            sender.try_send(Bytes::from(vec![7; bytes])).unwrap();
        }
        let stream = ReceiverStream::new(receiver).map(Ok::<_, std::convert::Infallible>);
        (sender, axum::body::Body::from_stream(stream))
    }

    #[tokio::test]
    async fn what_keeps_to_the_measure_arrives_whole() {
        let (sender, body) = pieces(PIECES_MAX, PIECE_BYTES_MAX);
        drop(sender);
        let read = axum::body::to_bytes(read_at_once(body), usize::MAX).await.unwrap();
        assert_eq!(read.len(), PIECES_MAX * PIECE_BYTES_MAX);
    }

    #[tokio::test]
    async fn nobody_fills_memory_by_sending_what_nobody_reads() {
        for (count, bytes) in [(PIECES_MAX + 1, 1), (1, PIECE_BYTES_MAX + 1)] {
            let (sender, body) = pieces(count, bytes);
            let unread = read_at_once(body);
            // The body is let go of, although its reader is still there.
            sender.closed().await;
            drop(unread);
        }
    }

    #[tokio::test]
    async fn a_body_whose_reader_is_gone_is_let_go_of() {
        let (sender, body) = pieces(1, 1);
        drop(read_at_once(body));
        sender.closed().await;
    }
}
