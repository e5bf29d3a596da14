//! Watching a job until its end, over several connections if necessary.

use cloakwork_proto::v1::{Job, WatchJobRequest, WatchJobResponse};
use futures_util::{Stream, TryStreamExt as _, stream};
use tonic::Streaming;

use crate::{Client, ClientError, Result, has_ended, names, response::required, retry::Attempts};

impl Client {
    /// Yields the job now and after each change, and ends when the job has ended. A broken
    /// connection is replaced by a new one.
    pub fn watch(&self, name: &str) -> impl Stream<Item = Result<Job>> + Send + Unpin + use<> {
        let watch = Watch {
            client: self.clone(),
            name: name.to_owned(),
            attempts: Attempts::new(self.policy()),
            stream: None,
            last: None,
        };
        Box::pin(stream::try_unfold(watch, |mut watch| async move { Ok(watch.next().await?.map(|job| (job, watch))) }))
    }

    /// Waits for the end of a job, in any final state.
    pub async fn wait(&self, name: &str) -> Result<Job> {
        let mut watch = self.watch(name);
        let mut last = None;
        while let Some(job) = watch.try_next().await? {
            last = Some(job);
        }
        required(last, "job")
    }
}

struct Watch {
    client: Client,
    name: String,
    attempts: Attempts,
    stream: Option<Streaming<WatchJobResponse>>,
    last: Option<Job>,
}

impl Watch {
    /// The next change, or `None` after the end of the job.
    async fn next(&mut self) -> Result<Option<Job>> {
        if self.last.as_ref().is_some_and(has_ended) {
            return Ok(None);
        }
        loop {
            match self.receive().await {
                // A new connection repeats the current state, which is no change.
                Ok(job) if self.last.as_ref() == Some(&job) => {}
                Ok(job) => {
                    self.attempts.progress();
                    self.last = Some(job.clone());
                    return Ok(Some(job));
                }
                Err(error) => {
                    self.stream = None;
                    self.attempts.pause(error).await?;
                }
            }
        }
    }

    async fn receive(&mut self) -> Result<Job> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let request = WatchJobRequest { name: self.name.clone() };
                self.stream.insert(self.client.jobs_stub().watch_job(request).await?.into_inner())
            }
        };
        let broken = || ClientError::Transport { problem: format!("the watch on {} broke off", self.name) };
        names::job_of_name(stream.message().await?.ok_or_else(broken)?.job, &self.name)
    }
}
