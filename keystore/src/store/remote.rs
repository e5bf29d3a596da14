//! Blobs in an S3-compatible store.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures_util::{StreamExt, TryStreamExt};
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, WriteMultipart, path::Path as ObjectPath};
use tokio::io::AsyncReadExt;

use super::{S3Options, connect};
use crate::{Error, read::ByteStream};

/// A bucket. An object appears in it when its upload is complete, and not before.
#[derive(Debug)]
pub(crate) struct RemoteStore {
    objects: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
}

impl RemoteStore {
    pub(crate) fn open(options: &S3Options) -> Result<Self, Error> {
        Ok(Self { objects: connect(options)?, prefix: ObjectPath::from(options.prefix.as_str()) })
    }

    /// In parts, so that memory does not grow with the blob.
    pub(crate) async fn commit(&self, staged: &Path, name: &str) -> Result<(), Error> {
        let mut file = tokio::fs::File::open(staged).await?;
        let path = self.path(name);
        if file.metadata().await?.len() <= PART_BYTES as u64 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).await?;
            self.objects.put(&path, bytes.into()).await?;
            return Ok(());
        }
        let mut parts = WriteMultipart::new_with_chunk_size(self.objects.put_multipart(&path).await?, PART_BYTES);
        loop {
            let mut piece = BytesMut::with_capacity(PIECE_BYTES);
            match file.read_buf(&mut piece).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    // Best effort: the store drops parts of abandoned uploads by its own rules, too.
                    let _ = parts.abort().await;
                    return Err(error.into());
                }
            }
            if let Err(error) = parts.wait_for_capacity(PARTS_IN_FLIGHT).await {
                let _ = parts.abort().await;
                return Err(error.into());
            }
            parts.put(piece.freeze());
        }
        parts.finish().await?;
        Ok(())
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

    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        match self.objects.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn names(&self, orphan_age: Duration) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut objects = self.objects.list(Some(&self.prefix));
        while let Some(object) = objects.next().await.transpose()? {
            // Another replica may be about to catalogue a young one.
            let age = std::time::SystemTime::now().duration_since(object.last_modified.into()).unwrap_or_default();
            if let Some(rest) = object.location.prefix_match(&self.prefix).filter(|_| age >= orphan_age) {
                names.push(rest.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"));
            }
        }
        Ok(names)
    }

    fn path(&self, name: &str) -> ObjectPath {
        match self.prefix.as_ref() {
            "" => ObjectPath::from(name),
            prefix => ObjectPath::from(format!("{prefix}/{name}")),
        }
    }
}

/// Bytes of a part. S3 takes at most 10,000 of them, so this bears blobs of 80 GiB.
const PART_BYTES: usize = 8 << 20;

const PIECE_BYTES: usize = 1 << 20;

const PARTS_IN_FLIGHT: usize = 4;
