//! The blob service: transfers of the bytes of keys and ciphertexts.

use std::{pin::Pin, sync::Arc};

use cloakwork_keystore::{Keystore, UploadId, UploadInfo};
use cloakwork_proto::v1::{
    AbortUploadRequest, AbortUploadResponse, BeginUploadRequest, BeginUploadResponse, FindMissingRequest,
    FindMissingResponse, GetUploadRequest, GetUploadResponse, ListUploadsRequest, ListUploadsResponse, ReadRequest,
    ReadResponse, Upload, WriteRequest, WriteResponse, blob_service_server::BlobService,
};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Transfers,
    intake::Arrived,
    transfer::{hand_on, next},
};
use crate::{
    caller::Caller,
    digest,
    error::{ApiError, FIELD_MISSING, INVALID_ARGUMENT, PAGE_TOKEN_INVALID, UPLOAD_OFFSET_MISMATCH},
    jobs::timestamp,
    limits::Limits,
    page,
    resource::{self, UploadName},
};

/// The blob service.
#[derive(Clone)]
pub struct Blobs {
    /// The key store, which keeps the blobs.
    pub keystore: Keystore,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Counters of sent and received bytes.
    pub transfers: Transfers,
}

#[tonic::async_trait]
impl BlobService for Blobs {
    type ReadStream = Pin<Box<dyn Stream<Item = Result<ReadResponse, Status>> + Send>>;

    async fn find_missing(
        &self,
        request: Request<FindMissingRequest>,
    ) -> Result<Response<FindMissingResponse>, Status> {
        let caller = Caller::of(&request)?;
        // The request is dropped here. In memory it is larger than the digests, and the call waits.
        let asked = digest::parse_all(request.into_inner().digests, "digests")?;
        let missing = self.keystore.find_missing(&caller.tenant, &asked).await.map_err(ApiError::from)?;
        Ok(Response::new(FindMissingResponse { missing: missing.iter().map(digest::to_proto).collect() }))
    }

    async fn begin_upload(
        &self,
        request: Request<BeginUploadRequest>,
    ) -> Result<Response<BeginUploadResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.get_ref();
        let request_id = resource::request_id(&request.request_id)?.into_bytes();
        let digest = digest::parse(request.digest.as_ref(), "digest")?;
        let upload = self.keystore.begin_upload(&caller.tenant, &request_id, &digest).await.map_err(ApiError::from)?;
        if upload.committed_bytes > 0 && !upload.complete {
            self.transfers.resumed();
        }
        Ok(Response::new(BeginUploadResponse { upload: Some(self.upload(caller.tenant.as_str(), &upload)) }))
    }

    async fn write(&self, request: Request<Streaming<WriteRequest>>) -> Result<Response<WriteResponse>, Status> {
        let caller = Caller::of(&request)?;
        let mut arrived = Arrived::of(&request);
        let mut messages = request.into_inner();
        let first = messages.message().await?.ok_or_else(|| FIELD_MISSING.error("the stream is empty"))?;
        let id = upload_id(&caller, &first.upload)?;
        let mut writer = self.keystore.append(&caller.tenant, &id, first.offset_bytes).await.map_err(ApiError::from)?;
        let receiving = self.transfers.receive();
        let mut offset = first.offset_bytes;
        let mut message = Some(first);
        // An aborted stream keeps the bytes that have arrived. The client resumes after them.
        let finished = loop {
            let WriteRequest { offset_bytes, data, finish, .. } = match message {
                Some(message) => message,
                None => break false,
            };
            if offset_bytes != offset {
                let error =
                    UPLOAD_OFFSET_MISMATCH.error(format!("data for byte {offset_bytes}: expected byte {offset}"));
                writer.pause().await.map_err(ApiError::from)?;
                return Err(error.with("committed_bytes", offset).into());
            }
            offset += data.len() as u64;
            receiving.bytes(data.len());
            hand_on(&mut writer, &mut arrived, data).await.map_err(|error| receiving.failed(&error))?;
            if finish {
                break true;
            }
            message = match next(&mut messages, &mut writer).await {
                Ok(message) => message,
                Err(broken) => {
                    writer.pause().await.map_err(ApiError::from)?;
                    return Err(broken);
                }
            };
        };
        let upload = if finished {
            if next(&mut messages, &mut writer).await?.is_some() {
                return Err(INVALID_ARGUMENT.error("messages follow the one that finishes the upload").into());
            }
            receiving.finished(writer.finish().await).map_err(ApiError::from)?;
            self.keystore.upload(&caller.tenant, &id).await.map_err(ApiError::from)?
        } else {
            writer.pause().await.map_err(ApiError::from)?;
            self.keystore.upload(&caller.tenant, &id).await.map_err(ApiError::from)?
        };
        Ok(Response::new(WriteResponse { upload: Some(self.upload(caller.tenant.as_str(), &upload)) }))
    }

    async fn get_upload(&self, request: Request<GetUploadRequest>) -> Result<Response<GetUploadResponse>, Status> {
        let caller = Caller::of(&request)?;
        let id = upload_id(&caller, &request.get_ref().name)?;
        let upload = self.keystore.upload(&caller.tenant, &id).await.map_err(ApiError::from)?;
        Ok(Response::new(GetUploadResponse { upload: Some(self.upload(caller.tenant.as_str(), &upload)) }))
    }

    async fn list_uploads(
        &self,
        request: Request<ListUploadsRequest>,
    ) -> Result<Response<ListUploadsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let ListUploadsRequest { page_size, page_token } = request.get_ref();
        let count = page::size(*page_size, self.limits.page_size)?;
        let listing = format!("tenants/{}/uploads", caller.tenant);
        let after = page::position(&listing, page_token)?.as_deref().map(position).transpose()?;
        let page = self.keystore.list_uploads(&caller.tenant, after.as_ref(), count).await.map_err(ApiError::from)?;
        let next = page.next.map(|upload| page::token(&listing, upload.as_str().as_bytes()));
        Ok(Response::new(ListUploadsResponse {
            uploads: page.uploads.iter().map(|upload| self.upload(caller.tenant.as_str(), upload)).collect(),
            next_page_token: next.unwrap_or_default(),
        }))
    }

    async fn abort_upload(
        &self,
        request: Request<AbortUploadRequest>,
    ) -> Result<Response<AbortUploadResponse>, Status> {
        let caller = Caller::of(&request)?;
        let id = upload_id(&caller, &request.get_ref().name)?;
        self.keystore.abort_upload(&caller.tenant, &id).await.map_err(ApiError::from)?;
        Ok(Response::new(AbortUploadResponse {}))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.get_ref();
        let digest = digest::parse(request.digest.as_ref(), "digest")?;
        let chunks = self.keystore.read(&caller.tenant, &digest, request.offset_bytes).await.map_err(ApiError::from)?;
        let transfers = self.transfers.clone();
        let messages = chunks.map(move |chunk| match chunk {
            Ok(data) => {
                transfers.sent(data.len());
                Ok(ReadResponse { data })
            }
            Err(error) => Err(ApiError::from(error).into()),
        });
        Ok(Response::new(Box::pin(messages)))
    }
}

impl Blobs {
    fn upload(&self, tenant: &str, upload: &UploadInfo) -> Upload {
        Upload {
            name: format!("tenants/{tenant}/uploads/{}", upload.id),
            digest: Some(digest::to_proto(&upload.digest)),
            committed_bytes: upload.committed_bytes,
            chunk_bytes: u32::try_from(self.limits.chunk_bytes).unwrap_or(u32::MAX),
            expire_time: Some(timestamp(upload.expires_micros)),
            complete: upload.complete,
        }
    }
}

fn upload_id(caller: &Caller, name: &str) -> Result<UploadId, ApiError> {
    let name = UploadName::parse_own(name, &caller.principal)?;
    Ok(UploadId::from_bytes(name.upload))
}

/// The position at which a page begins.
fn position(bytes: &[u8]) -> Result<UploadId, ApiError> {
    let id = std::str::from_utf8(bytes).ok().and_then(|id| UploadId::parse(id).ok());
    id.ok_or_else(|| PAGE_TOKEN_INVALID.error("page_token was not issued for this listing"))
}

#[cfg(test)]
mod tests;
