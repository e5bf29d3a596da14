//! The body of a request: its bytes count against the memory for messages, its messages have a
//! maximum length, and its silences have a time limit.

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
use crate::{
    auth::policy::{Load, Rule},
    error::{ApiError, DEADLINE_EXCEEDED, REQUEST_TOO_LARGE},
    limits::Limits,
};

/// Passes a request body on. Fails if the body exceeds the memory limit, announces too long a
/// message, or pauses for too long.
pub(super) struct Received<B> {
    inner: Pin<Box<B>>,
    /// The memory that the body counts against, or `None` for the stream of a worker. The number of
    /// these streams is limited, and so are their messages.
    held: Option<Arc<Held>>,
    count: Count,
    pause: Pause,
    state: RequestState,
    /// Runs while a reader waits for the next piece of the body.
    silence: Option<Pin<Box<Sleep>>>,
}

impl<B> Received<B> {
    /// The body of a call that `rule` describes.
    pub(super) fn new(inner: B, held: Option<Arc<Held>>, rule: &Rule, limits: &Limits, state: RequestState) -> Self {
        let (count, pause) = (Count::of(rule), Pause::of(rule.load, limits));
        Self { inner: Box::pin(inner), held, count, pause, state, silence: None }
    }

    /// Counts the next bytes of the body.
    fn pass(&mut self, data: &[u8]) -> Result<(), ApiError> {
        let bytes = self.count.pass(data)?;
        self.held.as_ref().map_or(Ok(()), |held| held.resize(bytes))
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
            let silence = this.silence.get_or_insert_with(|| Box::pin(sleep(this.pause.longest)));
            std::task::ready!(silence.as_mut().poll(cx));
            let Pause { longest, limit } = this.pause;
            let message = format!("nothing arrived for {} ms ({limit})", longest.as_millis());
            return Poll::Ready(Some(Err(Status::from(DEADLINE_EXCEEDED.error(message)).into())));
        };
        this.silence = None;
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(error) = this.pass(data)
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

/// The longest pause of a body, and the name of its limit.
#[derive(Clone, Copy, Debug)]
struct Pause {
    longest: Duration,
    limit: &'static str,
}

impl Pause {
    /// A worker may pause for as long as its leases last, because a shorter limit would end the
    /// streams of workers whose reports are rare.
    fn of(load: Load, limits: &Limits) -> Self {
        let (ms, limit) = match load {
            Load::Attached if limits.lease_ms > limits.request_idle_ms => (limits.lease_ms, "lease_ms"),
            _ => (limits.request_idle_ms, "request_idle_ms"),
        };
        Self { longest: Duration::from_millis(ms), limit }
    }
}

/// Counts the part of a body that is still in memory.
#[derive(Debug)]
struct Count {
    kept: Kept,
    messages: Messages,
}

/// The part of a body that is still in memory.
#[derive(Debug)]
enum Kept {
    /// The whole body. The call consists of one message; bytes behind the message count as well.
    All(u64),
    /// The message that is arriving, and the message before it, which the handler is processing.
    LastTwo,
}

impl Count {
    fn of(rule: &Rule) -> Self {
        let kept = match rule.load {
            Load::Stream | Load::Free | Load::Attached => Kept::LastTwo,
            Load::Request | Load::Wait | Load::Probe | Load::ProbeStream => Kept::All(0),
        };
        Self { kept, messages: Messages { length_max: rule.message_bytes_max, ..Messages::default() } }
    }

    /// Counts the next bytes, and returns the number of bytes that are in memory now. Refuses bytes
    /// that announce too long a message.
    fn pass(&mut self, data: &[u8]) -> Result<u64, ApiError> {
        self.messages.pass(data)?;
        Ok(match &mut self.kept {
            Kept::All(bytes) => {
                *bytes += data.len() as u64;
                *bytes
            }
            Kept::LastTwo => self.messages.before + self.messages.last,
        })
    }
}

/// The position of a body in its messages. Each message has a header of five bytes: the compression
/// flag and the message's length.
#[derive(Debug, Default)]
struct Messages {
    /// Maximum length of a message. The header of a longer message is refused: the reader of the
    /// body allocates memory for the whole message once it has the header.
    length_max: Option<u32>,
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
    fn pass(&mut self, mut data: &[u8]) -> Result<(), ApiError> {
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
                let length = u32::from_be_bytes(length);
                if let Some(length_max) = self.length_max.filter(|length_max| length > *length_max) {
                    let message = format!("a message of {length} bytes: this call takes at most {length_max}");
                    return Err(REQUEST_TOO_LARGE.error(message));
                }
                (self.missing, self.header_bytes) = (length.into(), 0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::auth::policy::Access;

    fn count(load: Load, message_bytes_max: Option<u32>) -> Count {
        Count::of(&Rule { method: "", access: Access::Known, load, message_bytes_max })
    }

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
            let (mut count, mut at) = (count(Load::Stream, None), 0);
            for piece in pieces {
                let end = body.len().min(at + piece);
                if end == at {
                    break;
                }
                let begun = starts.iter().rev().filter(|start| **start < end).take(2).last().unwrap();
                prop_assert_eq!(count.pass(&body[at..end]).unwrap(), (end - begun) as u64);
                at = end;
            }
        }
    }

    #[test]
    fn bytes_after_the_only_message_of_a_call_count_as_well() {
        let mut count = count(Load::Request, None);
        assert_eq!(count.pass(&message(100)).unwrap(), 105);
        assert_eq!(count.pass(&message(0)).unwrap(), 110);
        assert_eq!(count.pass(&[0]).unwrap(), 111);
    }

    /// The check must not wait for the message itself: memory is allocated for the whole message
    /// once its header has arrived.
    #[test]
    fn a_message_beyond_its_limit_is_refused_by_its_header_however_the_body_is_split() {
        for load in [Load::Request, Load::Attached] {
            let body: Vec<u8> = [message(100), message(101)[..5].to_vec()].concat();
            for piece in 1..=body.len() {
                let mut count = count(load, Some(100));
                let mut pieces = body.chunks(piece);
                let last = pieces.next_back().unwrap();
                assert!(pieces.all(|piece| count.pass(piece).is_ok()), "pieces of {piece} bytes");
                let refused = count.pass(last).unwrap_err();
                assert_eq!(refused.reason(), REQUEST_TOO_LARGE);
                assert!(refused.message().contains("101 bytes"), "{refused}");
            }
        }
    }

    #[test]
    fn a_worker_may_pause_for_as_long_as_its_leases_last() {
        let limits = Limits { request_idle_ms: 60, lease_ms: 100, ..Limits::default() };
        let longest = |load| Pause::of(load, &limits).longest.as_millis();
        assert_eq!((longest(Load::Attached), longest(Load::Free)), (100, 60));
        let limits = Limits { lease_ms: 50, ..limits };
        assert_eq!(Pause::of(Load::Attached, &limits).longest.as_millis(), 60);
    }
}
