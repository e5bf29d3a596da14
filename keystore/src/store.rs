//! Storage of committed blobs: a directory, or an S3-compatible store.

mod credentials;
mod local;
mod object;
mod remote;
mod signing;

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_clock::Clock;
use futures_util::{
    Stream, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use object_store::aws::AmazonS3;

use crate::{Error, abort::Abort};

use credentials::CredentialsFile;
pub(crate) use local::{LocalStore, remove_if_there};
pub(crate) use object::Object;
use remote::RemoteStore;
use signing::Connector;

/// Bytes of a blob, in pieces.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;

/// Name of the object that says which database a store belongs to. No tenant's name has a dot.
const MARKER: &str = "marker.txt";

/// Maximum size in bytes of a marker.
const MARKER_BYTES_MAX: u64 = 1 << 10;

/// Size in bytes of a piece read from local disk.
pub(crate) const READ_CHUNK_BYTES: usize = 1 << 20;

/// Location of committed blobs.
#[derive(Clone, Debug)]
pub enum StoreOptions {
    /// A directory on local disk. Commits are cheapest on the file system of the staging directory.
    Local(PathBuf),
    /// A bucket of an S3-compatible store.
    S3(S3Options),
}

/// Access to a bucket.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// Address of the service; AWS if absent.
    pub endpoint: Option<String>,
    /// The bucket, which must exist.
    pub bucket: String,
    /// The bucket's region.
    pub region: String,
    /// Path in the bucket under which all objects lie.
    pub prefix: String,
    /// File with the credentials. If absent, the environment or the machine's role supplies them.
    pub credentials_file: Option<PathBuf>,
    /// Whether plain HTTP is allowed, for a service on the same machine.
    pub allow_http: bool,
    /// Its time is the time of the requests.
    pub clock: Clock,
}

/// Requests that an abort left in flight to the store. The future ends when none is in flight, and
/// an object of the blob's name may then exist. If the future is dropped instead, an object may
/// still appear later.
pub(crate) type Leftover = BoxFuture<'static, ()>;

/// Takes note of operations on the store.
pub trait StoreWatch: std::fmt::Debug + Send + Sync {
    /// An operation has ended after a time, and may have failed. A read ends with its first bytes.
    fn ended(&self, operation: &'static str, took: Duration, has_failed: bool);
}

/// The store of committed blobs.
#[derive(Debug)]
pub(crate) struct Store {
    place: Place,
    watch: Option<Arc<dyn StoreWatch>>,
}

#[derive(Debug)]
enum Place {
    Local(Arc<LocalStore>),
    Remote(RemoteStore),
}

impl Store {
    pub(crate) async fn open(options: &StoreOptions) -> Result<Self, Error> {
        let place = match options {
            StoreOptions::Local(root) => Place::Local(Arc::new(LocalStore::open(root.clone()).await?)),
            StoreOptions::S3(options) => Place::Remote(RemoteStore::open(options)?),
        };
        Ok(Self { place, watch: None })
    }

    /// The store with operations that `watch` takes note of.
    pub(crate) fn watched(self, watch: Option<Arc<dyn StoreWatch>>) -> Self {
        Self { watch, ..self }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self.place, Place::Local(_))
    }

    async fn timed<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        let result = work.await;
        if let Some(watch) = &self.watch {
            watch.ended(operation, began.elapsed(), result.is_err());
        }
        result
    }

    /// Commits a staged and fsynced file under a name, whole or not at all. An existing object of
    /// that name is replaced. The staged file stays; its owner removes it after the catalogue has
    /// the blob. An abort ends the wait for a bucket, and the requests in flight are returned. The
    /// caller must check `abort` afterwards: if it has fired, the object may be missing.
    pub(crate) async fn commit(&self, staged: &Path, name: &str, abort: &Abort) -> Result<Option<Leftover>, Error> {
        let commit = async {
            match &self.place {
                Place::Local(local) => {
                    let (local, staged, name) = (local.clone(), staged.to_owned(), name.to_owned());
                    tokio::task::spawn_blocking(move || local.commit(&staged, &name)).await??;
                    Ok(None)
                }
                Place::Remote(remote) => remote.commit(staged, name, abort).await,
            }
        };
        self.timed("commit", commit).await
    }

    /// Reads the bytes of a blob from an offset on; `None` if no object has the name.
    pub(crate) async fn read(&self, name: &str, offset: u64, size: u64) -> Result<Option<ByteStream>, Error> {
        let read = async {
            match &self.place {
                Place::Local(local) => local.read(name, offset).await,
                Place::Remote(remote) => remote.read(name, offset, size).await,
            }
        };
        self.timed("read", read).await
    }

    /// A URL at which anyone can read the object for `valid`, if the store can make one.
    pub(crate) async fn url(&self, name: &str, valid: Duration) -> Result<Option<String>, Error> {
        match &self.place {
            Place::Local(_) => Ok(None),
            Place::Remote(remote) => remote.url(name, valid).await,
        }
    }

    /// Removes a blob. A missing object is not an error.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        let remove = async {
            match &self.place {
                Place::Local(local) => local.remove(name).await,
                Place::Remote(remote) => remote.remove(name).await,
            }
        };
        self.timed("remove", remove).await
    }

    /// Whether an object has the name.
    pub(crate) async fn has(&self, name: &str) -> Result<bool, Error> {
        match &self.place {
            Place::Local(local) => local.has(name).await,
            Place::Remote(remote) => remote.has(name).await,
        }
    }

    /// The text of the store's marker, if the store has one.
    pub(crate) async fn marker(&self) -> Result<Option<String>, Error> {
        match &self.place {
            Place::Local(local) => local.marker().await,
            Place::Remote(remote) => remote.marker().await,
        }
    }

    /// Writes the store's marker. Returns false if `only_new` is set and another server has written
    /// one meanwhile.
    pub(crate) async fn place_marker(&self, text: &str, only_new: bool) -> Result<bool, Error> {
        match &self.place {
            // No other server writes into the directory.
            Place::Local(local) => {
                let (local, text) = (local.clone(), text.to_owned());
                tokio::task::spawn_blocking(move || local.place_marker(&text)).await??;
                Ok(true)
            }
            Place::Remote(remote) => remote.place_marker(text, only_new).await,
        }
    }

    /// Names of all objects that are old enough to be orphans if the catalogue does not know them:
    /// those that were written by `orphaned_micros`. The age of a file does not matter.
    pub(crate) async fn names(&self, orphaned_micros: i64) -> Result<BoxStream<'static, Result<String, Error>>, Error> {
        match &self.place {
            Place::Local(local) => {
                let local = local.clone();
                let names = tokio::task::spawn_blocking(move || local.names()).await??;
                Ok(stream::iter(names).map(Ok).boxed())
            }
            Place::Remote(remote) => Ok(remote.names(orphaned_micros)),
        }
    }
}

/// Makes an S3 client.
fn connect(options: &S3Options) -> Result<Arc<AmazonS3>, Error> {
    // An error means only that the process already has a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = object_store::aws::AmazonS3Builder::from_env()
        .with_bucket_name(&options.bucket)
        .with_region(&options.region)
        .with_allow_http(options.allow_http);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(path) = &options.credentials_file {
        let file = CredentialsFile::open(path).map_err(|problem| Error::failed(format!("credentials: {problem}")))?;
        builder = builder.with_credentials(Arc::new(file));
    }
    let connector = Connector::new(options.clock.clone());
    let store = builder.with_http_connector(connector.clone()).build()?;
    connector.take_credentials(&store);
    Ok(Arc::new(store))
}
