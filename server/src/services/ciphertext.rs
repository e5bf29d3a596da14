//! The ciphertext service: lists of ciphertexts that jobs read and write.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_clock::{Clock, unix_micros_after};
use cloakwork_keystore::{BlobInfo, Keystore};
use cloakwork_params::ckks::layout::CiphertextShape;
use cloakwork_proto::v1::{
    Ciphertext, CkksCiphertext, DeleteRequest, DeleteResponse, DescribeRequest, DescribeResponse, GetRequest,
    GetResponse, PutRequest, PutResponse, ciphertext_service_server::CiphertextService,
};
use cloakwork_scheduler::JobId;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Transfers, delivery,
    intake::Arrived,
    transfer::{hand_on, next},
};
use crate::{
    auth::Scope,
    caller::Caller,
    database, digest,
    dispatch::Dispatcher,
    edge::Held,
    error::{
        ApiError, CIPHERTEXT_NOT_FOUND, FIELD_MISSING, INVALID_ARGUMENT, JOB_NOT_FOUND, OUTPUT_EXPIRED,
        OUTPUT_NOT_READY,
    },
    jobs::Content,
    limits::Limits,
    resource::{CiphertextName, ListName, OutputName},
    store::{Done, Store},
};

/// The ciphertext service.
#[derive(Clone)]
pub struct Ciphertexts {
    /// The key store, which keeps the lists.
    pub keystore: Keystore,
    /// The dispatcher, for jobs and their outputs.
    pub dispatcher: Dispatcher,
    /// The store, which keeps small outputs of jobs.
    pub store: Store,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Counters of sent and received bytes.
    pub transfers: Transfers,
}

/// How long outputs are kept after they were fetched. The time allows a second fetch after a broken
/// connection.
const FETCHED_OUTPUT_KEEP: Duration = Duration::from_secs(600);

pub(super) type Chunks = Pin<Box<dyn Stream<Item = Result<GetResponse, Status>> + Send>>;

#[tonic::async_trait]
impl CiphertextService for Ciphertexts {
    type GetStream = Chunks;

    async fn put(&self, request: Request<Streaming<PutRequest>>) -> Result<Response<PutResponse>, Status> {
        let caller = Caller::of(&request)?;
        let mut arrived = Arrived::of(&request);
        let mut messages = request.into_inner();
        let first = messages.message().await?.ok_or_else(|| FIELD_MISSING.error("the stream is empty"))?;
        let digest = digest::parse(first.digest.as_ref(), "digest")?;
        let tenant = &caller.tenant;
        let upload = self.keystore.begin_upload_once(tenant, &digest).await.map_err(ApiError::from)?;
        if !upload.complete {
            // The client sends the whole list again, so the bytes of an interrupted call are
            // skipped.
            let mut skip = upload.committed_bytes;
            let mut writer =
                self.keystore.append(tenant, &upload.id, upload.committed_bytes).await.map_err(ApiError::from)?;
            let receiving = self.transfers.receive();
            if upload.committed_bytes > 0 {
                self.transfers.resumed();
            }
            let mut message = Some(first);
            while let Some(PutRequest { mut data, .. }) = message {
                let known = data.split_to(usize::try_from(skip).unwrap_or(usize::MAX).min(data.len()));
                skip -= known.len() as u64;
                receiving.bytes(data.len());
                hand_on(&mut writer, &mut arrived, data).await.map_err(|error| receiving.failed(&error))?;
                message = next(&mut messages, &mut writer).await?;
            }
            receiving.finished(writer.finish().await).map_err(ApiError::from)?;
        }
        let info = self.keystore.blob(tenant, &digest).await.map_err(ApiError::from)?;
        Ok(Response::new(PutResponse { ciphertext: Some(self.describe_blob(&caller, &info)) }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        let caller = Caller::of(&request)?;
        let held = request.extensions().get::<Arc<Held>>().cloned();
        let GetRequest { name, offset_bytes } = request.into_inner();
        let stream = match ListName::parse_own(&name, &caller.principal)? {
            ListName::Ciphertext(name) => {
                let info = self.find(&caller, &name).await?;
                self.blob(
                    &caller,
                    &Content { digest: name.digest, size_bytes: info.digest.size_bytes, bytes: None },
                    offset_bytes,
                )
                .await?
            }
            ListName::Output(name) => {
                let content = self.output(&caller, &name).await?;
                let stream = match &content.bytes {
                    Some(bytes) => self.inline(bytes.clone(), offset_bytes, held)?,
                    None => self.blob(&caller, &content, offset_bytes).await?,
                };
                let left_bytes = content.size_bytes.saturating_sub(offset_bytes);
                match caller.principal.scopes.contains(Scope::Jobs) {
                    true => self.note_fetch(&name, stream, left_bytes),
                    // A caller without the scope `jobs` may read results. Its read must not expire
                    // the results of callers that compute them.
                    false => stream,
                }
            }
        };
        Ok(Response::new(stream))
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<DeleteResponse>, Status> {
        let caller = Caller::of(&request)?;
        match ListName::parse_own(&request.get_ref().name, &caller.principal)? {
            ListName::Ciphertext(name) => {
                let info = self.find(&caller, &name).await?;
                self.keystore.delete(&caller.tenant, &info.digest).await.map_err(ApiError::from)?;
            }
            ListName::Output(name) => {
                self.output(&caller, &name).await?;
                let job = JobId(name.job.job.as_u128());
                let now_micros = self.clock.unix_micros();
                let tenant = caller.tenant.as_str();
                let done = self.store.done_with(tenant, job, name.index, Done::Deleted, now_micros).await;
                done.map_err(database::failed)?;
            }
        }
        Ok(Response::new(DeleteResponse {}))
    }

    async fn describe(&self, request: Request<DescribeRequest>) -> Result<Response<DescribeResponse>, Status> {
        let caller = Caller::of(&request)?;
        let name = request.into_inner().name;
        let info = match ListName::parse_own(&name, &caller.principal)? {
            ListName::Ciphertext(name) => self.find(&caller, &name).await?,
            ListName::Output(name) => {
                let content = self.output(&caller, &name).await?;
                match &content.bytes {
                    Some(bytes) => self.keystore.check(bytes).map_err(ApiError::from)?,
                    None => self.keystore.blob(&caller.tenant, &content.blob()).await.map_err(ApiError::from)?,
                }
            }
        };
        Ok(Response::new(DescribeResponse { ciphertext: Some(describe(name, &info)) }))
    }
}

impl Ciphertexts {
    async fn find(&self, caller: &Caller, name: &CiphertextName) -> Result<BlobInfo, ApiError> {
        let info = self.keystore.blob_named(&caller.tenant, &name.digest).await?;
        info.ok_or_else(|| CIPHERTEXT_NOT_FOUND.error(format!("{name} is not here")))
    }

    /// An output of a job that has succeeded.
    async fn output(&self, caller: &Caller, name: &OutputName) -> Result<Content, ApiError> {
        let job = JobId(name.job.job.as_u128());
        // The view of an ended job holds all its outputs in memory. This function therefore awaits
        // nothing after it has read the view.
        let is_deleted = self.store.is_deleted(caller.tenant.as_str(), job, name.index).await;
        let is_deleted = is_deleted.map_err(database::failed)?;
        let view = self.dispatcher.find(caller.tenant.as_str(), job).await?;
        let view = view.ok_or_else(|| JOB_NOT_FOUND.error(format!("there is no job for {name}")))?;
        let end = view.borrow().end.clone().filter(|end| end.error.is_none());
        let end = end.ok_or_else(|| OUTPUT_NOT_READY.error(format!("the job of {name} has not succeeded")))?;
        let (content, count) = (end.outputs.get(name.index as usize).cloned(), end.outputs.len());
        if count == 0 {
            return Err(OUTPUT_EXPIRED.error(format!("{name} has expired")));
        }
        if is_deleted {
            return Err(OUTPUT_EXPIRED.error(format!("{name} was deleted")));
        }
        content.ok_or_else(|| INVALID_ARGUMENT.error(format!("the job of {name} has {count} outputs")))
    }

    /// The chunks of an output that is stored with its job. `held` counts the whole output until
    /// the caller has read its last chunk, because the chunks share the output's memory.
    fn inline(&self, bytes: Bytes, offset: u64, held: Option<Arc<Held>>) -> Result<Chunks, ApiError> {
        let mut bytes = match held {
            Some(held) => held.count(bytes)?,
            None => bytes,
        };
        let offset = usize::try_from(offset).ok().filter(|offset| *offset <= bytes.len());
        let offset = offset.ok_or_else(|| {
            INVALID_ARGUMENT
                .error(format!("the offset lies beyond the end of the list, which has {} bytes", bytes.len()))
                .field("offset_bytes", "too large")
        })?;
        let mut rest = bytes.split_off(offset);
        let chunk = usize::try_from(self.limits.chunk_bytes).unwrap_or(usize::MAX).max(1);
        let mut chunks = Vec::with_capacity(rest.len() / chunk + 1);
        while !rest.is_empty() {
            chunks.push(rest.split_to(chunk.min(rest.len())));
        }
        let transfers = self.transfers.clone();
        Ok(Box::pin(tokio_stream::iter(chunks).map(move |data| {
            transfers.sent(data.len());
            Ok(GetResponse { data })
        })))
    }

    async fn blob(&self, caller: &Caller, content: &Content, offset: u64) -> Result<Chunks, ApiError> {
        let chunks = self.keystore.read(&caller.tenant, &content.blob(), offset).await?;
        let transfers = self.transfers.clone();
        Ok(Box::pin(chunks.map(move |chunk| match chunk {
            Ok(data) => {
                transfers.sent(data.len());
                Ok(GetResponse { data })
            }
            Err(error) => Err(ApiError::from(error).into()),
        })))
    }

    /// Records a fetch of an output once `chunks`, its last `left_bytes`, have been delivered. The
    /// outputs of a job expire `FETCHED_OUTPUT_KEEP` after the last of them was fetched.
    fn note_fetch(&self, name: &OutputName, chunks: Chunks, left_bytes: u64) -> Chunks {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let (tenant, job, place) = (name.job.tenant.clone(), JobId(name.job.job.as_u128()), name.index);
        delivery::then(chunks, left_bytes, async move {
            let expire_micros = unix_micros_after(clock.unix_micros(), FETCHED_OUTPUT_KEEP);
            if let Err(error) = store.done_with(tenant.as_str(), job, place, Done::Fetched, expire_micros).await {
                tracing::warn!(%error, "a fetch cannot be recorded; the outputs of the job stay until they expire");
            }
        })
    }

    fn describe_blob(&self, caller: &Caller, info: &BlobInfo) -> Ciphertext {
        describe(format!("tenants/{}/ciphertexts/{}", caller.tenant, info.digest.hex()), info)
    }
}

fn describe(name: String, info: &BlobInfo) -> Ciphertext {
    Ciphertext {
        name,
        digest: Some(digest::to_proto(&info.digest)),
        kind: info.kind.to_string(),
        parameter_set: info.set.name().to_owned(),
        key_id: Bytes::copy_from_slice(&info.key_id.0),
        count: info.count,
        degree_max: info.degree_max,
        noise_level_max: info.noise_level_max,
        ckks: info.ckks_ciphertext().map(|CiphertextShape { level, slots_log2, scale }| CkksCiphertext {
            level: level as u32,
            slots: 1 << slots_log2,
            scale,
        }),
    }
}
