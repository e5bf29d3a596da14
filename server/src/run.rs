//! Startup from a configuration, and graceful shutdown on a signal.
//!
//! A server starts in two steps. First it opens its database and its ports ([`Front`]). Where
//! several servers use one database, the front then passes calls on to the server that owns it,
//! until this one takes it over. Then the server opens its stores and handles calls itself
//! ([`Server`]).

mod front;

use std::{future::Future, io, net::SocketAddr, pin::pin};

use cloakwork_clock::Clock;
use cloakwork_storage::Database;
use cloakwork_worker::WorkerError;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    backend::Backend,
    blobs::{self, BlobsError},
    config::Config,
    data::DataError,
    edge::Door,
    installation::InstallationError,
    owner::{self, OtherInstallation, Ownership},
    tasks::Ended,
    tls::TlsError,
};
use front::{Front, internal};

/// The error that kept a server from starting, or ended a running server.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A port cannot be bound.
    #[error("{setting} = {address}: {source}")]
    Port {
        /// The setting that names the port.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The issuer of tokens cannot be used.
    #[error("{0}")]
    Issuer(String),
    /// The key of the installation cannot be used.
    #[error(transparent)]
    Installation(#[from] InstallationError),
    /// The database belongs to another installation.
    #[error(transparent)]
    OtherInstallation(#[from] OtherInstallation),
    /// The store of blobs cannot be used.
    #[error(transparent)]
    Blobs(#[from] BlobsError),
    /// Another server owns the shard by now.
    #[error(
        "another server has taken over the shard of this one, which was silent for too long. After a restart, this one \
         waits for a shard without an owner"
    )]
    Superseded,
    /// An internal failure without an external cause.
    #[error("{what}: {cause}")]
    Internal {
        /// The component that did not start, or ended.
        what: &'static str,
        /// The cause.
        cause: String,
    },
}

impl From<Ended> for RunError {
    fn from(Ended { name, cause }: Ended) -> Self {
        tracing::error!(what = name, cause, "a long-lived task ended, and the server stops");
        Self::Internal { what: name, cause }
    }
}

/// Runs a server until `shutdown` resolves, then drains it within the grace period that the limits
/// set.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    let mut shutdown = pin!(shutdown);
    let mut front = tokio::select! {
        opened = Front::open(config, Clock::system()) => opened?,
        // A start may wait for a database that is away.
        () = &mut shutdown => return Ok(()),
    };
    let owned = tokio::select! {
        owned = front.own() => owned?,
        () = &mut shutdown => {
            front.stop().await;
            return Ok(());
        }
    };
    Server::begin(front, owned).await?.run(shutdown).await
}

/// The task of the embedded worker.
type RunningWorker = JoinHandle<Result<(), WorkerError>>;

/// A server that owns its database or a shard of it, with open ports.
#[derive(Debug)]
pub struct Server {
    front: Front,
    address: SocketAddr,
    ownership: Ownership,
    backend: Backend,
    worker: Option<RunningWorker>,
    stop_worker: CancellationToken,
    /// The embedded worker's path into the edge.
    door: Door,
}

impl Server {
    /// Opens the database and the ports, waits until this server owns a shard, and begins to
    /// serve. All stored times come from `clock`.
    pub async fn start(config: Config, clock: Clock) -> Result<Self, RunError> {
        let mut front = Front::open(config, clock).await?;
        let owned = front.own().await?;
        Self::begin(front, owned).await
    }

    async fn begin(mut front: Front, (ownership, database): (Ownership, Database)) -> Result<Self, RunError> {
        let stop_worker = CancellationToken::new();
        let door = Door::default();
        match Self::serve(&mut front, &ownership, database, &stop_worker, &door).await {
            Ok((backend, worker, address)) => {
                front.readiness.ready();
                let (admin_address, tls) = (front.admin_address, front.config.tls());
                tracing::info!(%address, %admin_address, tls, "the server is ready");
                Ok(Self { front, address, ownership, backend, worker, stop_worker, door })
            }
            Err(error) => {
                // Otherwise, the next server would wait until it finds this one silent.
                owner::release(&ownership, &front.database).await;
                Err(error)
            }
        }
    }

    /// Opens the stores, starts the embedded worker, and lets calls in.
    async fn serve(
        front: &mut Front,
        ownership: &Ownership,
        database: Database,
        stop_worker: &CancellationToken,
        door: &Door,
    ) -> Result<(Backend, Option<RunningWorker>, SocketAddr), RunError> {
        let Front { config, clock, telemetry, installation, .. } = &*front;
        blobs::claim(&config.storage, &database, clock).await?;
        let opened = Backend::open(
            config,
            clock.clone(),
            database,
            ownership.clone(),
            front.seen(),
            telemetry.clone(),
            installation.clone(),
            &front.operators,
        );
        let mut backend = opened.await.map_err(|error| internal("the stores")(error.into()))?;
        front.handle_calls(ownership.shard(), backend.routes(front.standard.clone()));
        if front.database.is_on_server() {
            backend.start_moves(front.homes(), front.edge.handled());
        }
        let mut worker = None;
        if front.config.worker.embedded {
            let uplink = front.edge.uplink(door);
            let started = backend.start_worker(&front.config, uplink, stop_worker.clone()).await;
            worker = Some(started.map_err(|error| internal("the embedded worker")(error.into()))?);
        }
        let address = front.open_api().await?;
        Ok((backend, worker, address))
    }

    /// Address of the gRPC port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the operator port, if the settings name one.
    pub fn operator_address(&self) -> Option<SocketAddr> {
        self.front.operator_address
    }

    /// Address of the admin port.
    pub fn admin_address(&self) -> SocketAddr {
        self.front.admin_address
    }

    /// Serves until `shutdown` resolves, then drains: reports not-serving to probes, accepts no new
    /// connections, and waits for running calls.
    ///
    /// Returns an error as soon as one of the server's long-lived tasks ends by itself. Without its
    /// dispatcher, for example, the server would answer calls but make no decisions about jobs.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let failure = tokio::select! {
            // The beats end with the loss of the database, and their end has the vaguer error.
            biased;
            () = self.ownership.lost() => return Err(RunError::Superseded),
            () = shutdown => None,
            ended = self.backend.ended() => Some(ended),
            ended = worker_ended(&mut self.worker) => Some(ended),
            ended = self.front.ended() => Some(ended),
        };
        if let Some(ended) = failure {
            return Err(ended.into());
        }
        let deadline = self.front.drain().await;
        self.backend.drain().await;
        // The worker finishes or hands back its jobs while the server still answers it.
        self.stop_worker.cancel();
        // A sixth of the grace period is reserved for taking back the jobs that the worker does not
        // hand back.
        if let Some(worker) = self.worker.take() {
            end_worker(worker, deadline - self.front.grace() / 6, deadline).await;
        }
        // The worker's calls must end before the stores that they use are closed.
        if timeout_at(deadline, self.door.close()).await.is_err() {
            tracing::warn!("some calls of the embedded worker had not ended when the grace period was over");
        }
        // Calls that wait for a job fail with an error that asks the caller to retry.
        self.backend.stop().await;
        self.front.end_calls(deadline).await;
        self.backend.close().await;
        owner::release(&self.ownership, &self.front.database).await;
        self.front.telemetry.metrics.owner.set(0, []);
        self.front.close().await;
        Ok(())
    }
}

/// Waits until the worker inside this process ends by itself. If the server ran on without its
/// worker, jobs would wait for ever.
async fn worker_ended(worker: &mut Option<RunningWorker>) -> Ended {
    let Some(worker) = worker else { return std::future::pending().await };
    let cause = match worker.await {
        Ok(Ok(())) => "it ended".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Ended { name: "the embedded worker", cause }
}

/// Waits for the worker inside this process, which has been told to stop. At the time `grace`, the
/// worker's task is aborted.
async fn end_worker(mut worker: RunningWorker, grace: Instant, deadline: Instant) {
    match timeout_at(grace, &mut worker).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::error!(%error, "the embedded worker has stopped"),
        Ok(Err(error)) => tracing::error!(%error, "the embedded worker failed"),
        Err(_) => {
            tracing::warn!(
                "the embedded worker had not ended when its grace period was over; its jobs return to the queue"
            );
            worker.abort();
            let _ = timeout_at(deadline, worker).await;
        }
    }
}

#[cfg(test)]
mod tests;
