//! The way to the server that owns the database, among several servers of one database.

use std::{
    error::Error,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::{
    Status,
    body::Body,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;
use tower::{Service, ServiceExt as _};

/// Calls the server that owns the database. A server that does not own it refuses calls of workers
/// with the owner's URL, and the next call goes there. After a failed connection, the next call
/// goes to the next one of the given servers. The worker's own retries follow these moves.
#[derive(Clone)]
pub(super) struct Servers {
    given: Arc<[Channel]>,
    connect: Arc<Connect>,
    /// The server of the next call, and the number of moves so far.
    current: Arc<Mutex<(Channel, usize)>>,
}

/// Makes an endpoint of a server's URL, or refuses the URL.
pub(super) type Connect = dyn Fn(&str) -> Result<Endpoint, Box<dyn Error>> + Send + Sync;

impl Servers {
    /// Begins with the first of the given servers, at least one. `connect` refuses URLs that would
    /// let others on the network read the worker's token.
    pub(super) fn new(given: &[Endpoint], connect: Arc<Connect>) -> Self {
        let given: Arc<[Channel]> = given.iter().map(Endpoint::connect_lazy).collect();
        Self { current: Arc::new(Mutex::new((given[0].clone(), 0))), given, connect }
    }

    /// Lets calls go on to another server, unless an earlier answer has already moved them since
    /// the call that this move follows.
    fn leave(&self, moves: usize, owner: Option<&str>) {
        let mut current = self.current();
        if current.1 != moves {
            return;
        }
        let next = (moves + 1, self.given[(moves + 1) % self.given.len()].clone());
        let channel = match owner.map(|url| (url, (self.connect)(url))) {
            Some((url, Ok(endpoint))) => {
                tracing::info!(url, "connecting to the server that owns the database");
                endpoint.connect_lazy()
            }
            Some((url, Err(error))) => {
                tracing::warn!(url, %error, "the server names an owner to which this worker does not connect");
                next.1
            }
            None => next.1,
        };
        *current = (channel, next.0);
    }

    fn current(&self) -> MutexGuard<'_, (Channel, usize)> {
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let servers = self.clone();
        Box::pin(async move {
            let (channel, moves) = servers.current().clone();
            let answer = channel.oneshot(request).await;
            match &answer {
                Ok(answer) => {
                    if let Some(owner) = elsewhere(answer) {
                        servers.leave(moves, owner.as_deref());
                    }
                }
                Err(_) => servers.leave(moves, None),
            }
            answer
        })
    }
}

/// The owner's URL, if the server has refused the call because it is not the owner. The inner value
/// is `None` if the server does not know the owner.
fn elsewhere(answer: &Response<Body>) -> Option<Option<String>> {
    let info = Status::from_header_map(answer.headers())?.get_details_error_info()?;
    (info.reason == "NOT_OWNER").then(|| info.metadata.get("owner").cloned())
}

#[cfg(test)]
mod tests;
