//! Blobs in an S3-compatible store.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::BytesMut;
use cloakwork_clock::Clock;
use futures_util::{
    FutureExt, StreamExt, TryStreamExt,
    future::{BoxFuture, ready},
    stream::BoxStream,
};
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, WriteMultipart, aws::AmazonS3,
    path::Path as ObjectPath, signer::Signer,
};
use reqwest::Method;
use tokio::io::AsyncReadExt;

use super::{ByteStream, Leftover, MARKER, MARKER_BYTES_MAX, S3Options, connect};
use crate::{Error, abort::Abort};

/// A bucket. An object appears in it only when its upload is complete.
#[derive(Debug)]
pub(crate) struct RemoteStore {
    objects: Arc<AmazonS3>,
    prefix: ObjectPath,
    clock: Clock,
}

impl RemoteStore {
    pub(crate) fn open(options: &S3Options) -> Result<Self, Error> {
        let prefix = ObjectPath::from(options.prefix.as_str());
        Ok(Self { objects: connect(options)?, prefix, clock: options.clock.clone() })
    }

    /// Sends the blob in parts, so that memory use does not grow with the blob. An abort ends the
    /// wait for the bucket at any time. A request in flight is then part of the return value. If it
    /// were cancelled, the bucket could still execute it at an unknown time.
    pub(crate) async fn commit(&self, staged: &Path, name: &str, abort: &Abort) -> Result<Option<Leftover>, Error> {
        let mut file = tokio::fs::File::open(staged).await?;
        let (objects, path) = (self.objects.clone(), self.path(name));
        if file.metadata().await?.len() <= PART_BYTES as u64 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).await?;
            let put = async move { objects.put(&path, bytes.into()).await };
            return match unless_aborted(abort, put.boxed()).await {
                Ok(put) => Ok(put.map(|_| None)?),
                Err(put) => Ok(Some(put.map(drop).boxed())),
            };
        }
        let created = async move { objects.put_multipart(&path).await };
        let upload = match unless_aborted(abort, created.boxed()).await {
            Ok(upload) => upload?,
            Err(created) => {
                let name = name.to_owned();
                let end = async move {
                    if let Ok(upload) = created.await {
                        give_up(WriteMultipart::new(upload), &name).await;
                    }
                };
                return Ok(Some(end.boxed()));
            }
        };
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let sent = tokio::select! {
            biased;
            () = abort.fired() => None,
            sent = send(&mut file, &mut parts) => Some(sent),
        };
        match sent {
            Some(Ok(())) => match unless_aborted(abort, parts.finish().boxed()).await {
                Ok(finished) => Ok(finished.map(|_| None)?),
                Err(finish) => Ok(Some(finish.map(drop).boxed())),
            },
            Some(Err(error)) => {
                give_up(parts, name).await;
                Err(error)
            }
            None => {
                let name = name.to_owned();
                Ok(Some(async move { give_up(parts, &name).await }.boxed()))
            }
        }
    }

    pub(crate) async fn read(&self, name: &str, offset: u64, size: u64) -> Result<Option<ByteStream>, Error> {
        if offset >= size {
            return Ok(Some(Box::pin(futures_util::stream::empty())));
        }
        let options = GetOptions { range: Some(GetRange::Offset(offset)), ..GetOptions::default() };
        match self.objects.get_opts(&self.path(name), options).await {
            Ok(found) => Ok(Some(Box::pin(found.into_stream().map_err(Error::from)))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// None if the clock of this machine is wrong. The URL would have its time.
    pub(crate) async fn url(&self, name: &str, valid: Duration) -> Result<Option<String>, Error> {
        if self.clock.moved_micros() != 0 {
            return Ok(None);
        }
        Ok(Some(self.objects.signed_url(Method::GET, &self.path(name), valid).await?.into()))
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        match self.objects.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn has(&self, name: &str) -> Result<bool, Error> {
        match self.objects.head(&self.path(name)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn marker(&self) -> Result<Option<String>, Error> {
        let found = match self.objects.get(&self.path(MARKER)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        if found.meta.size > MARKER_BYTES_MAX {
            return Ok(Some(String::new()));
        }
        Ok(Some(String::from_utf8_lossy(&found.bytes().await?).into_owned()))
    }

    pub(crate) async fn place_marker(&self, text: &str, only_new: bool) -> Result<bool, Error> {
        let (path, bytes) = (self.path(MARKER), text.to_owned().into_bytes());
        if only_new {
            match self.objects.put_opts(&path, bytes.clone().into(), PutMode::Create.into()).await {
                Ok(_) => return Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => return Ok(false),
                // A store without conditional writes. Its marker protects against all but two first
                // starts at the same moment.
                Err(object_store::Error::NotImplemented { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.objects.put(&path, bytes.into()).await?;
        Ok(true)
    }

    pub(crate) fn names(&self, orphaned_micros: i64) -> BoxStream<'static, Result<String, Error>> {
        let prefix = self.prefix.clone();
        let name = move |object: ObjectMeta| {
            // A server may be about to catalogue a young object.
            let is_old = object.last_modified.timestamp_micros() <= orphaned_micros;
            let rest = object.location.prefix_match(&prefix).filter(|_| is_old)?;
            let name = rest.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            (name != MARKER).then_some(name)
        };
        let objects = self.objects.list(Some(&self.prefix)).map_err(Error::from);
        objects.try_filter_map(move |object| ready(Ok(name(object)))).boxed()
    }

    fn path(&self, name: &str) -> ObjectPath {
        match self.prefix.as_ref() {
            "" => ObjectPath::from(name),
            prefix => ObjectPath::from(format!("{prefix}/{name}")),
        }
    }
}

/// Waits for a request to the bucket. An abort ends the wait and returns the request.
async fn unless_aborted<T>(abort: &Abort, mut request: BoxFuture<'static, T>) -> Result<T, BoxFuture<'static, T>> {
    tokio::select! {
        biased;
        () = abort.fired() => Err(request),
        done = &mut request => Ok(done),
    }
}

/// Aborts a multipart upload, best effort. The store also drops parts of abandoned uploads by its
/// own rules.
async fn give_up(parts: WriteMultipart, name: &str) {
    if let Err(error) = parts.abort().await {
        tracing::warn!(name, %error, "parts of an aborted upload may stay in the bucket");
    }
}

/// Sends a whole file, and waits for all parts but the last.
async fn send(file: &mut tokio::fs::File, parts: &mut WriteMultipart) -> Result<(), Error> {
    loop {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        if file.read_buf(&mut piece).await? == 0 {
            return Ok(parts.wait_for_capacity(0).await?);
        }
        parts.wait_for_capacity(PARTS_IN_FLIGHT).await?;
        parts.put(piece.freeze());
    }
}

/// Size in bytes of a part. S3 accepts at most 10,000 parts, so blobs may have 78 GiB.
const PART_BYTES: usize = 8 << 20;

/// Size in bytes of a read from the staged file.
const PIECE_BYTES: usize = 1 << 20;

/// Maximum number of parts in flight.
const PARTS_IN_FLIGHT: usize = 4;
