//! Following a job to its end, over however many connections it takes.

use cloakwork_proto::v1::{Job, WatchJobRequest, WatchJobResponse};
use futures_util::{Stream, TryStreamExt as _, stream};
use tonic::Streaming;

use crate::{Client, ClientError, Result, client::required, has_ended, names, retry::Attempts};

impl Client {
    /// The job now and whenever it changes; ends when the job has ended. Attaches again after a break.
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

    /// Waits for a job's end, whatever it is.
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
    /// The next change; none behind the end of the job.
    async fn next(&mut self) -> Result<Option<Job>> {
        if self.last.as_ref().is_some_and(has_ended) {
            return Ok(None);
        }
        loop {
            match self.receive().await {
                // What a new attachment repeats is no news.
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
        names::job(stream.message().await?.ok_or_else(broken)?.job)
    }
}
