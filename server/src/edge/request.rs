//! The body of a request: its bytes count against the memory for messages, and its silences have a
//! time limit.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::{call::RequestState, memory::Held};
use crate::{auth::policy::Load, error::DEADLINE_EXCEEDED};

/// Passes a request body on. Fails if the body exceeds the memory limit or pauses for too long.
pub(super) struct Received<B> {
    inner: Pin<Box<B>>,
    held: Arc<Held>,
    count: Count,
    idle: Duration,
    state: RequestState,
    /// Runs while a reader waits for the next piece of the body.
    silence: Option<Pin<Box<Sleep>>>,
}

impl<B> Received<B> {
    pub(super) fn new(inner: B, held: Arc<Held>, count: Count, idle: Duration, state: RequestState) -> Self {
        Self { inner: Box::pin(inner), held, count, idle, state, silence: None }
    }
}

impl<B> http_body::Body for Received<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = this.inner.as_mut().poll_frame(cx) else {
            let silence = this.silence.get_or_insert_with(|| Box::pin(sleep(this.idle)));
            std::task::ready!(silence.as_mut().poll(cx));
            let message = format!("nothing arrived for {} ms (request_idle_ms)", this.idle.as_millis());
            return Poll::Ready(Some(Err(Status::from(DEADLINE_EXCEEDED.error(message)).into())));
        };
        this.silence = None;
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(error) = this.held.resize(this.count.pass(data))
        {
            return Poll::Ready(Some(Err(Status::from(error).into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|_| this.state.break_off().into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The part of a body that is still in memory.
#[derive(Debug)]
pub(super) enum Count {
    /// The whole body. The call consists of one message; bytes behind the message count as well.
    All(u64),
    /// The message that is arriving, and the message before it, which the handler is processing.
    LastTwo(Messages),
}

impl Count {
    pub(super) fn of(load: Load) -> Self {
        if matches!(load, Load::Stream | Load::Free) { Self::LastTwo(Messages::default()) } else { Self::All(0) }
    }

    /// Counts the next bytes, and returns the number of bytes that are in memory now.
    fn pass(&mut self, data: &[u8]) -> u64 {
        match self {
            Self::All(bytes) => {
                *bytes += data.len() as u64;
                *bytes
            }
            Self::LastTwo(messages) => messages.pass(data),
        }
    }
}

/// The position of a body in its messages. Each message has a header of five bytes: the compression
/// flag and the message's length.
#[derive(Debug, Default)]
pub(super) struct Messages {
    header: [u8; 5],
    header_bytes: usize,
    /// Received bytes of the latest message, its header included.
    last: u64,
    /// Bytes of the latest message that are still missing.
    missing: u64,
    /// Bytes of the message before the latest.
    before: u64,
}

impl Messages {
    fn pass(&mut self, mut data: &[u8]) -> u64 {
        while !data.is_empty() {
            if self.missing > 0 {
                let some = self.missing.min(data.len() as u64);
                self.missing -= some;
                self.last += some;
                data = &data[some as usize..];
                continue;
            }
            if self.header_bytes == 0 {
                (self.before, self.last) = (self.last, 0);
            }
            let (some, rest) = data.split_at(data.len().min(self.header.len() - self.header_bytes));
            self.header[self.header_bytes..][..some.len()].copy_from_slice(some);
            self.header_bytes += some.len();
            self.last += some.len() as u64;
            data = rest;
            if self.header_bytes == self.header.len() {
                let [_, length @ ..] = self.header;
                (self.missing, self.header_bytes) = (u32::from_be_bytes(length).into(), 0);
            }
        }
        self.before + self.last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
        bytes.resize(5 + length, 7);
        bytes
    }

    proptest! {
        /// For any split into pieces, the count is the number of bytes since the start of the last
        /// message but one.
        #[test]
        fn the_bytes_of_the_last_two_messages_are_counted(
            lengths in prop::collection::vec(0_usize..40, 1..6),
            pieces in prop::collection::vec(1_usize..30, 1..60),
        ) {
            let body: Vec<u8> = lengths.iter().flat_map(|length| message(*length)).collect();
            let starts: Vec<usize> = lengths
                .iter()
                .scan(0, |at, length| { let start = *at; *at += 5 + length; Some(start) })
                .collect();
            let (mut count, mut at) = (Count::of(Load::Stream), 0);
            for piece in pieces {
                let end = body.len().min(at + piece);
                if end == at {
                    break;
                }
                let begun = starts.iter().rev().filter(|start| **start < end).take(2).last().unwrap();
                prop_assert_eq!(count.pass(&body[at..end]), (end - begun) as u64);
                at = end;
            }
        }
    }

    #[test]
    fn bytes_after_the_only_message_of_a_call_count_as_well() {
        let mut count = Count::of(Load::Request);
        assert_eq!(count.pass(&message(100)), 105);
        assert_eq!(count.pass(&message(0)), 110);
        assert_eq!(count.pass(&[0]), 111);
    }
}
