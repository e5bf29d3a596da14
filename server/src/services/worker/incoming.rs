//! The bytes of a result, as they arrive.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_proto::v1::{CommitResultRequest, commit_result_request::Part};
use tokio::time::timeout;
use tonic::{Status, Streaming};

use crate::error::{DEADLINE_EXCEEDED, INVALID_ARGUMENT};

/// The outputs of a result, as a stream of bytes across messages.
pub(super) struct Incoming<'s> {
    parts: &'s mut Streaming<CommitResultRequest>,
    rest: Bytes,
    /// Maximum wait for the next message.
    idle: Duration,
}

impl<'s> Incoming<'s> {
    /// Reads the messages that follow the header. The wait for each message is at most `idle`.
    pub(super) fn new(parts: &'s mut Streaming<CommitResultRequest>, idle: Duration) -> Self {
        Self { parts, rest: Bytes::new(), idle }
    }

    /// The next bytes, at most `most`.
    pub(super) async fn take(&mut self, most: u64) -> Result<Bytes, Status> {
        if self.rest.is_empty() {
            self.rest = self.next().await?.ok_or_else(|| INVALID_ARGUMENT.error("the outputs end early"))?;
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.rest.len());
        Ok(self.rest.split_to(most))
    }

    /// The next message that is not empty.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        loop {
            let late = |_| DEADLINE_EXCEEDED.error("the next message of the result did not arrive in time");
            let Some(message) = timeout(self.idle, self.parts.message()).await.map_err(late)?? else { return Ok(None) };
            match message.part {
                Some(Part::Data(data)) if data.is_empty() => {}
                Some(Part::Data(data)) => return Ok(Some(data)),
                _ => return Err(INVALID_ARGUMENT.error("expected data after the header").into()),
            }
        }
    }
}
