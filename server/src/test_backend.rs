//! The stores and the dispatcher of a server, for tests of what stands before them.

use std::sync::Arc;

use cloakwork_clock::ManualClock;
use cloakwork_keystore::Keystore;
use tempfile::TempDir;

use crate::{
    database::SCHEMAS,
    dispatch::{Backlogs, Dispatcher, Neighbours, Parts},
    keys,
    limits::Limits,
    metrics::Telemetry,
    store::Store,
    tenant_limits::TenantLimits,
};

/// An empty database and key store, and a dispatcher that runs on them.
pub(crate) struct TestBackend {
    pub(crate) directory: TempDir,
    pub(crate) time: ManualClock,
    pub(crate) limits: Arc<Limits>,
    pub(crate) store: Store,
    pub(crate) keystore: Keystore,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl TestBackend {
    pub(crate) async fn start(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 2).await;
        let time = ManualClock::at(1_700_000_000_000_000);
        let (limits, telemetry) = (Arc::new(limits), Arc::new(Telemetry::new(10).unwrap()));
        let store = Store::new(database.clone());
        let keystore = keys::tests::keystore(directory.path(), time.clock(), &database).await;
        let parts = Parts {
            store: store.clone(),
            keystore: keystore.clone(),
            clock: time.clock(),
            limits: limits.clone(),
            tenant_limits: TenantLimits::default(),
            telemetry: telemetry.clone(),
            backlogs: Backlogs::default(),
            neighbours: Neighbours::none(),
        };
        let (dispatcher, running) = Dispatcher::start(parts).await.unwrap();
        tokio::spawn(running);
        Self { directory, time, limits, store, keystore, dispatcher, telemetry }
    }
}
