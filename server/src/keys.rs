//! Deleted keys, and jobs that are on their way to needing one.
//!
//! Between a job's admission, which found its key active, and its row in the store nobody could see that it needs the key.
//! So whoever admits a job says so first, and a key is purged only when nobody has said so and no job in the store
//! needs it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use cloakwork_keystore::{Error, Keystore, TenantId};
use cloakwork_params::KeyId;

use crate::{database, error::ApiError, store::Store};

/// Keys that jobs need which have been admitted and are not yet in the store. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KeyUses(Arc<Mutex<HashMap<(TenantId, KeyId), u64>>>);

/// A job on its way that needs a key. Lives until the job is in the store, or refused.
#[derive(Debug)]
pub struct KeyUse {
    uses: KeyUses,
    key: (TenantId, KeyId),
}

impl KeyUses {
    /// Says that a job may need a key. To be called before the key is looked at.
    pub fn begin(&self, tenant: &TenantId, key_id: KeyId) -> Arc<KeyUse> {
        let key = (tenant.clone(), key_id);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default() += 1;
        Arc::new(KeyUse { uses: self.clone(), key })
    }

    /// Removes a key that was deleted, unless a job needs it or is about to.
    pub async fn purge(
        &self,
        store: &Store,
        keystore: &Keystore,
        tenant: &TenantId,
        key_id: KeyId,
    ) -> Result<(), ApiError> {
        // In this order: whoever has gone from here is in the store by now, and whoever comes finds the key deleted.
        let coming = {
            let uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            uses.contains_key(&(tenant.clone(), key_id))
        };
        if coming || store.key_in_use(tenant.as_str(), key_id).await.map_err(database::failed)? {
            return Ok(());
        }
        match keystore.purge_key(tenant, key_id).await {
            // Somebody else was faster, or will be the next time.
            Ok(()) | Err(Error::KeyInUse { .. } | Error::KeyNotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for KeyUse {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = uses.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
