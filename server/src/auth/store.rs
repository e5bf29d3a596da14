//! Tenants and tokens in the database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::FromRow;

use super::{Scopes, Secret, TokenId};
use crate::{database::Database, tenant::Tenant};

/// How old the hint of the last use may be.
const LAST_USED_PRECISION: Duration = Duration::from_secs(300);

/// Reads and changes tenants and tokens.
#[derive(Clone, Debug)]
pub struct TokenStore {
    database: Database,
}

/// Why an operator's wish was not granted.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Taken.
    #[error("there is a tenant '{0}' already")]
    TenantExists(Tenant),
    /// Unknown, or revoked.
    #[error("there is no tenant '{0}'; `tenant list` shows those that there are, `tenant create` makes one")]
    TenantUnknown(Tenant),
    /// Unknown.
    #[error("there is no token '{0}'; `token list` shows those that there are")]
    TokenUnknown(TokenId),
    /// A token that can do nothing.
    #[error("a token needs at least one scope")]
    NoScopes,
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system: {0}")]
    Randomness(#[from] getrandom::Error),
    /// The database failed.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}

/// A tenant, as listings show it. Times are milliseconds since 1970.
#[derive(Clone, Debug, FromRow)]
pub struct TenantRow {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_ms: i64,
    /// When all its tokens stopped working, if they did.
    pub revoked_ms: Option<i64>,
}

/// A token, as listings show it. Times are milliseconds since 1970.
#[derive(Clone, Debug, FromRow)]
pub struct TokenRow {
    /// Public part.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// Names with commas between them.
    pub scopes: String,
    /// What its maker wrote about it.
    pub note: String,
    /// When it was made.
    pub created_ms: i64,
    /// When it stops working.
    pub expires_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
    /// When it was last used, to within a few minutes.
    pub last_used_ms: Option<i64>,
}

/// What is needed to verify a token.
#[derive(Clone, Debug, FromRow)]
pub(super) struct Stored {
    pub(super) tenant: String,
    pub(super) hash: Vec<u8>,
    pub(super) scopes: String,
    pub(super) expires_ms: Option<i64>,
    pub(super) revoked_ms: Option<i64>,
    pub(super) tenant_revoked_ms: Option<i64>,
    last_used_ms: Option<i64>,
}

impl TokenStore {
    /// Over an open database.
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// Makes a tenant.
    pub async fn create_tenant(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let mut write = self.database.write().await?;
        let made = sqlx::query("INSERT INTO tenants (name, created_ms) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(tenant.as_str().to_owned())
            .bind(now_ms())
            .execute(&mut *write)
            .await?;
        write.commit().await?;
        if made.rows_affected() == 0 { Err(StoreError::TenantExists(tenant.clone())) } else { Ok(()) }
    }

    /// Makes all tokens of a tenant useless, now and for ever. What it has stored stays.
    pub async fn revoke_tenant(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let mut write = self.database.write().await?;
        let changed = sqlx::query("UPDATE tenants SET revoked_ms = COALESCE(revoked_ms, $1) WHERE name = $2")
            .bind(now_ms())
            .bind(tenant.as_str().to_owned())
            .execute(&mut *write)
            .await?;
        write.commit().await?;
        if changed.rows_affected() == 0 { Err(StoreError::TenantUnknown(tenant.clone())) } else { Ok(()) }
    }

    /// All tenants, by name.
    pub async fn tenants(&self) -> Result<Vec<TenantRow>, StoreError> {
        let query = sqlx::query_as("SELECT name, created_ms, revoked_ms FROM tenants ORDER BY name");
        Ok(query.fetch_all(self.database.readers()).await?)
    }

    /// Makes a token. This is the only time that anybody sees it.
    pub async fn create_token(
        &self,
        tenant: &Tenant,
        scopes: Scopes,
        note: &str,
        expires: Option<SystemTime>,
    ) -> Result<Secret, StoreError> {
        if scopes == Scopes::default() {
            return Err(StoreError::NoScopes);
        }
        let secret = Secret::generate()?;
        let mut write = self.database.write().await?;
        let made = sqlx::query(
            "INSERT INTO tokens (id, tenant, hash, scopes, note, created_ms, expires_ms) \
             SELECT $1, name, $2, $3, $4, $5, $6 FROM tenants WHERE name = $7 AND revoked_ms IS NULL",
        )
        .bind(secret.id().as_str().to_owned())
        .bind(secret.hash().to_vec())
        .bind(scopes.to_string())
        .bind(note.to_owned())
        .bind(now_ms())
        .bind(expires.map(ms))
        .bind(tenant.as_str().to_owned())
        .execute(&mut *write)
        .await?;
        write.commit().await?;
        if made.rows_affected() == 0 { Err(StoreError::TenantUnknown(tenant.clone())) } else { Ok(secret) }
    }

    /// Makes a token useless.
    pub async fn revoke_token(&self, id: &TokenId) -> Result<(), StoreError> {
        let mut write = self.database.write().await?;
        let changed = sqlx::query("UPDATE tokens SET revoked_ms = COALESCE(revoked_ms, $1) WHERE id = $2")
            .bind(now_ms())
            .bind(id.as_str().to_owned())
            .execute(&mut *write)
            .await?;
        write.commit().await?;
        if changed.rows_affected() == 0 { Err(StoreError::TokenUnknown(id.clone())) } else { Ok(()) }
    }

    /// All tokens, or those of one tenant, oldest first.
    pub async fn tokens(&self, tenant: Option<&Tenant>) -> Result<Vec<TokenRow>, StoreError> {
        let query = sqlx::query_as(
            "SELECT id, tenant, scopes, note, created_ms, expires_ms, revoked_ms, last_used_ms FROM tokens \
             WHERE $1 IS NULL OR tenant = $1 ORDER BY created_ms, id",
        );
        Ok(query.bind(tenant.map(|tenant| tenant.as_str().to_owned())).fetch_all(self.database.readers()).await?)
    }

    /// Closes the database.
    pub async fn close(&self) {
        self.database.close().await;
    }

    pub(super) async fn find(&self, id: &TokenId) -> Result<Option<Stored>, sqlx::Error> {
        let query = sqlx::query_as(
            "SELECT tenant, hash, scopes, expires_ms, tokens.revoked_ms AS revoked_ms, \
             tenants.revoked_ms AS tenant_revoked_ms, last_used_ms \
             FROM tokens JOIN tenants ON tenants.name = tokens.tenant WHERE id = $1",
        );
        query.bind(id.as_str().to_owned()).fetch_optional(self.database.readers()).await
    }

    /// Notes that a token was used, where the last note is old, and lets nobody wait for it.
    pub(super) fn note_use(&self, id: TokenId, stored: &Stored) {
        let now = now_ms();
        let precision = i64::try_from(LAST_USED_PRECISION.as_millis()).unwrap_or(i64::MAX);
        if stored.last_used_ms.is_some_and(|last| now.saturating_sub(last) < precision) {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            // Only a hint: when the disk is full, everything else must go on.
            if let Err(error) = store.write_use(&id, now).await {
                tracing::debug!(%error, token_id = %id, "the last use of a token was not noted");
            }
        });
    }

    async fn write_use(&self, id: &TokenId, now: i64) -> Result<(), sqlx::Error> {
        let mut write = self.database.write().await?;
        let query = sqlx::query("UPDATE tokens SET last_used_ms = $1 WHERE id = $2");
        query.bind(now).bind(id.as_str().to_owned()).execute(&mut *write).await?;
        write.commit().await
    }
}

/// Milliseconds since 1970, now.
pub(super) fn now_ms() -> i64 {
    ms(SystemTime::now())
}

fn ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
