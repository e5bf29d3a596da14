//! Programs by the digest of their bytes.

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
    /// Keeps a program; one that is there already stays as it is.
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

    /// A program's bytes, as registered.
    pub async fn program(&self, tenant: &str, id: ProgramId) -> Result<Option<Bytes>, sqlx::Error> {
        let bytes: Option<Vec<u8>> = sqlx::query_scalar("SELECT bytes FROM programs WHERE tenant = $1 AND digest = $2")
            .bind(tenant.to_owned())
            .bind(id.0.to_vec())
            .fetch_optional(self.database.readers())
            .await?;
        Ok(bytes.map(Bytes::from))
    }

    /// Was a program that is here registered, or has a job merely carried it? None where it is not here.
    pub async fn is_registered(&self, tenant: &str, id: ProgramId) -> Result<Option<bool>, sqlx::Error> {
        sqlx::query_scalar("SELECT registered = 1 FROM programs WHERE tenant = $1 AND digest = $2")
            .bind(tenant.to_owned())
            .bind(id.0.to_vec())
            .fetch_optional(self.database.readers())
            .await
    }

    /// Forgets programs that nobody registered and no job has any more, at most `count`, and returns how many.
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

/// Programs that are in the store, so that the jobs of a busy program need not put it there again. Changed only by
/// whoever holds the database's writer, which keeps it true.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownPrograms(Arc<Mutex<HashSet<Name>>>);

/// Tenant and digest.
type Name = (Arc<str>, ProgramId);

/// Programs that are remembered; a full memory starts anew.
const KNOWN_MAX: usize = 4096;

impl KnownPrograms {
    /// Keeps a job's program, unless it is there.
    pub(super) fn keep(&self, batch: &mut Batch, meta: &JobMeta, bytes: &Bytes) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        if known.insert((meta.tenant.clone(), meta.program)) {
            insert(batch, &meta.tenant, meta.program, bytes, meta.created_micros);
        }
    }

    /// For when programs are deleted, or what was to be kept was not.
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
