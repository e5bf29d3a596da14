//! Programs, identified by the digest of their bytes.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use cloakwork_circuit::ProgramId;

use super::Store;
use crate::{
    database::{Batch, Survival},
    jobs::JobMeta,
};

impl Store {
    /// Registers a program. A program that is already stored keeps its bytes.
    pub async fn put_program(
        &self,
        tenant: &str,
        id: ProgramId,
        bytes: &Bytes,
        now_micros: i64,
    ) -> Result<(), sqlx::Error> {
        let register = |batch: &mut Batch| {
            insert(batch, tenant, id, bytes, now_micros);
            batch
                .push("UPDATE programs SET registered = 1 WHERE tenant = $1 AND digest = $2")
                .bind(tenant.to_owned())
                .bind(id.0.to_vec());
        };
        self.database.apply(Survival::PowerFailure, register).await
    }

    /// The bytes of a stored program.
    pub async fn program(&self, tenant: &str, id: ProgramId) -> Result<Option<Bytes>, sqlx::Error> {
        let bytes: Option<Vec<u8>> = sqlx::query_scalar("SELECT bytes FROM programs WHERE tenant = $1 AND digest = $2")
            .bind(tenant.to_owned())
            .bind(id.0.to_vec())
            .fetch_optional(self.database.readers())
            .await?;
        Ok(bytes.map(Bytes::from))
    }

    /// Whether a stored program is registered. False if only a job brought the program; none if it
    /// is not stored.
    pub async fn is_registered(&self, tenant: &str, id: ProgramId) -> Result<Option<bool>, sqlx::Error> {
        sqlx::query_scalar("SELECT registered = 1 FROM programs WHERE tenant = $1 AND digest = $2")
            .bind(tenant.to_owned())
            .bind(id.0.to_vec())
            .fetch_optional(self.database.readers())
            .await
    }

    /// Deletes at most `count` programs that are not registered and that no job uses. Returns their
    /// number.
    pub async fn forget_programs(&self, count: u32) -> Result<u64, sqlx::Error> {
        let mut transaction = self.database.write().await?;
        self.programs.forget();
        let deleted = sqlx::query(
            "DELETE FROM programs WHERE (tenant, digest) IN (SELECT tenant, digest FROM programs WHERE registered = 0 AND \
             NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.tenant = programs.tenant AND jobs.program = programs.digest) \
             LIMIT $1)",
        )
        .bind(i64::from(count))
        .execute(&mut *transaction)
        .await?
        .rows_affected();
        transaction.commit().await?;
        Ok(deleted)
    }

    /// Number of programs that a tenant has registered.
    pub async fn program_count(&self, tenant: &str) -> Result<u64, sqlx::Error> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM programs WHERE tenant = $1 AND registered = 1")
            .bind(tenant.to_owned())
            .fetch_one(self.database.readers())
            .await?;
        Ok(count as u64)
    }
}

/// Programs known to be in the store, so that jobs of a busy program need not store it again. Only
/// the holder of the database's writer changes the set, which keeps it true.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownPrograms(Arc<Mutex<HashSet<Name>>>);

/// Tenant and digest.
type Name = (Arc<str>, ProgramId);

/// Maximum number of programs in the set. A full set is cleared.
const KNOWN_MAX: usize = 4096;

impl KnownPrograms {
    /// Stores a job's program unless it is already stored.
    pub(super) fn keep(&self, batch: &mut Batch, meta: &JobMeta, bytes: &Bytes) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        if known.insert((meta.tenant.clone(), meta.program)) {
            insert(batch, &meta.tenant, meta.program, bytes, meta.created_micros);
        }
    }

    /// Clears the set, because programs are deleted or a write failed.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn insert(batch: &mut Batch, tenant: &str, id: ProgramId, bytes: &Bytes, now_micros: i64) {
    batch
        .push(
            "INSERT INTO programs (tenant, digest, bytes, registered, created_micros) VALUES ($1, $2, $3, 0, $4) \
             ON CONFLICT DO NOTHING",
        )
        .bind(tenant.to_owned())
        .bind(id.0.to_vec())
        .bind(bytes.to_vec())
        .bind(now_micros);
}
