//! Cache of recently looked up keys. Every job looks up its key, and keys rarely change.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use cloakwork_params::KeyId;

use crate::{Error, KeyInfo, TenantId, database::Database};

/// Maximum number of cached keys. A full cache is cleared.
const KNOWN_KEYS_MAX: usize = 1024;

/// Cached keys, each with the database version for which the entry is valid.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys(Mutex<HashMap<(TenantId, KeyId), (u64, KeyInfo)>>);

impl KnownKeys {
    /// Returns the cached key, or the result of `ask`. An entry is valid until the next write;
    /// after a write, the database is read again.
    pub(crate) async fn get(
        &self,
        database: &Database,
        (tenant, key_id): (&TenantId, KeyId),
        ask: impl Future<Output = Result<KeyInfo, Error>>,
    ) -> Result<KeyInfo, Error> {
        let name = (tenant.clone(), key_id);
        let before = database.version();
        if let Some((version, key)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&name)
            && Some(*version) == before
        {
            return Ok(key.clone());
        }
        let key = ask.await?;
        // A concurrent write may have changed the key before or after the read, so the cache keeps
        // only reads without a concurrent write.
        if let Some(version) = before.filter(|before| database.version() == Some(*before)) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= KNOWN_KEYS_MAX {
                known.clear();
            }
            known.insert(name, (version, key.clone()));
        }
        Ok(key)
    }
}
