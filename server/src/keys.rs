//! Deleted keys, and jobs being submitted that need them.
//!
//! A job's admission checks that the key is active. Until the job's row is in the store, the row
//! cannot show that the job needs the key. Admission therefore registers the use of a key first. A
//! key is purged only if it has no registered use and no job in the store needs it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use cloakwork_keystore::{Error, Keystore, TenantId};
use cloakwork_params::KeyId;

use crate::{database, error::ApiError, store::Store};

/// Keys of jobs that are admitted and not yet in the store. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct KeyUses(Arc<Mutex<HashMap<(TenantId, KeyId), u64>>>);

/// A registered use of a key by a job. The value lives until the job is in the store or is refused.
#[derive(Debug)]
pub struct KeyUse {
    uses: KeyUses,
    key: (TenantId, KeyId),
}

impl KeyUses {
    /// Registers that a job may need a key. Call this before reading the key's state.
    pub fn begin(&self, tenant: &TenantId, key_id: KeyId) -> Arc<KeyUse> {
        let key = (tenant.clone(), key_id);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default() += 1;
        Arc::new(KeyUse { uses: self.clone(), key })
    }

    /// Purges a deleted key, unless a stored job or a registered use needs it.
    pub async fn purge(
        &self,
        store: &Store,
        keystore: &Keystore,
        tenant: &TenantId,
        key_id: KeyId,
    ) -> Result<(), ApiError> {
        // The order of the checks matters. A use that is gone from this map has its job in the
        // store by now. A use that begins later finds the key deleted.
        let coming = {
            let uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            uses.contains_key(&(tenant.clone(), key_id))
        };
        if coming || store.key_in_use(tenant.as_str(), key_id).await.map_err(database::failed)? {
            return Ok(());
        }
        match keystore.purge_key(tenant, key_id).await {
            // A concurrent purge was faster, or the next sweep will purge the key.
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
