//! Keys that were looked up a moment ago. Every job asks for its key, and keys hardly ever change.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use cloakwork_params::KeyId;

use crate::{Error, KeyInfo, TenantId, database::Database};

/// Keys that are remembered; a full memory starts anew.
const KNOWN_KEYS_MAX: usize = 1024;

/// What queries said of keys, each with the version of the database that it is true of.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys(Mutex<HashMap<(TenantId, KeyId), (u64, KeyInfo)>>);

impl KnownKeys {
    /// The key as it is known, or as `ask` finds it. True until somebody writes: then the database is asked again.
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
        // Whoever wrote meanwhile may have changed the key before or after it was read.
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
