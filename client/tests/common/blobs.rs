//! A blob service that stores blobs in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use cloakwork_client::{Digest, proto as v1};
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};
use v1::blob_service_server::BlobService;

type Answer<T> = Result<Response<T>, Status>;

/// Clones share the store, like restarts of one server.
#[derive(Clone, Default)]
pub struct Blobs(Arc<Mutex<Store>>);

#[derive(Default)]
pub struct Store {
    /// Uploads by name: the expected digest, the bytes received, and whether the upload is
    /// complete.
    uploads: HashMap<String, (Digest, Vec<u8>, bool)>,
    /// Total bytes received, with repeated bytes counted each time.
    pub received: u64,
    /// Calls of Write, and of BeginUpload.
    pub writes: u32,
    pub begins: u32,
    /// Number of GetUpload calls that forget the upload.
    pub forget: u32,
    /// Commit in steps of this many bytes. A broken stream loses the bytes since the last step.
    pub granule: usize,
}

impl Blobs {
    pub fn with_granule(granule: usize) -> Self {
        let blobs = Self::default();
        blobs.store().granule = granule;
        blobs
    }

    pub fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.0.lock().unwrap()
    }

    /// The bytes of a committed blob.
    pub fn bytes(&self, digest: Digest) -> Option<Vec<u8>> {
        let store = self.store();
        store.uploads.values().find(|(wanted, _, done)| *done && *wanted == digest).map(|(_, bytes, _)| bytes.clone())
    }
}

impl Store {
    fn describe(&self, name: &str) -> Result<v1::Upload, Status> {
        let (digest, bytes, complete) = self.uploads.get(name).ok_or_else(|| Status::not_found("no such upload"))?;
        Ok(v1::Upload {
            name: name.into(),
            digest: Some(v1::Digest { blake3: digest.blake3.to_vec().into(), size_bytes: digest.size_bytes }),
            committed_bytes: bytes.len() as u64,
            chunk_bytes: 4096,
            expire_time: None,
            complete: *complete,
        })
    }
}

#[tonic::async_trait]
impl BlobService for Blobs {
    async fn find_missing(&self, request: Request<v1::FindMissingRequest>) -> Answer<v1::FindMissingResponse> {
        let has = |digest: &v1::Digest| {
            let store = self.store();
            store.uploads.values().any(|(wanted, _, done)| *done && wanted.blake3 == digest.blake3[..])
        };
        let missing = request.into_inner().digests.into_iter().filter(|digest| !has(digest)).collect();
        Ok(Response::new(v1::FindMissingResponse { missing }))
    }

    async fn begin_upload(&self, request: Request<v1::BeginUploadRequest>) -> Answer<v1::BeginUploadResponse> {
        let digest = request.into_inner().digest.expect("a digest");
        let digest = Digest { blake3: digest.blake3[..].try_into().unwrap(), size_bytes: digest.size_bytes };
        let name = format!("tenants/t/uploads/{digest}");
        let mut store = self.store();
        store.begins += 1;
        store.uploads.entry(name.clone()).or_insert((digest, Vec::new(), false));
        Ok(Response::new(v1::BeginUploadResponse { upload: Some(store.describe(&name)?) }))
    }

    async fn write(&self, request: Request<Streaming<v1::WriteRequest>>) -> Answer<v1::WriteResponse> {
        let mut messages = request.into_inner();
        let mut name = String::new();
        let mut pending: Vec<u8> = Vec::new();
        self.store().writes += 1;
        while let Some(message) = messages.next().await {
            let message = message?;
            if name.is_empty() {
                name.clone_from(&message.upload);
            }
            let mut store = self.store();
            store.received += message.data.len() as u64;
            let granule = store.granule;
            let (digest, bytes, complete) =
                store.uploads.get_mut(&name).ok_or_else(|| Status::not_found("no such upload"))?;
            if message.offset_bytes != (bytes.len() + pending.len()) as u64 {
                return Err(Status::out_of_range("not the next byte"));
            }
            pending.extend_from_slice(&message.data);
            if pending.len() >= granule || message.finish {
                bytes.append(&mut pending);
            }
            if message.finish {
                assert_eq!(Digest::of(bytes), *digest, "the bytes are those that were announced");
                *complete = true;
                let upload = store.describe(&name)?;
                return Ok(Response::new(v1::WriteResponse { upload: Some(upload) }));
            }
        }
        Ok(Response::new(v1::WriteResponse { upload: Some(self.store().describe(&name)?) }))
    }

    async fn get_upload(&self, request: Request<v1::GetUploadRequest>) -> Answer<v1::GetUploadResponse> {
        let name = request.into_inner().name;
        let mut store = self.store();
        if store.forget > 0 {
            store.forget -= 1;
            store.uploads.remove(&name);
        }
        Ok(Response::new(v1::GetUploadResponse { upload: Some(store.describe(&name)?) }))
    }

    async fn list_uploads(&self, request: Request<v1::ListUploadsRequest>) -> Answer<v1::ListUploadsResponse> {
        // One upload to a page, so that a client has to fetch several pages.
        let store = self.store();
        let mut open: Vec<&String> =
            store.uploads.iter().filter(|(_, (.., done))| !done).map(|(name, _)| name).collect();
        open.sort();
        let after = request.into_inner().page_token;
        let mut behind = open.into_iter().filter(|name| **name > after);
        let uploads = behind.next().map(|name| store.describe(name)).transpose()?;
        let more = behind.next().is_some();
        let next_page_token = uploads.iter().filter(|_| more).map(|upload| upload.name.clone()).collect();
        Ok(Response::new(v1::ListUploadsResponse { uploads: uploads.into_iter().collect(), next_page_token }))
    }

    async fn abort_upload(&self, request: Request<v1::AbortUploadRequest>) -> Answer<v1::AbortUploadResponse> {
        let name = request.into_inner().name;
        self.store().uploads.retain(|known, (.., done)| *known != name || *done);
        Ok(Response::new(v1::AbortUploadResponse {}))
    }

    type ReadStream = tokio_stream::Empty<Result<v1::ReadResponse, Status>>;

    async fn read(&self, _: Request<v1::ReadRequest>) -> Answer<Self::ReadStream> {
        Err(Status::unimplemented("no test reads blobs"))
    }
}
