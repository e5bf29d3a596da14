//! Carries out the moves of tenants away from the shard of this server.
//!
//! Calls of the tenant wait while its move is committed: here, and at every server that passes them
//! on. This server forgets the tenant's keys and programs, which another server may change before
//! the tenant comes back.

use std::{sync::Arc, time::Duration};

use cloakwork_keystore::{Keystore, TenantId};
use cloakwork_storage::{Database, Error};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    dispatch::Dispatcher,
    edge::{Handled, Homes},
    shards::{self, Moved},
    store::Store,
    tenant::Tenant,
};

/// Moves tenants.
#[derive(Debug)]
pub(crate) struct Mover {
    /// The handle with the check of the owner.
    pub(crate) database: Database,
    /// Jobs.
    pub(crate) store: Store,
    /// Jobs that no transaction has stored yet.
    pub(crate) dispatcher: Dispatcher,
    /// Blobs.
    pub(crate) keystore: Keystore,
    /// Where calls go.
    pub(crate) homes: watch::Sender<Homes>,
    /// Calls that are handled here.
    pub(crate) handled: Arc<Handled>,
}

/// Time between two looks for tenants that are to move.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which new calls of a tenant wait, while its running calls end. Callers may wait longer.
const CALLS_END: Duration = Duration::from_secs(3);

/// Time between two looks at the running calls.
const CALLS_INTERVAL: Duration = Duration::from_millis(20);

impl Mover {
    /// Moves tenants for as long as this server owns its shard.
    pub(crate) async fn run(self) {
        loop {
            sleep(LOOK_INTERVAL).await;
            if let Err(error) = self.round().await {
                tracing::debug!(%error, "no tenant was moved");
            }
        }
    }

    async fn round(&self) -> Result<(), Error> {
        for (name, to) in shards::wanted(&self.database).await? {
            let Ok(tenant) = Tenant::new(&name) else { continue };
            if !shards::is_idle(&self.database, &name).await? {
                continue;
            }
            self.homes.send_modify(|homes| homes.hold(&tenant));
            let moved = match self.hand_over(&tenant, to).await {
                Ok(moved) => moved,
                Err(error) => {
                    tracing::warn!(tenant = name, %error, "it is unknown whether a tenant has moved: its calls wait");
                    outcome(&self.database, &name).await
                }
            };
            self.homes.send_modify(|homes| homes.let_go(&tenant, moved));
            if moved.is_some() {
                tracing::info!(tenant = name, shard = to, "a tenant has moved to another shard");
            }
        }
        Ok(())
    }

    /// Hands a tenant over whose new calls wait. Returns `None` if its running calls do not end.
    async fn hand_over(&self, tenant: &Tenant, to: i32) -> Result<Option<Moved>, Error> {
        let Ok(id) = TenantId::new(tenant.as_str()) else { return Ok(None) };
        let end = Instant::now() + CALLS_END;
        while self.handled.count(tenant) > 0 || !self.keystore.is_quiet(&id) {
            if Instant::now() > end {
                return Ok(None);
            }
            sleep(CALLS_INTERVAL).await;
        }
        // A job whose caller went away is not a running call, and the dispatcher may yet store it.
        // The hand-over sees the job once it is stored.
        if self.dispatcher.settled().await.is_err() {
            return Ok(None);
        }
        self.store.forget_known_programs();
        self.keystore.forget_known_keys();
        shards::hand_over(&self.database, tenant.as_str(), to).await
    }
}

/// The move of a tenant, if it happened. The commit of a move may succeed although its answer did
/// not come. This server would then accept jobs of a tenant that it no longer has, and these jobs
/// would be lost with this server or computed twice.
pub(crate) async fn outcome(database: &Database, tenant: &str) -> Option<Moved> {
    loop {
        match shards::departure(database, tenant).await {
            Ok(moved) => return moved,
            Err(error) => tracing::debug!(%error, "it is still unknown whether a tenant has moved"),
        }
        sleep(LOOK_INTERVAL).await;
    }
}
