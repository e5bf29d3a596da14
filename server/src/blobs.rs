//! The store of blobs that the settings name, and the claim of the database on it.

use cloakwork_keystore::{ClaimError, S3Options, StoreOptions};
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
    /// The store or the database failed.
    #[error("{store}: {source}")]
    Failed {
        /// The setting and its value.
        store: String,
        /// The failure.
        source: cloakwork_keystore::Error,
    },
    /// The operating system has no randomness.
    #[error("no randomness: {0}")]
    Random(#[from] getrandom::Error),
}

/// Claims the store for the database. From then on, servers of other databases refuse the store.
pub(crate) async fn claim(storage: &Storage, database: &Database) -> Result<(), BlobsError> {
    let claimed = cloakwork_keystore::claim(&options(storage), database, random()?).await;
    claimed.map_err(failed(storage))
}

/// Claims the store whatever other database it belonged to.
pub(crate) async fn adopt(storage: &Storage, database: &Database) -> Result<(), BlobsError> {
    let adopted = cloakwork_keystore::adopt(&options(storage), database, random()?).await;
    adopted.map_err(failed(storage))
}

/// Refuses a store of another database. A server that waits for its database checks this, so that
/// the mistake does not show at a takeover only. A store that does not answer is not refused.
pub(crate) async fn check(storage: &Storage, database: &Database) -> Result<(), BlobsError> {
    match cloakwork_keystore::check(&options(storage), database).await.map_err(failed(storage)) {
        Err(BlobsError::Failed { store, source }) => {
            tracing::warn!(store, error = %source, "the store of blobs does not answer");
            Ok(())
        }
        checked => checked,
    }
}

/// The store of the settings.
pub(crate) fn options(storage: &Storage) -> StoreOptions {
    match storage.blobs {
        BlobStore::Local => StoreOptions::Local(storage.directory.join(DIRECTORY)),
        BlobStore::S3 => StoreOptions::S3(S3Options {
            endpoint: Some(storage.s3_endpoint.clone()).filter(|endpoint| !endpoint.is_empty()),
            bucket: storage.s3_bucket.clone(),
            region: storage.s3_region.clone(),
            prefix: String::new(),
            credentials_file: storage.s3_credentials_file.clone(),
            allow_http: storage.s3_endpoint.starts_with("http://"),
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
        source => BlobsError::Foreign { store: store.clone(), source },
    }
}

fn random() -> Result<[u8; 16], getrandom::Error> {
    let mut number = [0; 16];
    getrandom::fill(&mut number)?;
    Ok(number)
}
