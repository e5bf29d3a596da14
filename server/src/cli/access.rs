//! The commands `tenant` and `token`. Both work directly on the database, with or without a running
//! server.

use std::{
    future::Future,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Subcommand;
use cloakwork_clock::Clock;

use super::place::{Missing, Place};
use crate::{
    auth::{Scopes, StoreError, TokenId, TokenStore},
    jobs::timestamp,
    tenant::Tenant,
};

#[derive(Debug, Subcommand)]
pub(super) enum TenantCommand {
    /// Create a tenant.
    Create {
        /// Name of the tenant: 1 to 63 characters of a-z, 0-9 and '-'.
        #[arg(value_parser = tenant)]
        name: Tenant,
        /// Shard of a database on a server; by default, the shard with the fewest tenants.
        #[arg(long, value_name = "NUMBER")]
        shard: Option<i32>,
        #[command(flatten)]
        place: Place,
    },
    /// Move a tenant to another shard of a database on a server.
    ///
    /// The owner of the tenant's shard carries out the move once the tenant has neither unfinished
    /// jobs nor open uploads. The tenant's calls wait meanwhile. The command returns after the
    /// move. If the command is interrupted, the move still happens.
    Move {
        #[arg(value_parser = tenant)]
        name: Tenant,
        /// The tenant's next shard.
        #[arg(long, value_name = "NUMBER")]
        shard: i32,
        #[command(flatten)]
        place: Place,
    },
    /// List all tenants.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Revoke a tenant and all its tokens for good. The tenant's stored data stays.
    Revoke {
        #[arg(value_parser = tenant)]
        name: Tenant,
        #[command(flatten)]
        place: Place,
    },
    /// Revoke a tenant and delete all its keys, ciphertexts, programs, jobs and tokens.
    ///
    /// Unfinished jobs are cancelled. The running server deletes the data, which takes 10 to 20
    /// seconds, and longer for much data. The command returns when nothing is left. If the command
    /// is interrupted, the deletion goes on. Backups keep what they have.
    Delete {
        #[arg(value_parser = tenant)]
        name: Tenant,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Create a token and print it. The token is not stored and cannot be shown again.
    Create {
        /// Tenant that the token belongs to.
        #[arg(long, value_parser = tenant)]
        tenant: Tenant,
        /// Scopes of the token, separated by commas: jobs, keys, read, worker, admin. `admin` is
        /// for operators: `cloakwork admin`, and the console.
        #[arg(long, value_name = "SCOPES", default_value = "jobs,keys,read", value_parser = scopes)]
        scopes: Scopes,
        /// Days until the token expires; 0 for no expiry.
        #[arg(long, value_name = "DAYS", default_value_t = 90)]
        days: u32,
        /// Purpose of the token, shown by `token list`.
        #[arg(long, default_value = "")]
        note: String,
        #[command(flatten)]
        place: Place,
    },
    /// List tokens by their public part.
    List {
        /// List only the tokens of this tenant.
        #[arg(long, value_parser = tenant)]
        tenant: Option<Tenant>,
        #[command(flatten)]
        place: Place,
    },
    /// Revoke a token. A running server refuses it within seconds.
    Revoke {
        /// Public part of the token: the twelve digits after `cw_`.
        #[arg(value_parser = token_id)]
        id: TokenId,
        #[command(flatten)]
        place: Place,
    },
}

impl TenantCommand {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        match self {
            Self::Create { name, shard, place } => with_store(place, Missing::Made, async |store| {
                let shard = store.place(shard).await?;
                store.create_tenant(&name, shard).await.map(nothing)
            }),
            Self::Move { name, shard, place } => {
                with_store(place, Missing::Refused, async |store| move_to(&store, &name, shard).await)
            }
            Self::Revoke { name, place } => {
                with_store(place, Missing::Refused, async |store| store.revoke_tenant(&name).await.map(nothing))
            }
            Self::Delete { name, place } => {
                with_store(place, Missing::Refused, async |store| delete(&store, &name).await)
            }
            Self::List { place } => with_store(place, Missing::Refused, async |store| {
                let mut table = format!("{:<32} {:<20} {:<20} SHARD\n", "TENANT", "CREATED", "REVOKED");
                for row in store.tenants().await? {
                    let (created, revoked) = (time(Some(row.created_micros)), time(row.revoked_micros));
                    table += &format!("{:<32} {created:<20} {revoked:<20} {}\n", row.name, row.shard);
                }
                Ok(table)
            }),
        }
    }
}

impl TokenCommand {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        match self {
            Self::Create { tenant, scopes, days, note, place } => with_store(place, Missing::Refused, async |store| {
                let life = (days > 0).then(|| Duration::from_secs(u64::from(days) * 24 * 3600));
                let secret = store.create_token(&tenant, scopes, &note, life).await?;
                // The token exists already and is printed, even if standard error cannot be
                // written.
                let notice = format!(
                    "Created a token with the public part {}. Store it now: it cannot be shown again.\n",
                    secret.id()
                );
                let _ = io::stderr().write_all(notice.as_bytes());
                Ok(format!("{}\n", secret.reveal()))
            }),
            Self::Revoke { id, place } => {
                with_store(place, Missing::Refused, async |store| store.revoke_token(&id).await.map(nothing))
            }
            Self::List { tenant, place } => with_store(place, Missing::Refused, async |store| {
                let mut table = format!(
                    "{:<12} {:<24} {:<22} {:<20} {:<20} {:<20} {:<20} NOTE\n",
                    "TOKEN", "TENANT", "SCOPES", "CREATED", "EXPIRES", "REVOKED", "LAST USED"
                );
                for row in store.tokens(tenant.as_ref()).await? {
                    let [created, expires, revoked, used] =
                        [Some(row.created_micros), row.expires_micros, row.revoked_micros, row.last_used_micros]
                            .map(time);
                    table += &format!(
                        "{:<12} {:<24} {:<22} {created:<20} {expires:<20} {revoked:<20} {used:<20} {}\n",
                        row.id, row.tenant, row.scopes, row.note
                    );
                }
                Ok(table)
            }),
        }
    }
}

/// Time between two looks at the progress of a deletion.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Number of looks after which the command says what it waits for.
const SILENT_LOOKS: u32 = 100;

/// Asks for the deletion of a tenant, and waits for its end.
async fn delete(store: &TokenStore, tenant: &Tenant) -> Result<String, StoreError> {
    store.delete_tenant(tenant).await?;
    let mut looks = 0;
    while store.has_tenant(tenant).await? {
        looks += 1;
        if looks == SILENT_LOOKS {
            let notice =
                "Waiting for a running server to delete the data. The deletion goes on without this command.\n";
            let _ = io::stderr().write_all(notice.as_bytes());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(format!("Tenant {tenant} is deleted, with everything that it had.\n"))
}

/// Asks for the move of a tenant, and waits for its end.
async fn move_to(store: &TokenStore, tenant: &Tenant, shard: i32) -> Result<String, StoreError> {
    store.want_shard(tenant, shard).await?;
    let mut looks = 0;
    while store.shard_of(tenant).await? != shard {
        looks += 1;
        if looks == SILENT_LOOKS {
            let notice = "Waiting until the tenant has neither unfinished jobs nor open uploads, and for the server that owns \
                          its shard. The move happens without this command too.\n";
            let _ = io::stderr().write_all(notice.as_bytes());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(format!("Tenant {tenant} is in shard {shard}.\n"))
}

/// Runs `work` on the tenants and tokens of the database, and prints the text that `work` returns.
fn with_store<F>(place: Place, missing: Missing, work: impl FnOnce(TokenStore) -> F) -> Result<(), ExitCode>
where
    F: Future<Output = Result<String, StoreError>>,
{
    place.with_database(missing, |database| work(TokenStore::new(database, Clock::system())))
}

/// The output of a command that prints nothing on success.
fn nothing((): ()) -> String {
    String::new()
}

/// Formats a time as `2026-01-31T12:00:00Z`, or `-` for none.
fn time(micros: Option<i64>) -> String {
    let Some(micros) = micros.filter(|micros| *micros >= 0) else {
        return "-".to_owned();
    };
    timestamp(micros - micros % 1_000_000).to_string()
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::new(text).map_err(|error| error.message().to_owned())
}

fn scopes(text: &str) -> Result<Scopes, String> {
    Scopes::parse(text)
        .map_err(|unknown| format!("unknown scope '{unknown}': must be jobs, keys, read, worker or admin"))
}

fn token_id(text: &str) -> Result<TokenId, String> {
    TokenId::parse(text).ok_or_else(|| "must be the twelve digits after `cw_`".to_owned())
}
