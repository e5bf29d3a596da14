//! The way to the server that owns the worker's shard, among several servers of one database.

use std::{
    error::Error,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use cloakwork_proto::SHARD_OF_WORKER;
use http::{HeaderValue, Request, Response};
use tonic::{
    Status,
    body::Body,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;
use tower::{Service, ServiceExt as _};

use crate::connection::is_elsewhere;

/// How long a worker looks for the owner of its shard. After this time, the jobs that it held
/// belong to other workers, so it may serve another shard.
const SEARCH_TIME: Duration = Duration::from_secs(60);

/// Calls the server that owns the shard of this worker. A worker gets its shard from the first
/// server that takes it, and names the shard in each call. A server that does not own the shard
/// refuses the call with the owner's URL, and the next call goes there. After a failed connection,
/// the next call goes to the next one of the given servers. The worker's own retries follow these
/// moves.
#[derive(Clone)]
pub(super) struct Servers {
    given: Arc<[Channel]>,
    connect: Arc<Connect>,
    current: Arc<Mutex<Current>>,
}

/// Makes an endpoint of a server's URL, or refuses the URL.
pub(super) type Connect = dyn Fn(&str) -> Result<Endpoint, Box<dyn Error>> + Send + Sync;

/// Where the next call goes.
#[derive(Clone)]
struct Current {
    channel: Channel,
    /// Number of moves to other servers so far.
    moves: usize,
    shard: Option<HeaderValue>,
    /// Since when no server has taken a call.
    lost_since: Option<Instant>,
}

/// The refusal of a server that does not own the worker's shard.
#[derive(Debug, PartialEq, Eq)]
struct Elsewhere {
    /// The owner's URL, if the server knows the owner.
    owner: Option<String>,
    /// The shard that the worker is to serve.
    shard: Option<HeaderValue>,
}

impl Servers {
    /// Begins with the first of the given servers, at least one. `connect` refuses URLs that would
    /// let others on the network read the worker's token.
    pub(super) fn new(given: &[Endpoint], connect: Arc<Connect>) -> Self {
        let given: Arc<[Channel]> = given.iter().map(Endpoint::connect_lazy).collect();
        let current = Current { channel: given[0].clone(), moves: 0, shard: None, lost_since: None };
        Self { current: Arc::new(Mutex::new(current)), given, connect }
    }

    /// Takes note of a server that took a call, and of the shard that the server owns.
    fn stay(&self, moves: usize, shard: Option<&HeaderValue>) {
        let mut current = self.current();
        if current.moves == moves {
            current.lost_since = None;
            if let Some(shard) = shard {
                current.shard = Some(shard.clone());
            }
        }
    }

    /// Lets calls go on to another server, unless an earlier answer has already moved them since
    /// the call that this move follows.
    fn leave(&self, moves: usize, elsewhere: Option<Elsewhere>) {
        let mut current = self.current();
        if current.moves != moves {
            return;
        }
        current.moves += 1;
        if current.lost_since.get_or_insert_with(Instant::now).elapsed() > SEARCH_TIME {
            (current.shard, current.lost_since) = (None, None);
        }
        let next = self.given[current.moves % self.given.len()].clone();
        let Some(Elsewhere { owner: Some(url), shard }) = elsewhere else {
            current.channel = next;
            return;
        };
        current.channel = match (self.connect)(&url) {
            Ok(endpoint) => {
                tracing::info!(url, "connecting to the server that owns the shard");
                // A shard without an owner takes no worker.
                current.shard = shard.or(current.shard.take());
                endpoint.connect_lazy()
            }
            Err(error) => {
                tracing::warn!(url, %error, "the server names an owner to which this worker does not connect");
                next
            }
        };
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service<Request<Body>> for Servers {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, tonic::transport::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), tonic::transport::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let servers = self.clone();
        Box::pin(async move {
            let Current { channel, moves, shard, .. } = servers.current().clone();
            if let Some(shard) = shard {
                request.headers_mut().insert(SHARD_OF_WORKER, shard);
            }
            let answer = channel.oneshot(request).await;
            match answer.as_ref().map(elsewhere) {
                Ok(None) => {
                    servers.stay(moves, answer.as_ref().ok().and_then(|answer| answer.headers().get(SHARD_OF_WORKER)))
                }
                Ok(elsewhere) => servers.leave(moves, elsewhere),
                Err(_) => servers.leave(moves, None),
            }
            answer
        })
    }
}

/// Where the worker belongs, if the server has refused the call because the worker belongs
/// elsewhere.
fn elsewhere(answer: &Response<Body>) -> Option<Elsewhere> {
    let refusal = Status::from_header_map(answer.headers()).filter(is_elsewhere)?;
    let mut info = refusal.get_details_error_info()?;
    let shard = info.metadata.remove("shard").and_then(|shard| shard.parse().ok());
    Some(Elsewhere { owner: info.metadata.remove("owner"), shard })
}

#[cfg(test)]
mod tests;
