//! Where committed blobs lie: a directory, or an S3-compatible store.

mod local;
mod remote;

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, future::BoxFuture};
use object_store::ObjectStore;

use crate::{Digest, Error, TenantId, abort::Abort};

pub(crate) use local::{LocalStore, remove_if_there};
use remote::RemoteStore;

/// A blob's bytes in pieces.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;

/// Bytes of a piece read from local disk.
pub(crate) const READ_CHUNK_BYTES: usize = 1 << 20;

/// Where committed blobs go.
#[derive(Clone, Debug)]
pub enum StoreOptions {
    /// A directory on local disk; cheapest on the same file system as the staging directory.
    Local(PathBuf),
    /// A bucket of an S3-compatible store.
    S3(S3Options),
}

/// How to reach a bucket.
#[derive(Clone)]
pub struct S3Options {
    /// Address of the service; that of AWS where absent.
    pub endpoint: Option<String>,
    /// The bucket, which must exist.
    pub bucket: String,
    /// The bucket's region.
    pub region: String,
    /// Path in the bucket that all objects go under.
    pub prefix: String,
    /// Access key; from the environment, or the machine's role, where absent.
    pub access_key_id: Option<String>,
    /// Secret that goes with the access key.
    pub secret_access_key: Option<String>,
    /// Allow plain HTTP: for a service on the same machine.
    pub allow_http: bool,
}

impl std::fmt::Debug for S3Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the credentials.
        out.debug_struct("S3Options")
            .field("endpoint", &self.endpoint)
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// A committed blob's place, as an object name. Made of checked names only.
pub(crate) fn object_name(tenant: &TenantId, digest: &Digest) -> String {
    let hex = digest.hex();
    format!("{tenant}/{}/{hex}", &hex[..2])
}

/// The other way round: tenant and hash of an object name, if it is one of ours.
pub(crate) fn parse_object_name(name: &str) -> Option<(TenantId, [u8; 32])> {
    let mut parts = name.split('/');
    let (tenant, short, hex) = (parts.next()?, parts.next()?, parts.next()?);
    let hash = blake3::Hash::from_hex(hex).ok()?;
    (parts.next().is_none() && hex.starts_with(short)).then_some(())?;
    Some((TenantId::new(tenant).ok()?, *hash.as_bytes()))
}

/// What an abort has left on its way into the store. It ends when nothing is on its way any more, and may leave an
/// object of the blob's name. Where it is dropped instead, such an object may still appear later.
pub(crate) type Leftover = BoxFuture<'static, ()>;

/// The store of committed blobs.
#[derive(Debug)]
pub(crate) enum Store {
    Local(Arc<LocalStore>),
    Remote(RemoteStore),
}

impl Store {
    pub(crate) async fn open(options: &StoreOptions) -> Result<Self, Error> {
        match options {
            StoreOptions::Local(root) => Ok(Self::Local(Arc::new(LocalStore::open(root.clone()).await?))),
            StoreOptions::S3(options) => Ok(Self::Remote(RemoteStore::open(options)?)),
        }
    }

    /// Makes a staged and synced file a committed blob, whole or not at all. Replaces what had the name.
    /// The staged file stays; its owner drops it when the catalogue knows the blob. An abort ends the wait for a
    /// bucket, and what is still on its way is returned. The caller has to look at `abort` afterwards: if it has
    /// fired, there may be nothing of that name.
    pub(crate) async fn commit(&self, staged: &Path, name: &str, abort: &Abort) -> Result<Option<Leftover>, Error> {
        match self {
            Self::Local(local) => {
                let (local, staged, name) = (local.clone(), staged.to_owned(), name.to_owned());
                tokio::task::spawn_blocking(move || local.commit(&staged, &name)).await??;
                Ok(None)
            }
            Self::Remote(remote) => remote.commit(staged, name, abort).await,
        }
    }

    /// The bytes of a blob from an offset on; `None` if nothing has the name.
    pub(crate) async fn read(&self, name: &str, offset: u64, size: u64) -> Result<Option<ByteStream>, Error> {
        match self {
            Self::Local(local) => local.read(name, offset).await,
            Self::Remote(remote) => remote.read(name, offset, size).await,
        }
    }

    /// Removes a blob. That it is not there is no error.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        match self {
            Self::Local(local) => local.remove(name).await,
            Self::Remote(remote) => remote.remove(name).await,
        }
    }

    /// Names of all objects that are old enough to be orphans if the catalogue does not know them.
    pub(crate) async fn names(&self, orphan_age: Duration) -> Result<Vec<String>, Error> {
        match self {
            // Nobody else writes into the directory.
            Self::Local(local) => {
                let local = local.clone();
                tokio::task::spawn_blocking(move || local.names()).await?
            }
            Self::Remote(remote) => remote.names(orphan_age).await,
        }
    }
}

/// An S3 client.
fn connect(options: &S3Options) -> Result<Arc<dyn ObjectStore>, Error> {
    // An error only says that the process has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = object_store::aws::AmazonS3Builder::from_env()
        .with_bucket_name(&options.bucket)
        .with_region(&options.region)
        .with_allow_http(options.allow_http);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let (Some(id), Some(secret)) = (&options.access_key_id, &options.secret_access_key) {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
    }
    Ok(Arc::new(builder.build()?))
}
