//! Tenants and tokens in the database.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cloakwork_clock::{Clock, unix_micros_after};
use cloakwork_keystore::shard_of;
use cloakwork_storage::{Asker, Connection, Database, Error, Row, Rows};

use super::{Scopes, Secret, TokenId};
use crate::{
    audit::{self, Act, COMMAND_LINE},
    shards,
    tenant::Tenant,
};

/// The resource name of a tenant.
pub(crate) fn name_of(tenant: &Tenant) -> String {
    format!("tenants/{tenant}")
}

/// Maximum age of the stored time of a token's last use before it is written again.
const LAST_USED_PRECISION: Duration = Duration::from_secs(300);

/// Maximum number of tokens whose use is being recorded. The use of further ones is recorded later.
const NOTES_MAX: usize = 256;

/// Reads and changes tenants and tokens.
#[derive(Clone, Debug)]
pub struct TokenStore {
    database: Database,
    clock: Clock,
    /// The actor that the audit log ascribes changes to.
    actor: Arc<str>,
    /// Tokens whose use is being recorded.
    noting: Arc<Mutex<HashSet<TokenId>>>,
}

/// The error of an operator's request.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A tenant with this name exists.
    #[error("tenant '{0}' exists already")]
    TenantExists(Tenant),
    /// The tenant does not exist, or is revoked.
    #[error("tenant '{0}' does not exist or is revoked; `tenant list` shows all tenants, `tenant create` creates one")]
    TenantUnknown(Tenant),
    /// The database has no such shard.
    #[error("the database has no shard {0}; `cloakwork-server shards` lists them")]
    ShardUnknown(i32),
    /// The token does not exist.
    #[error("token '{0}' does not exist; `token list` shows all tokens")]
    TokenUnknown(TokenId),
    /// Too many tenants have limits of their own.
    #[error("too many tenants have limits of their own")]
    TooManyLimits,
    /// The token would have no scope.
    #[error("a token needs at least one scope")]
    NoScopes,
    /// The operating system returned no random bytes.
    #[error("no randomness from the operating system: {0}")]
    Randomness(#[from] getrandom::Error),
    /// The database failed.
    #[error("the database failed: {0}")]
    Database(#[from] Error),
}

/// A tenant as listed. Times are microseconds since 1970.
#[derive(Clone, Debug)]
pub struct TenantRow {
    /// Name of the tenant.
    pub name: String,
    /// Time of creation.
    pub created_micros: i64,
    /// Time at which all its tokens were revoked, if they were.
    pub revoked_micros: Option<i64>,
    /// Time at which its deletion was asked for, if it was.
    pub deleting_micros: Option<i64>,
    /// Its shard.
    pub shard: i32,
    /// Bytes of its blobs.
    pub stored_bytes: u64,
    /// Number of its keys.
    pub keys: u64,
}

/// A token as listed. Times are microseconds since 1970.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// Public part of the token.
    pub id: String,
    /// Tenant to which the token belongs.
    pub tenant: String,
    /// Names of its scopes, separated by commas.
    pub scopes: String,
    /// Free text from its creator.
    pub note: String,
    /// Time of creation.
    pub created_micros: i64,
    /// Time of expiry, if it has one.
    pub expires_micros: Option<i64>,
    /// Time of revocation, if it was revoked.
    pub revoked_micros: Option<i64>,
    /// Time of last use, with a precision of a few minutes.
    pub last_used_micros: Option<i64>,
}

/// The columns that verification of a token needs.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) tenant: String,
    pub(super) shard: i32,
    pub(super) hash: [u8; 32],
    pub(super) scopes: String,
    expires_micros: Option<i64>,
    revoked_micros: Option<i64>,
    tenant_revoked_micros: Option<i64>,
    last_used_micros: Option<i64>,
}

/// Why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Void {
    /// The token or its tenant was revoked.
    #[error("was revoked")]
    Revoked,
    /// The token has expired.
    #[error("has expired")]
    Expired,
}

impl TenantRow {
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            name: row.text("name")?.to_owned(),
            created_micros: row.int("created_micros")?,
            revoked_micros: row.int_or_null("revoked_micros")?,
            deleting_micros: row.int_or_null("deleting_micros")?,
            shard: row.small("shard")?,
            stored_bytes: row.unsigned("stored_bytes")?,
            keys: row.unsigned("keys")?,
        })
    }
}

impl TokenRow {
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.text("id")?.to_owned(),
            tenant: row.text("tenant")?.to_owned(),
            scopes: row.text("scopes")?.to_owned(),
            note: row.text("note")?.to_owned(),
            created_micros: row.int("created_micros")?,
            expires_micros: row.int_or_null("expires_micros")?,
            revoked_micros: row.int_or_null("revoked_micros")?,
            last_used_micros: row.int_or_null("last_used_micros")?,
        })
    }
}

impl Stored {
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            tenant: row.text("tenant")?.to_owned(),
            shard: row.small("shard")?,
            hash: row.array("hash")?,
            scopes: row.text("scopes")?.to_owned(),
            expires_micros: row.int_or_null("expires_micros")?,
            revoked_micros: row.int_or_null("revoked_micros")?,
            tenant_revoked_micros: row.int_or_null("tenant_revoked_micros")?,
            last_used_micros: row.int_or_null("last_used_micros")?,
        })
    }

    /// The time until the token expires, or why it is not valid.
    pub(super) fn time_left(&self, now_micros: i64) -> Result<Duration, Void> {
        if self.revoked_micros.is_some() || self.tenant_revoked_micros.is_some() {
            return Err(Void::Revoked);
        }
        let Some(end) = self.expires_micros else { return Ok(Duration::MAX) };
        let left = u64::try_from(end.saturating_sub(now_micros)).unwrap_or_default();
        if left == 0 { Err(Void::Expired) } else { Ok(Duration::from_micros(left)) }
    }
}

impl TokenStore {
    /// Creates a store over an open database.
    pub fn new(database: Database, clock: Clock) -> Self {
        Self { database, clock, actor: COMMAND_LINE.into(), noting: Arc::default() }
    }

    /// A handle whose changes the audit log ascribes to `actor`.
    pub fn by(&self, actor: &str) -> Self {
        Self { actor: actor.into(), ..self.clone() }
    }

    /// The database, for changes that the audit log ascribes to the same actor.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Records an act that changes nothing else in the database.
    pub(crate) async fn note_alone(&self, act: Act) -> Result<(), Error> {
        let mut write = self.database.write(Asker::Server, Rows::All).await?;
        self.note(&mut write, act).await?;
        write.commit().await
    }

    /// Adds an act to the transaction that carries it out.
    pub(crate) async fn note(&self, write: &mut Connection, act: Act) -> Result<(), Error> {
        audit::add(write, &self.clock, &self.actor, &act).await
    }

    /// The shard for a new tenant: the wanted one; otherwise the one with the fewest tenants.
    pub async fn place(&self, wanted: Option<i32>) -> Result<i32, StoreError> {
        if !self.database.is_on_server() {
            return self.known_shard(wanted.unwrap_or(0)).await;
        }
        match wanted {
            Some(shard) => self.known_shard(shard).await,
            None => Ok(shards::emptiest(&self.database).await?),
        }
    }

    /// Fails unless the database has this shard.
    async fn known_shard(&self, shard: i32) -> Result<i32, StoreError> {
        let is_known = shard == 0 || self.database.is_on_server() && shards::exists(&self.database, shard).await?;
        if is_known { Ok(shard) } else { Err(StoreError::ShardUnknown(shard)) }
    }

    /// Asks for the move of a tenant to another shard. The owner of its shard carries the move out.
    pub async fn want_shard(&self, tenant: &Tenant, shard: i32) -> Result<(), StoreError> {
        self.known_shard(shard).await?;
        if !self.has_tenant(tenant).await? {
            return Err(StoreError::TenantUnknown(tenant.clone()));
        }
        Ok(shards::want(&self.database, tenant, shard).await?)
    }

    /// The shard of a tenant.
    pub async fn shard_of(&self, tenant: &Tenant) -> Result<i32, StoreError> {
        Ok(shard_of(&mut *self.database.read(Asker::Server).await?, tenant.as_str()).await?)
    }

    /// Creates a tenant in a shard that the database has.
    pub async fn create_tenant(&self, tenant: &Tenant, shard: i32) -> Result<(), StoreError> {
        let mut write = self.database.write(Asker::Server, Rows::All).await?;
        let made = write
            .query("INSERT INTO tenants (name, created_micros) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(tenant.as_str())
            .bind(self.clock.unix_micros())
            .execute()
            .await?;
        if made > 0 && shard != 0 {
            let place = write.query(
                "INSERT INTO tenant_shards (tenant, shard, moved_micros) VALUES ($1, $2, 0) \
                 ON CONFLICT (tenant) DO UPDATE SET shard = excluded.shard",
            );
            place.bind(tenant.as_str()).bind(shard).execute().await?;
        }
        if made == 0 {
            return Err(StoreError::TenantExists(tenant.clone()));
        }
        self.note(&mut write, Act { act: "create tenant", subject: name_of(tenant), detail: format!("shard {shard}") })
            .await?;
        Ok(write.commit().await?)
    }

    /// Revokes a tenant and all its tokens for good. The tenant's stored data stays.
    pub async fn revoke_tenant(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let sql = "UPDATE tenants SET revoked_micros = COALESCE(revoked_micros, $1) WHERE name = $2";
        self.mark_now(tenant, "revoke tenant", sql).await
    }

    /// Revokes a tenant like [`Self::revoke_tenant`], and asks for the deletion of all its data.
    /// The server that owns the database deletes the data.
    pub async fn delete_tenant(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let sql = "UPDATE tenants SET revoked_micros = COALESCE(revoked_micros, $1), \
                   deleting_micros = COALESCE(deleting_micros, $1) WHERE name = $2";
        self.mark_now(tenant, "delete tenant", sql).await
    }

    /// Runs a statement with the present time and the tenant's name.
    async fn mark_now(&self, tenant: &Tenant, act: &'static str, sql: &'static str) -> Result<(), StoreError> {
        let mut write = self.database.write(Asker::Server, Rows::All).await?;
        let mark = write.query(sql).bind(self.clock.unix_micros()).bind(tenant.as_str());
        if mark.execute().await? == 0 {
            return Err(StoreError::TenantUnknown(tenant.clone()));
        }
        self.note(&mut write, Act { act, subject: name_of(tenant), detail: String::new() }).await?;
        Ok(write.commit().await?)
    }

    /// The shard of a tenant, and whether the tenant was revoked. `None` for an unknown tenant.
    pub(crate) async fn standing(&self, tenant: &Tenant) -> Result<Option<(i32, bool)>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(concat!(
            "SELECT revoked_micros, ",
            shard_of!("tenants.name"),
            " AS shard FROM tenants WHERE name = $1"
        ));
        let row = query.bind(tenant.as_str()).optional().await?;
        row.map(|row| Ok((row.small("shard")?, row.int_or_null("revoked_micros")?.is_some()))).transpose()
    }

    /// Whether the tenant exists, revoked or not.
    pub async fn has_tenant(&self, tenant: &Tenant) -> Result<bool, StoreError> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query("SELECT 1 FROM tenants WHERE name = $1").bind(tenant.as_str());
        Ok(query.optional().await?.is_some())
    }

    /// All tenants, sorted by name.
    pub async fn tenants(&self) -> Result<Vec<TenantRow>, StoreError> {
        Ok(self.tenants_after("", u32::MAX).await?)
    }

    /// At most `count` tenants whose names come after `after`, sorted by name.
    pub async fn tenants_after(&self, after: &str, count: u32) -> Result<Vec<TenantRow>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(concat!(
            "SELECT name, created_micros, revoked_micros, deleting_micros, ",
            shard_of!("tenants.name"),
            " AS shard, \
             COALESCE((SELECT blob_bytes FROM usage WHERE usage.tenant = tenants.name), 0) AS stored_bytes, \
             (SELECT COUNT(*) FROM keys WHERE keys.tenant = tenants.name) AS keys \
             FROM tenants WHERE name > $1 ORDER BY name LIMIT $2"
        ));
        query.bind(after).bind(count).all().await?.iter().map(TenantRow::of).collect()
    }

    /// Creates a token, which expires after `life` if it has one. The returned secret is not stored
    /// and cannot be retrieved later.
    pub async fn create_token(
        &self,
        tenant: &Tenant,
        scopes: Scopes,
        note: &str,
        life: Option<Duration>,
    ) -> Result<Secret, StoreError> {
        if scopes == Scopes::default() {
            return Err(StoreError::NoScopes);
        }
        let secret = Secret::generate()?;
        let subject = format!("tokens/{}", secret.id());
        let now_micros = self.clock.unix_micros();
        let mut write = self.database.write(Asker::Server, Rows::All).await?;
        let made = write
            .query(
                "INSERT INTO tokens (id, tenant, hash, scopes, note, created_micros, expires_micros) \
             SELECT $1, name, $2, $3, $4, $5, $6 FROM tenants WHERE name = $7 AND revoked_micros IS NULL",
            )
            .bind(secret.id().as_str())
            .bind(secret.hash())
            .bind(scopes.to_string())
            .bind(note)
            .bind(now_micros)
            .bind(life.map(|life| unix_micros_after(now_micros, life)))
            .bind(tenant.as_str())
            .execute()
            .await?;
        if made == 0 {
            return Err(StoreError::TenantUnknown(tenant.clone()));
        }
        let detail = format!("tenant {tenant}, scopes {scopes}");
        self.note(&mut write, Act { act: "create token", subject, detail }).await?;
        write.commit().await?;
        Ok(secret)
    }

    /// Revokes a token for good.
    pub async fn revoke_token(&self, id: &TokenId) -> Result<(), StoreError> {
        let mut write = self.database.write(Asker::Server, Rows::All).await?;
        let changed = write
            .query("UPDATE tokens SET revoked_micros = COALESCE(revoked_micros, $1) WHERE id = $2")
            .bind(self.clock.unix_micros())
            .bind(id.as_str())
            .execute()
            .await?;
        if changed == 0 {
            return Err(StoreError::TokenUnknown(id.clone()));
        }
        self.note(&mut write, Act { act: "revoke token", subject: format!("tokens/{id}"), detail: String::new() })
            .await?;
        Ok(write.commit().await?)
    }

    /// All tokens, or those of one tenant, oldest first.
    pub async fn tokens(&self, tenant: Option<&Tenant>) -> Result<Vec<TokenRow>, StoreError> {
        let mut tokens = self.tokens_after(tenant, "", u32::MAX).await?;
        tokens.sort_by(|left, right| (left.created_micros, &left.id).cmp(&(right.created_micros, &right.id)));
        Ok(tokens)
    }

    /// At most `count` tokens, of all tenants or of one, with IDs after `after`, sorted by ID.
    pub async fn tokens_after(&self, tenant: Option<&Tenant>, after: &str, count: u32) -> Result<Vec<TokenRow>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(
            "SELECT id, tenant, scopes, note, created_micros, expires_micros, revoked_micros, last_used_micros \
             FROM tokens WHERE (CAST($1 AS TEXT) IS NULL OR tenant = $1) AND id > $2 ORDER BY id LIMIT $3",
        );
        let rows = query.bind(tenant.map(Tenant::as_str)).bind(after).bind(count).all().await?;
        rows.iter().map(TokenRow::of).collect()
    }

    /// Whether a token that was valid before is still valid.
    pub async fn is_valid(&self, id: &TokenId) -> Result<bool, Error> {
        let stored = self.find(id).await?;
        Ok(stored.is_some_and(|stored| stored.time_left(self.clock.unix_micros()).is_ok()))
    }

    /// The token with this public part.
    pub async fn token(&self, id: &TokenId) -> Result<Option<TokenRow>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(
            "SELECT id, tenant, scopes, note, created_micros, expires_micros, revoked_micros, last_used_micros \
             FROM tokens WHERE id = $1",
        );
        query.bind(id.as_str()).optional().await?.as_ref().map(TokenRow::of).transpose()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Closes the database.
    pub async fn close(&self) {
        self.database.close().await;
    }

    pub(super) async fn find(&self, id: &TokenId) -> Result<Option<Stored>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(concat!(
            "SELECT tokens.tenant AS tenant, hash, scopes, expires_micros, tokens.revoked_micros AS revoked_micros, \
             tenants.revoked_micros AS tenant_revoked_micros, last_used_micros, ",
            shard_of!("tokens.tenant"),
            " AS shard FROM tokens JOIN tenants ON tenants.name = tokens.tenant WHERE id = $1"
        ));
        query.bind(id.as_str()).optional().await?.as_ref().map(Stored::of).transpose()
    }

    /// Records the use of a token in the background, unless the stored time is recent.
    pub(super) fn note_use(&self, id: TokenId, stored: &Stored) {
        let now_micros = self.clock.unix_micros();
        let is_recent = |last| now_micros < unix_micros_after(last, LAST_USED_PRECISION);
        if stored.last_used_micros.is_some_and(is_recent) {
            return;
        }
        // Tokens are looked up every few seconds, and writes may wait for long.
        {
            let mut noting = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
            if noting.len() >= NOTES_MAX || !noting.insert(id.clone()) {
                return;
            }
        }
        let (store, tenant) = (self.clone(), stored.tenant.clone());
        tokio::spawn(async move {
            // The time is only a hint. A failed write, for example on a full disk, must not fail
            // the call.
            if let Err(error) = store.write_use(&tenant, &id, now_micros).await {
                tracing::debug!(%error, token_id = %id, "the last use of a token was not recorded");
            }
            store.noting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
    }

    /// Takes the tenant's turn to write, because no caller waits for it.
    async fn write_use(&self, tenant: &str, id: &TokenId, now_micros: i64) -> Result<(), Error> {
        let mut write = self.database.write(Asker::Tenant(tenant), Rows::Tenant(tenant)).await?;
        let query = write.query("UPDATE tokens SET last_used_micros = $1 WHERE id = $2");
        query.bind(now_micros).bind(id.as_str()).execute().await?;
        write.commit().await
    }
}
