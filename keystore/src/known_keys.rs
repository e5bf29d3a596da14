//! Cache of recently looked up keys. Every job looks up its key, and keys rarely change.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use cloakwork_params::KeyId;

use cloakwork_storage::Database;
use quick_cache::unsync::Cache;

use crate::{Error, KeyInfo, TenantId};

/// Maximum number of cached keys.
const KNOWN_KEYS_MAX: usize = 1024;

/// Cached keys, each with the database version for which the entry is valid.
pub(crate) struct KnownKeys(Mutex<Known>);

type Known = Cache<(TenantId, KeyId), (u64, KeyInfo)>;

impl Default for KnownKeys {
    fn default() -> Self {
        Self(Mutex::new(Cache::new(KNOWN_KEYS_MAX)))
    }
}

impl fmt::Debug for KnownKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KnownKeys")
    }
}

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
        if let Some((version, key)) = self.known().get(&name)
            && Some(*version) == before
        {
            return Ok(key.clone());
        }
        let key = ask.await?;
        // A concurrent write may have changed the key before or after the read, so the cache keeps
        // only reads without a concurrent write.
        if let Some(version) = before.filter(|before| database.version() == Some(*before)) {
            self.known().insert(name, (version, key.clone()));
        }
        Ok(key)
    }

    /// Forgets all keys.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use cloakwork_storage::{Asker, Rows};

    use super::*;
    use crate::{KeyState, SCHEMA};

    #[tokio::test]
    async fn a_key_is_read_once_after_each_write() {
        let home = tempfile::tempdir().expect("a directory");
        let database = cloakwork_tests_database::open(&home.path().join("catalogue.db"), &[SCHEMA], 1).await;
        let known = KnownKeys::default();
        let (tenant, key_id) = (TenantId::new("alice").expect("a name"), KeyId([7; 16]));
        let reads = Cell::new(0);
        for read in 1..=2 {
            for _ in 0..3 {
                let ask = async {
                    reads.set(reads.get() + 1);
                    Ok(KeyInfo { key_id, state: KeyState::Active, parts: Vec::new(), created_micros: reads.get() })
                };
                let key = known.get(&database, (&tenant, key_id), ask).await.expect("there");
                assert_eq!((key.created_micros, reads.get()), (read, read));
            }
            let write = database.write(Asker::Server, Rows::All).await.expect("a turn");
            write.commit().await.expect("committed");
        }
    }
}
