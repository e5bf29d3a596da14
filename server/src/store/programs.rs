//! Programs by the digest of their bytes.

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use sqlx::SqliteConnection;

use super::Store;

impl Store {
    /// Keeps a program; one that is there already stays as it is.
    pub async fn put_program(
        &self,
        tenant: &str,
        id: ProgramId,
        bytes: &Bytes,
        now_micros: i64,
    ) -> Result<(), sqlx::Error> {
        let mut transaction = self.database.write().await?;
        insert(&mut transaction, tenant, id, bytes, now_micros).await?;
        transaction.commit().await
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

    /// Number of programs that a tenant has registered.
    pub async fn program_count(&self, tenant: &str) -> Result<u64, sqlx::Error> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM programs WHERE tenant = $1")
            .bind(tenant.to_owned())
            .fetch_one(self.database.readers())
            .await?;
        Ok(count as u64)
    }
}

pub(super) async fn insert(
    connection: &mut SqliteConnection,
    tenant: &str,
    id: ProgramId,
    bytes: &Bytes,
    now_micros: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO programs (tenant, digest, bytes, created_micros) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(tenant.to_owned())
    .bind(id.0.to_vec())
    .bind(bytes.to_vec())
    .bind(now_micros)
    .execute(connection)
    .await?;
    Ok(())
}
