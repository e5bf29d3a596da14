//! The store of blobs that the settings name, and the claim of the database on it.

use std::time::Duration;

use cloakwork_clock::Clock;
use cloakwork_keystore::{ClaimError, Error, S3Options, StoreOptions};
use cloakwork_storage::Database;

use crate::config::{BlobStore, Storage};

/// Subdirectory of the data directory with the blobs of a local store.
pub(crate) const DIRECTORY: &str = "blobs";

/// Why the store of blobs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BlobsError {
    /// The store and the database do not belong together.
    #[error(
        "{store}: {source}. Name the store of this database. If this is the right one, compare both with `cloakwork-server \
         reconcile`, and then run `cloakwork-server reconcile --claim`"
    )]
    Foreign {
        /// The setting and its value.
        store: String,
        /// The difference.
        source: ClaimError,
    },
    /// The store failed.
    #[error("{store}: {source}")]
    Failed {
        /// The setting and its value.
        store: String,
        /// The failure.
        source: cloakwork_keystore::Error,
    },
    /// The database failed.
    #[error("the database: {0}")]
    Database(cloakwork_storage::Error),
    /// The operating system has no randomness.
    #[error("no randomness: {0}")]
    Random(#[from] getrandom::Error),
}

/// Claims the store for the database. From then on, servers of other databases refuse the store.
/// If the database has claimed a store before, the store need not answer. So a server takes the
/// database over while the store is away.
pub(crate) async fn claim(storage: &Storage, database: &Database, clock: &Clock) -> Result<(), BlobsError> {
    let options = options(storage, clock);
    let is_known = cloakwork_keystore::has_claimed(database).await.map_err(failed(storage))?;
    let patience = if is_known { PATIENCE } else { FIRST_PATIENCE };
    match cloakwork_keystore::claim(&options, database, random()?, patience).await.map_err(failed(storage)) {
        Err(BlobsError::Failed { store, source: source @ Error::StoreAway { .. } }) if is_known => {
            tracing::error!(store, error = %source, "calls that need the store of blobs fail until it answers");
            Ok(())
        }
        claimed => claimed,
    }
}

/// Claims the store whatever other database it belonged to.
pub(crate) async fn adopt(storage: &Storage, database: &Database, clock: &Clock) -> Result<(), BlobsError> {
    let adopted = cloakwork_keystore::adopt(&options(storage, clock), database, random()?).await;
    adopted.map_err(failed(storage))
}

/// Refuses a store of another database. A server that waits for its database checks this, so that
/// the mistake does not show at a takeover only. A store that does not answer is not refused, in
/// contrast to one that refuses the credentials.
pub(crate) async fn check(storage: &Storage, database: &Database, clock: &Clock) -> Result<(), BlobsError> {
    let options = options(storage, clock);
    match cloakwork_keystore::check(&options, database, PATIENCE).await.map_err(failed(storage)) {
        Err(BlobsError::Failed { store, source: source @ Error::StoreAway { .. } }) => {
            tracing::error!(store, error = %source, "the store of blobs does not answer");
            Ok(())
        }
        Err(BlobsError::Database(error)) => {
            tracing::warn!(%error, "the store of blobs is not checked");
            Ok(())
        }
        checked => checked,
    }
}

/// Longest wait for an answer of a store that need not answer. A takeover waits for two answers.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest wait for an answer at the first start.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);

/// The store of the settings. The requests to it have the time of `clock`.
pub(crate) fn options(storage: &Storage, clock: &Clock) -> StoreOptions {
    match storage.blobs {
        BlobStore::Local => StoreOptions::Local(storage.directory.join(DIRECTORY)),
        BlobStore::S3 => StoreOptions::S3(S3Options {
            endpoint: Some(storage.s3_endpoint.clone()).filter(|endpoint| !endpoint.is_empty()),
            bucket: storage.s3_bucket.clone(),
            region: storage.s3_region.clone(),
            prefix: String::new(),
            credentials_file: storage.s3_credentials_file.clone(),
            allow_http: storage.s3_endpoint.starts_with("http://"),
            clock: clock.clone(),
        }),
    }
}

/// Adds the setting to an error.
pub(crate) fn failed(storage: &Storage) -> impl Fn(ClaimError) -> BlobsError {
    let store = match storage.blobs {
        BlobStore::Local => format!("storage.directory {}", storage.directory.display()),
        BlobStore::S3 => format!("storage.s3_bucket {}", storage.s3_bucket),
    };
    move |error| match error {
        ClaimError::Failed(source) => BlobsError::Failed { store: store.clone(), source },
        ClaimError::Database(source) => BlobsError::Database(source),
        source => BlobsError::Foreign { store: store.clone(), source },
    }
}

fn random() -> Result<[u8; 16], getrandom::Error> {
    let mut number = [0; 16];
    getrandom::fill(&mut number)?;
    Ok(number)
}
