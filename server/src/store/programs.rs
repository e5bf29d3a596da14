//! Programs, identified by the digest of their bytes.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use cloakwork_keystore::of_shard;
use cloakwork_storage::{Asker, Batch, Error, Row, Rows, Survival};
use quick_cache::unsync::Cache;

use super::Store;
use crate::jobs::JobMeta;

impl Store {
    /// Registers a program. A program that is already stored keeps its bytes.
    pub async fn put_program(&self, tenant: &str, id: ProgramId, bytes: &Bytes, now_micros: i64) -> Result<(), Error> {
        let register = |batch: &mut Batch| {
            insert(batch, tenant, id, bytes, now_micros);
            let update = batch.push("UPDATE programs SET registered = 1 WHERE tenant = $1 AND digest = $2");
            update.bind(tenant).bind(id.0);
        };
        self.database.apply(Asker::Tenant(tenant), Rows::Tenant(tenant), Survival::PowerFailure, register).await
    }

    /// The bytes of a stored program.
    pub async fn program(&self, tenant: &str, id: ProgramId) -> Result<Option<Bytes>, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT bytes FROM programs WHERE tenant = $1 AND digest = $2");
        let row = query.bind(tenant).bind(id.0).optional().await?;
        row.map(|row| Ok(Bytes::copy_from_slice(row.bytes("bytes")?))).transpose()
    }

    /// Whether a stored program is registered. False if only a job brought the program; none if it
    /// is not stored.
    pub async fn is_registered(&self, tenant: &str, id: ProgramId) -> Result<Option<bool>, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT registered FROM programs WHERE tenant = $1 AND digest = $2");
        let row = query.bind(tenant).bind(id.0).optional().await?;
        row.map(|row| row.flag("registered")).transpose()
    }

    /// Deletes at most `count` programs of the shard that are not registered and that no job uses.
    /// Returns the number of those that it found.
    ///
    /// A reader searches for the programs, because the search visits all programs that jobs use.
    /// The transaction checks each program again, because a job may use it meanwhile.
    pub async fn forget_programs(&self, count: u32) -> Result<u64, Error> {
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let rows = reader.query(UNUSED).bind(self.database.shard()).bind(count).all().await?;
        drop(reader);
        let name = |row: &Row| Ok((row.text("tenant")?.to_owned(), row.array("digest")?));
        let unused: Vec<(String, [u8; 32])> = rows.iter().map(name).collect::<Result<_, Error>>()?;
        if !unused.is_empty() {
            let delete = |batch: &mut Batch| {
                self.programs.forget();
                let mut deleted = batch.each(DELETE_UNUSED);
                for (tenant, digest) in &unused {
                    deleted.row().bind(tenant.as_str()).bind(*digest);
                }
            };
            self.database.apply(Asker::Upkeep, Rows::All, Survival::PowerFailure, delete).await?;
        }
        Ok(unused.len() as u64)
    }

    /// Forgets which programs are stored. Call this before another process may delete some.
    pub fn forget_known_programs(&self) {
        self.programs.forget();
    }

    /// Number of programs that a tenant has registered.
    pub async fn program_count(&self, tenant: &str) -> Result<u64, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT COUNT(*) AS programs FROM programs WHERE tenant = $1 AND registered = 1");
        query.bind(tenant).one().await?.unsigned("programs")
    }
}

pub(super) const UNUSED: &str = concat!(
    "SELECT tenant, digest FROM programs WHERE registered = 0 AND NOT EXISTS \
     (SELECT 1 FROM jobs WHERE jobs.tenant = programs.tenant AND jobs.program = programs.digest) AND ",
    of_shard!("programs.tenant", "$1"),
    " LIMIT $2"
);

const DELETE_UNUSED: &str = "DELETE FROM programs WHERE tenant = $1 AND digest = $2 AND registered = 0 AND NOT EXISTS \
     (SELECT 1 FROM jobs WHERE jobs.tenant = programs.tenant AND jobs.program = programs.digest)";

/// Programs known to be in the store, so that jobs of a busy program need not store it again. Only
/// batches on all rows change the set, one at a time, which keeps it true.
#[derive(Clone)]
pub(super) struct KnownPrograms(Arc<Mutex<Cache<Name, ()>>>);

/// Tenant and digest.
type Name = (Arc<str>, ProgramId);

/// Maximum number of programs in the set.
const KNOWN_MAX: usize = 4096;

impl Default for KnownPrograms {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Cache::new(KNOWN_MAX))))
    }
}

impl fmt::Debug for KnownPrograms {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KnownPrograms")
    }
}

impl KnownPrograms {
    /// Stores a job's program unless it is already stored.
    pub(super) fn keep(&self, batch: &mut Batch, meta: &JobMeta, bytes: &Bytes) {
        let mut known = self.known();
        let name = (meta.tenant.clone(), meta.program);
        if known.get(&name).is_none() {
            known.insert(name, ());
            insert(batch, &meta.tenant, meta.program, bytes, meta.created_micros);
        }
    }

    /// Clears the set, because programs are deleted or a write failed.
    pub(super) fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, Cache<Name, ()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert(batch: &mut Batch, tenant: &str, id: ProgramId, bytes: &Bytes, now_micros: i64) {
    batch
        .push(
            "INSERT INTO programs (tenant, digest, bytes, registered, created_micros) VALUES ($1, $2, $3, 0, $4) \
             ON CONFLICT DO NOTHING",
        )
        .bind(tenant)
        .bind(id.0)
        .bind(&bytes[..])
        .bind(now_micros);
}
