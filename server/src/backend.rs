//! The backend of the edge: the key store, the job store, the dispatcher, the services on top of
//! them, and the worker inside this process.

use std::{sync::Arc, time::Duration};

use cloakwork_attestation::WorkerKey;
use cloakwork_clock::Clock;
use cloakwork_keystore::{Keystore, Options};
use cloakwork_proto::v1::{
    blob_service_server::{self, BlobServiceServer},
    capability_service_server::{self, CapabilityServiceServer},
    ciphertext_service_server::{self, CiphertextServiceServer},
    job_service_server::{self, JobServiceServer},
    key_service_server::{self, KeyServiceServer},
    program_service_server::{self, ProgramServiceServer},
    worker_service_server::{self, WorkerServiceServer},
};
use cloakwork_scheduler::WorkerId;
use cloakwork_storage::{Asker, Database};
use cloakwork_worker::{CancellationToken, Uplink, WorkerError};
use tokio::{sync::watch, task::JoinHandle, time::sleep};
use tonic::service::Routes;

use crate::{
    admit::{Admission, InputMemory},
    blobs,
    config::Config,
    day_quota::DayQuota,
    dispatch::{Backlogs, Dispatcher, Neighbours, Parts, export_zeros},
    edge::{Handled, Homes},
    error::{ApiError, INTERNAL},
    installation::{self, Installation},
    keys::KeyUses,
    limits::Limits,
    metering::Metering,
    metrics::Telemetry,
    moving::Mover,
    operators::Operators,
    owner::Ownership,
    programs::Compiler,
    quota::Quota,
    services::{
        Blobs, Capabilities, Ciphertexts, Failures, Intake, Jobs, Keys, OutputMemory, Outputs, Programs, Reads,
        Transfers, Workers,
    },
    shards::{self, PoolLoad, Seen},
    store::Store,
    sweep::{Sweeper, remove_orphans},
    tasks::{Ended, Tasks},
    tenant_limits::TenantLimits,
};

/// Names of the services, for health checks.
pub const SERVICES: &[&str] = &[
    blob_service_server::SERVICE_NAME,
    capability_service_server::SERVICE_NAME,
    ciphertext_service_server::SERVICE_NAME,
    job_service_server::SERVICE_NAME,
    key_service_server::SERVICE_NAME,
    program_service_server::SERVICE_NAME,
    worker_service_server::SERVICE_NAME,
];

/// Subdirectories of the data directory.
pub const DIRECTORIES: &[&str] = &[STAGING, blobs::DIRECTORY, installation::DIRECTORY];
pub(crate) const STAGING: &str = "staging";

pub(crate) const DISPATCHER: &str = "the dispatcher";
pub(crate) const SWEEPER: &str = "the sweeper";
const METERING: &str = "the metering of stored data";
const ORPHANS: &str = "the removal of unknown objects";
const LOADS: &str = "the loads of the shard";
const REQUESTS: &str = "the memory of requests";
const INPUTS: &str = "the removal of inputs of ended jobs";
const MOVES: &str = "the moves of tenants";

/// The stores, the background tasks and the services that handle calls.
#[derive(Debug)]
pub struct Backend {
    database: Database,
    keystore: Keystore,
    store: Store,
    dispatcher: Dispatcher,
    keys: KeyUses,
    clock: Clock,
    limits: Arc<Limits>,
    tenant_limits: TenantLimits,
    telemetry: Arc<Telemetry>,
    installation: Arc<Installation>,
    allow_weak_sets: bool,
    verify_percent: u64,
    sweeping: Tasks,
    dispatching: Tasks,
    /// The worker inside this process, once it has been started.
    embedded: Option<WorkerId>,
    /// Cancelled when the server begins to drain.
    draining: CancellationToken,
}

impl Backend {
    /// Opens the stores, and resumes the jobs of the previous process.
    pub async fn open(
        config: &Config,
        clock: Clock,
        database: Database,
        ownership: Ownership,
        seen: watch::Receiver<Seen>,
        telemetry: Arc<Telemetry>,
        installation: Arc<Installation>,
        operators: &Operators,
    ) -> Result<Self, ApiError> {
        let limits = Arc::new(config.limits.clone());
        let own = operators.tenant_limits.clone();
        let options = keystore_options(config, clock.clone(), telemetry.clone(), own.clone());
        let keystore = Keystore::open(options, &database).await?;
        let shard = ownership.shard();
        let store = Store::owned(database.clone(), ownership);
        let keys = KeyUses::default();
        let sweeper = Sweeper {
            store: store.always_as(Asker::Upkeep),
            keystore: keystore.always_as(Asker::Upkeep),
            keys: keys.clone(),
            clock: clock.clone(),
            limits: limits.clone(),
        };
        sweeper.begin().await?;
        let (published, looks) = (watch::Sender::default(), seen.clone());
        let parts = Parts {
            store: store.clone(),
            keystore: keystore.clone(),
            clock: clock.clone(),
            limits: limits.clone(),
            tenant_limits: own.clone(),
            telemetry: telemetry.clone(),
            backlogs: Backlogs::new(&config.pools),
            neighbours: Neighbours { shard, seen, published: published.clone() },
        };
        let (dispatcher, running) = Dispatcher::start(parts).await?;
        operators.own(shard, dispatcher.clone());
        let metering = Metering::new(store.always_as(Asker::Upkeep), clock.clone(), limits.clone());
        let (mut dispatching, mut sweeping) = <(Tasks, Tasks)>::default();
        dispatching.spawn(DISPATCHER, running);
        sweeping.spawn(SWEEPER, sweeper.run(dispatcher.clone()));
        sweeping.spawn(METERING, metering.run());
        sweeping.spawn(ORPHANS, remove_orphans(keystore.always_as(Asker::Upkeep)));
        sweeping.spawn(INPUTS, drop_leftover_inputs(store.always_as(Asker::Upkeep)));
        if database.is_on_server() {
            sweeping.spawn(LOADS, publish_loads(database.clone(), published.subscribe()));
            sweeping.spawn(REQUESTS, remember_requests(store.always_as(Asker::Upkeep), looks));
        }
        if config.verify_percent > 0 {
            export_zeros(&telemetry.metrics);
        }
        let allow_weak_sets = config.allow_weak_sets;
        Ok(Self {
            database,
            keystore,
            store,
            dispatcher,
            keys,
            clock,
            limits,
            tenant_limits: own,
            telemetry,
            installation,
            allow_weak_sets,
            verify_percent: config.verify_percent,
            sweeping,
            dispatching,
            embedded: None,
            draining: CancellationToken::new(),
        })
    }

    /// Adds the services to `routes`.
    pub fn routes(&self, routes: Routes) -> Routes {
        let Self { keystore, store, dispatcher, keys: uses, clock, limits, telemetry, allow_weak_sets, .. } = self;
        let (keystore, store, dispatcher) = (|| keystore.clone(), || store.clone(), || dispatcher.clone());
        let (clock, limits, compiler) = (|| clock.clone(), || limits.clone(), Compiler::new(limits));
        let message = usize::try_from(self.limits.message_bytes).unwrap_or(usize::MAX);
        macro_rules! sized {
            ($server:ident, $service:expr) => {{
                let server = $server::new($service);
                let server = server.max_decoding_message_size(message).max_encoding_message_size(message);
                Intake::new(server, self.limits.clone())
            }};
        }
        let own = &self.tenant_limits;
        let quota = Quota::new(store(), own.clone(), self.limits.tenant_inline_bytes);
        let day_quota = DayQuota::new(store(), clock(), own.clone(), self.limits.tenant_day_bootstraps);
        let transfers = Transfers::new(telemetry.clone());
        let blobs = Blobs { keystore: keystore(), limits: limits(), transfers: transfers.clone() };
        let capabilities = Capabilities {
            dispatcher: dispatcher(),
            limits: limits(),
            installation: self.installation.clone(),
            allow_weak_sets: *allow_weak_sets,
            verify_percent: self.verify_percent,
        };
        let ciphertexts = Ciphertexts {
            keystore: keystore(),
            dispatcher: dispatcher(),
            store: store(),
            clock: clock(),
            limits: limits(),
            transfers: transfers.clone(),
        };
        let jobs = Jobs {
            admission: Admission {
                store: store(),
                dispatcher: dispatcher(),
                keystore: keystore(),
                compiler: compiler.clone(),
                keys: uses.clone(),
                quota: quota.clone(),
                day_quota,
                memory: InputMemory::new(&self.limits),
                clock: clock(),
                limits: limits(),
                allow_weak_sets: *allow_weak_sets,
            },
            dispatcher: dispatcher(),
            store: store(),
            limits: limits(),
        };
        let keys = Keys {
            keystore: keystore(),
            store: store(),
            uses: uses.clone(),
            dispatcher: dispatcher(),
            limits: limits(),
        };
        let workers = self.workers(&compiler, &quota, transfers);
        let programs =
            Programs { compiler, store: store(), quota, dispatcher: dispatcher(), clock: clock(), limits: limits() };

        routes
            .add_service(sized!(BlobServiceServer, blobs))
            .add_service(sized!(CapabilityServiceServer, capabilities))
            .add_service(sized!(CiphertextServiceServer, ciphertexts))
            .add_service(sized!(JobServiceServer, jobs))
            .add_service(sized!(KeyServiceServer, keys))
            .add_service(sized!(ProgramServiceServer, programs))
            .add_service(sized!(WorkerServiceServer, workers))
    }

    /// The service of workers. Its calls hold places that all tenants share, so they do not wait
    /// behind the calls of a job's tenant at the database.
    fn workers(&self, compiler: &Compiler, quota: &Quota, transfers: Transfers) -> Workers {
        let Self { dispatcher, clock, limits, telemetry, .. } = self;
        let keystore = self.keystore.for_workers();
        Workers {
            dispatcher: dispatcher.clone(),
            keystore: keystore.clone(),
            reads: Reads::default(),
            outputs: Outputs {
                keystore: keystore.clone(),
                store: self.store.for_workers(),
                quota: quota.for_workers(),
                compiler: compiler.clone(),
                clock: clock.clone(),
                limits: limits.clone(),
                transfers: transfers.clone(),
                memory: OutputMemory::new(limits.inline_bytes),
                verify_percent: self.verify_percent,
            },
            failures: Failures::new(keystore, telemetry.clone()),
            limits: limits.clone(),
            installation: self.installation.clone(),
            telemetry: telemetry.clone(),
            transfers,
            draining: self.draining.clone(),
        }
    }

    /// Begins to carry out the moves of tenants to other shards.
    pub fn start_moves(&mut self, homes: watch::Sender<Homes>, handled: Arc<Handled>) {
        let (store, keystore) = (self.store.always_as(Asker::Upkeep), self.keystore.clone());
        let (database, dispatcher) = (self.database.clone(), self.dispatcher.clone());
        let mover = Mover { database, store, dispatcher, keystore, homes, handled };
        self.sweeping.spawn(MOVES, mover.run());
    }

    /// Starts the worker inside this process.
    pub async fn start_worker(
        &mut self,
        config: &Config,
        uplink: Uplink,
        stop: CancellationToken,
    ) -> Result<JoinHandle<Result<(), WorkerError>>, ApiError> {
        let key = WorkerKey::generate().map_err(|error| INTERNAL.error(format!("no randomness: {error}")))?;
        let id = u128::from_be_bytes(key.public().worker_id());
        self.store.begin_embedded_worker(id).await.map_err(crate::database::failed)?;
        self.embedded = Some(WorkerId(id));
        let mut options = cloakwork_worker::Options {
            key: Some(Arc::new(key)),
            name: "embedded".to_owned(),
            // The worker's last reports must reach the server before the server closes its calls,
            // so the worker's grace is shorter than the server's.
            grace: Duration::from_millis(self.limits.drain_ms) * 2 / 3,
            clock: self.clock.clone(),
            metrics: Some(cloakwork_worker::metrics::register(&self.telemetry.registry, Vec::new())),
            tracer: self.telemetry.tracer.clone(),
            ..cloakwork_worker::Options::default()
        };
        if config.worker.threads > 0 {
            options.threads = usize::try_from(config.worker.threads).unwrap_or(usize::MAX);
        }
        if config.worker.memory_bytes > 0 {
            options.key_memory = config.worker.memory_bytes;
        }
        if config.worker.vector_memory_bytes > 0 {
            options.vector_memory = config.worker.vector_memory_bytes;
        }
        Ok(tokio::spawn(cloakwork_worker::run(options, uplink, stop)))
    }

    /// Stops accepting new jobs.
    pub async fn drain(&self) {
        self.draining.cancel();
        // The call fails only if the dispatcher has ended, and then no job can be accepted anyway.
        let _ = self.dispatcher.drain().await;
    }

    /// Waits until one of the background tasks ends by itself.
    pub async fn ended(&mut self) -> Ended {
        tokio::select! {
            ended = self.dispatching.ended() => ended,
            ended = self.sweeping.ended() => ended,
        }
    }

    /// Ends a task as a panic in the task would.
    #[cfg(test)]
    pub(crate) fn kill(&self, name: &str) {
        if name == DISPATCHER { self.dispatching.kill(name) } else { self.sweeping.kill(name) }
    }

    /// Stops the dispatcher, which makes no further decisions. Calls that wait for an unfinished
    /// job fail because the server stops. Jobs that the embedded worker still holds return to the
    /// queue, whether or not the worker has sent its last reports.
    pub async fn stop(&mut self) {
        // The call fails only if the dispatcher has already ended.
        let stopped = self.dispatcher.stop(self.embedded).await;
        if stopped.is_ok() {
            self.dispatching.join().await;
        }
    }

    /// Ends the background tasks. Must be called after the last call has ended, and before the
    /// database is closed.
    pub async fn close(mut self) {
        self.sweeping.shutdown().await;
    }
}

/// Publishes each new load of the shard.
async fn publish_loads(database: Database, mut loads: watch::Receiver<Vec<PoolLoad>>) {
    while loads.changed().await.is_ok() {
        let latest = loads.borrow_and_update().clone();
        if let Err(error) = shards::publish(&database, &latest).await {
            tracing::warn!(%error, "the load of the shard was not published: other shards do not see it");
        }
    }
    // The dispatcher has ended, which is reported as an end of its own.
    std::future::pending().await
}

/// Removes the inputs of jobs that ended directly before the last owner did.
async fn drop_leftover_inputs(store: Store) {
    while let Err(error) = store.drop_leftover_inputs().await {
        tracing::debug!(%error, "inputs of ended jobs stay for now");
        sleep(UPKEEP_PAUSE).await;
    }
    std::future::pending().await
}

/// Fills the filter of known requests, and gives the filter up once there are several shards:
/// tenants then come with jobs of other servers.
async fn remember_requests(store: Store, mut looks: watch::Receiver<Seen>) {
    let has_several = |seen: &Seen| seen.shards.numbers().nth(1).is_some();
    if !has_several(&looks.borrow()) {
        while let Err(error) = store.remember_requests().await {
            tracing::debug!(%error, "requests are looked up");
            sleep(UPKEEP_PAUSE).await;
        }
        if looks.wait_for(has_several).await.is_ok() {
            store.look_up_requests();
        }
    }
    std::future::pending().await
}

/// Pause after a failure.
const UPKEEP_PAUSE: Duration = Duration::from_secs(10);

fn keystore_options(config: &Config, clock: Clock, telemetry: Arc<Telemetry>, own: TenantLimits) -> Options {
    let Config { allow_weak_sets, storage, limits, .. } = config;
    Options {
        staging: storage.directory.join(STAGING),
        store: blobs::options(storage, &clock),
        allow_weak_sets: *allow_weak_sets,
        limits: keystore_limits(limits),
        clock,
        own_limits: Some(Arc::new(own)),
        watch: Some(telemetry),
    }
}

/// Returns the limits of the key store, all of which come from the server's limits.
pub(crate) fn keystore_limits(limits: &Limits) -> cloakwork_keystore::Limits {
    let small = |limit: u64| u32::try_from(limit).unwrap_or(u32::MAX);
    cloakwork_keystore::Limits {
        uploads_per_tenant: small(limits.tenant_uploads),
        uploads_total: small(limits.uploads),
        writers_total: small(limits.receiving),
        writers_per_tenant: small(limits.tenant_receiving),
        window_bytes: small(limits.upload_buffer_bytes),
        list_bytes: limits.blob_bytes,
        tenant_bytes: limits.tenant_bytes,
        unpinned_bytes: limits.unpinned_bytes,
        keys_per_tenant: small(limits.tenant_keys),
        parts_per_key: small(limits.key_parts),
        page_entries: small(limits.page_size),
        digests_per_call: small(limits.find_missing),
        staged_bytes: limits.staged_bytes,
        upload_expiry: Duration::from_secs(limits.upload_expiry_seconds),
        keep: Duration::from_secs(limits.blob_keep_seconds),
        request_memory: Duration::from_secs(limits.request_memory_seconds),
        request_ids_per_tenant: small(limits.tenant_request_ids),
        orphan_age: Duration::from_secs(limits.orphan_seconds),
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_keystore::{Digest, Error, TenantId};
    use cloakwork_scheduler::JobId;

    use super::*;
    use crate::database::SCHEMAS;

    #[tokio::test]
    async fn calls_of_workers_do_not_wait_behind_the_calls_of_a_tenant() {
        const TENANT: &str = "tenant";
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.storage.directory = directory.path().to_owned();
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 2).await;
        let telemetry = Arc::new(Telemetry::new(10).unwrap());
        let installation =
            crate::installation::tests::installation(directory.path(), Clock::system(), telemetry.clone());
        let (clock, ownership) = (Clock::system(), Ownership::of_directory());
        let seen = watch::channel(Seen::default()).1;
        let operators = Operators::new(&database, &clock, &config.limits);
        let opened = Backend::open(
            &config,
            clock,
            database.clone(),
            ownership,
            seen,
            telemetry.clone(),
            installation,
            &operators,
        );
        let backend = opened.await.unwrap();
        let limits = &backend.limits;
        let quota = Quota::new(backend.store.clone(), TenantLimits::default(), limits.tenant_inline_bytes);
        let workers = backend.workers(&Compiler::new(limits), &quota, Transfers::new(telemetry));
        // The tenant has all readers that it may have. Its next call would wait, and fail.
        let _held = database.read(Asker::Tenant(TENANT)).await.unwrap();
        let (tenant, digest) = (TenantId::new(TENANT).unwrap(), Digest::of(b"unknown"));
        for keystore in [&workers.keystore, &workers.outputs.keystore] {
            assert_eq!(keystore.blob(&tenant, &digest).await, Err(Error::BlobNotFound { digest }));
        }
        assert!(workers.outputs.store.job(TENANT, JobId(1), false).await.unwrap().is_none());
        assert!(workers.outputs.quota.take_if_any(TENANT, 1).await.unwrap());
    }
}
