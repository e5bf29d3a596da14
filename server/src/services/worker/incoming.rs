//! The bytes of a result, as they arrive.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_proto::v1::{CommitResultRequest, commit_result_request::Part};
use tokio::time::{Instant, timeout};
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use crate::{
    error::{DEADLINE_EXCEEDED, INVALID_ARGUMENT},
    services::intake::Arrived,
};

/// Time that each mebibyte of a result may take, beside the wait for one message. A worker gives up
/// after 30 s and 2 s for each message of one mebibyte. Without the limit, a result that arrives
/// byte by byte would keep its place for days.
const MEBIBYTE_TIME: Duration = Duration::from_secs(4);

/// The outputs of a result, as a stream of bytes across messages.
pub(super) struct Incoming<'s, S> {
    parts: &'s mut S,
    /// Counts the bytes of the messages.
    pub(super) arrived: Arrived,
    rest: Bytes,
    /// Maximum wait for the next bytes.
    idle: Duration,
    /// Maximum wait for all bytes that are still missing.
    time_left: Duration,
}

impl<'s, S: Stream<Item = Result<CommitResultRequest, Status>> + Unpin> Incoming<'s, S> {
    /// Reads the messages that follow the header. The wait for the next bytes is at most `idle`,
    /// and the wait for all bytes together has a limit that grows with `size_bytes`.
    pub(super) fn new(parts: &'s mut S, arrived: Arrived, idle: Duration, size_bytes: u64) -> Self {
        let mebibytes = u32::try_from(size_bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let time_left = idle.saturating_add(MEBIBYTE_TIME.saturating_mul(mebibytes));
        Self { parts, arrived, rest: Bytes::new(), idle, time_left }
    }

    /// The next bytes, at most `most`.
    pub(super) async fn take(&mut self, most: u64) -> Result<Bytes, Status> {
        if self.rest.is_empty() {
            self.rest = self.next().await?.ok_or_else(|| INVALID_ARGUMENT.error("the outputs end early"))?;
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.rest.len());
        Ok(self.rest.split_to(most))
    }

    /// The next message that is not empty. Empty messages do not prolong the wait.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        let begun = Instant::now();
        let next = timeout(self.idle.min(self.time_left), next_bytes(self.parts)).await;
        self.time_left = self.time_left.saturating_sub(begun.elapsed());
        next.map_err(|_| DEADLINE_EXCEEDED.error("the next bytes of the result did not arrive in time"))?
    }
}

async fn next_bytes<S>(parts: &mut S) -> Result<Option<Bytes>, Status>
where
    S: Stream<Item = Result<CommitResultRequest, Status>> + Unpin,
{
    while let Some(message) = parts.next().await {
        match message?.part {
            Some(Part::Data(data)) if data.is_empty() => {}
            Some(Part::Data(data)) => return Ok(Some(data)),
            _ => return Err(INVALID_ARGUMENT.error("expected data after the header").into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);
    const BYTE: &[u8] = b".";
    const MEBIBYTE: &[u8] = &[7; 1 << 20];

    /// Parts of a result. One of them arrives after each `pause`.
    fn arriving(
        pause: Duration,
        parts: &[&'static [u8]],
    ) -> impl Stream<Item = Result<CommitResultRequest, Status>> + Unpin + use<> {
        let part = move |data| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Status>(CommitResultRequest { part: Some(Part::Data(Bytes::from_static(data))) })
        };
        Box::pin(tokio_stream::iter(parts.to_vec()).then(part))
    }

    /// Whether this time has passed since `begun`, apart from the rounding of timers.
    fn has_lasted(begun: Instant, time: Duration) -> bool {
        (time..time + Duration::from_millis(100)).contains(&begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn empty_parts_do_not_prolong_the_wait() {
        let begun = Instant::now();
        let mut parts = arriving(IDLE / 4, &[b"1", b"", b"", b"", b"", b"", b"2"]);
        let mut incoming = Incoming::new(&mut parts, Arrived::default(), IDLE, 1 << 30);
        assert_eq!(incoming.take(2).await.unwrap(), "1");
        assert_eq!(incoming.take(1).await.unwrap_err().code(), Code::DeadlineExceeded);
        assert!(has_lasted(begun, IDLE / 4 + IDLE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_arrives_byte_by_byte_ends() {
        let begun = Instant::now();
        let mut parts = arriving(IDLE / 4, &[BYTE; 20]);
        let mut incoming = Incoming::new(&mut parts, Arrived::default(), IDLE, 2 << 20);
        let mut received = 0;
        let status = loop {
            match incoming.take(1).await {
                Ok(bytes) => received += bytes.len(),
                Err(status) => break status,
            }
        };
        assert_eq!((status.code(), received), (Code::DeadlineExceeded, 4), "{status}");
        assert!(has_lasted(begun, IDLE + 2 * MEBIBYTE_TIME));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_link_has_time_for_a_large_result() {
        let mut parts = arriving(MEBIBYTE_TIME, &[MEBIBYTE; 100]);
        let mut incoming = Incoming::new(&mut parts, Arrived::default(), IDLE, 100 << 20);
        for _ in 0..100 {
            assert_eq!(incoming.take(u64::MAX).await.unwrap().len(), MEBIBYTE.len());
        }
        assert_eq!(incoming.next().await.unwrap(), None);
    }
}
