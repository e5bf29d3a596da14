//! Decides when a read counts as delivered: the server has handed its last byte to the connection,
//! and the caller's flow control had room for it.
//!
//! A delivery is not a receipt by the caller, because HTTP/2 has no receipts. Bytes that fit into
//! the caller's window may still be in transit, or in the connection's buffer. If the caller aborts
//! at that moment, the read may still count. Delivered outputs are therefore kept for a while, and
//! can be fetched again.

use cloakwork_proto::v1::GetResponse;
use futures_util::{StreamExt as _, stream};
use tokio::task::yield_now;

use super::ciphertext::Chunks;

/// The stage of a read.
enum Stage {
    Bytes,
    /// The empty message after the last byte went out.
    Closing,
    Failed,
}

/// Runs `delivered` when a read of `left_bytes` counts as delivered, before its stream ends.
/// `delivered` does not run for a read of zero bytes, or for a read that fails or ends early.
/// `delivered` does not run either if the caller aborts while its window has no room for the last
/// byte.
///
/// A stream that the transport polls to its end is no sufficient sign. The transport polls on while
/// the caller has no room for earlier bytes, and a caller that aborts then has not received them.
/// Therefore an empty message follows the last byte. The transport takes the empty message only
/// when the caller's flow control had room for all bytes before it. A pause before and after the
/// empty message makes the encoder flush, because the encoder otherwise joins small messages.
pub(super) fn then(chunks: Chunks, left_bytes: u64, delivered: impl Future<Output = ()> + Send + 'static) -> Chunks {
    if left_bytes == 0 {
        return chunks;
    }
    let start = (chunks, left_bytes, Stage::Bytes, delivered);
    Box::pin(stream::unfold(start, |(mut chunks, left_bytes, stage, delivered)| async move {
        match stage {
            Stage::Bytes => match chunks.next().await {
                Some(Ok(message)) => {
                    let left_bytes = left_bytes.saturating_sub(message.data.len() as u64);
                    Some((Ok(message), (chunks, left_bytes, Stage::Bytes, delivered)))
                }
                Some(Err(error)) => Some((Err(error), (chunks, left_bytes, Stage::Failed, delivered))),
                None if left_bytes > 0 => None,
                None => {
                    yield_now().await;
                    Some((Ok(GetResponse::default()), (chunks, left_bytes, Stage::Closing, delivered)))
                }
            },
            Stage::Closing => {
                yield_now().await;
                // The future runs in a separate task. A caller that closes after the last byte
                // resets the stream. The reset drops this future, which would cancel `delivered`
                // halfway.
                let _ = tokio::spawn(delivered).await;
                None
            }
            Stage::Failed => None,
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        task::Poll,
    };

    use bytes::Bytes;
    use futures_util::poll;
    use tokio::sync::oneshot;
    use tonic::Status;

    use super::*;

    fn message(bytes: &'static [u8]) -> Result<GetResponse, Status> {
        Ok(GetResponse { data: Bytes::from_static(bytes) })
    }

    /// The stream of a read, and a flag that is set when the read counts as delivered.
    fn read(messages: Vec<Result<GetResponse, Status>>, left_bytes: u64) -> (Chunks, Arc<AtomicBool>) {
        let delivered = Arc::new(AtomicBool::new(false));
        let noted = delivered.clone();
        let note = async move { noted.store(true, Ordering::SeqCst) };
        (then(Box::pin(stream::iter(messages)), left_bytes, note), delivered)
    }

    #[tokio::test]
    async fn a_read_counts_when_more_is_asked_for_after_its_last_byte_went_out() {
        let (mut chunks, delivered) = read(vec![message(b"ab"), message(b"c")], 3);
        assert_eq!(chunks.next().await.unwrap().unwrap().data, "ab");
        assert_eq!(chunks.next().await.unwrap().unwrap().data, "c");
        assert!(matches!(poll!(chunks.next()), Poll::Pending), "the encoder lets go of the last byte");
        assert!(chunks.next().await.unwrap().unwrap().data.is_empty());
        assert!(matches!(poll!(chunks.next()), Poll::Pending), "the encoder lets go of the empty message");
        assert!(!delivered.load(Ordering::SeqCst));
        assert!(chunks.next().await.is_none());
        assert!(delivered.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_read_counts_although_its_caller_closes_while_that_is_noted() {
        let (go_on, gate) = oneshot::channel();
        let (noted, mut delivered) = oneshot::channel();
        let note = async move {
            gate.await.expect("it goes on");
            noted.send(()).expect("the test waits");
        };
        let mut chunks = then(Box::pin(stream::iter([message(b"ab")])), 2, note);
        for _ in 0..2 {
            chunks.next().await.unwrap().unwrap();
        }
        // The second poll is behind the pause, and starts `delivered`.
        for _ in 0..2 {
            assert!(matches!(poll!(chunks.next()), Poll::Pending));
        }
        drop(chunks);
        go_on.send(()).expect("the note outlives its read");
        (&mut delivered).await.expect("it is noted");
    }

    #[tokio::test]
    async fn a_read_of_nothing_or_of_too_little_or_that_fails_does_not_count() {
        for (what, messages, left_bytes) in [
            ("nothing was left", vec![], 0),
            ("an empty message is no byte", vec![message(b"")], 0),
            ("the blob was short", vec![message(b"ab")], 3),
            ("the store failed", vec![message(b"ab"), Err(Status::internal("lost"))], 2),
        ] {
            let (chunks, delivered) = read(messages, left_bytes);
            chunks.collect::<Vec<_>>().await;
            assert!(!delivered.load(Ordering::SeqCst), "{what}");
        }
    }

    #[tokio::test]
    async fn a_read_that_is_broken_off_anywhere_does_not_count() {
        // Two messages with bytes and an empty one.
        for taken in 0..=3 {
            let (mut chunks, delivered) = read(vec![message(b"ab"), message(b"c")], 3);
            for _ in 0..taken {
                chunks.next().await.unwrap().unwrap();
            }
            // The transport has asked for the next message, and had to wait.
            let _ = poll!(chunks.next());
            drop(chunks);
            assert!(!delivered.load(Ordering::SeqCst), "after {taken} messages");
        }
    }
}
