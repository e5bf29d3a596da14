//! Outputs of jobs: received from a worker, checked, and stored with the job or as blobs.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_circuit::ckks::Vector;
use cloakwork_clock::Clock;
use cloakwork_keystore::{self as keystore, BlobInfo, Digest, Keystore, TenantId};
use cloakwork_params::{ObjectKind, ckks::layout::CiphertextShape};
use cloakwork_proto::v1::{self, CommitResultRequest};
use tonic::{Status, Streaming};

use super::incoming::Incoming;
use crate::{
    database, digest,
    dispatch::Leased,
    error::{ApiError, DIGEST_MISMATCH, INVALID_ARGUMENT},
    jobs::{Content, JobMeta, id},
    limits::Limits,
    programs::{Compiler, Family},
    quota::Quota,
    services::Transfers,
    store::Store,
};

/// Receives and stores the outputs of jobs.
#[derive(Clone)]
pub struct Outputs {
    /// Blobs.
    pub keystore: Keystore,
    /// The store, for jobs that have ended.
    pub store: Store,
    /// Room of each tenant for outputs in the store.
    pub quota: Quota,
    /// The compiler, which remembers compiled programs.
    pub compiler: Compiler,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Counters of received bytes.
    pub transfers: Transfers,
}

impl Outputs {
    /// Receives the outputs. Small outputs stay with the job, and all others become blobs.
    pub(super) async fn receive(
        &self,
        leased: &Leased,
        digests: &[v1::Digest],
        parts: &mut Streaming<CommitResultRequest>,
    ) -> Result<Vec<Content>, Status> {
        let program = self.compiler.of_job(&leased.meta.tenant, &leased.work.program).await?;
        let expected: Vec<Expected> = match &program.family {
            Family::Blocks(blocks) => {
                blocks.outputs.iter().map(|ty| Expected::Blocks { of_row: ty.blocks() as u64 }).collect()
            }
            Family::Vectors(outline) => outline.outputs.iter().map(|vector| Expected::Vector(*vector)).collect(),
        };
        if digests.len() != expected.len() {
            let message = format!("{} outputs: the program has {}", digests.len(), expected.len());
            return Err(INVALID_ARGUMENT.error(message).into());
        }
        let mut data = Incoming::new(parts, Duration::from_millis(self.limits.request_idle_ms));
        // An output that exceeds the tenant's room in the database becomes a blob, and counts as
        // one.
        let mut inline_left = self.limits.inline_bytes;
        let mut contents = Vec::with_capacity(digests.len());
        for (wanted, expected) in digests.iter().zip(&expected) {
            let digest = digest::parse(Some(wanted), "digests")?;
            let small = digest.size_bytes <= inline_left
                && self.quota.take_if_any(&leased.meta.tenant, digest.size_bytes).await?;
            let bytes = if small {
                inline_left -= digest.size_bytes;
                Some(self.small(leased, &digest, expected, &mut data).await?)
            } else {
                self.large(leased, &digest, expected, &mut data).await?;
                None
            };
            contents.push(Content { digest: digest.blake3, size_bytes: digest.size_bytes, bytes });
        }
        match data.next().await? {
            Some(_) => Err(INVALID_ARGUMENT.error("bytes follow the last output").into()),
            None => Ok(contents),
        }
    }

    async fn small(
        &self,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
        data: &mut Incoming<'_>,
    ) -> Result<Bytes, Status> {
        let mut bytes = Vec::with_capacity(digest.size_bytes as usize);
        while (bytes.len() as u64) < digest.size_bytes {
            bytes.extend_from_slice(&data.take(digest.size_bytes - bytes.len() as u64).await?);
        }
        let bytes = Bytes::from(bytes);
        let info = self.keystore.check(&bytes).map_err(ApiError::from)?;
        if info.digest != *digest {
            return Err(DIGEST_MISMATCH.error("an output does not match its digest").into());
        }
        expected.conform(leased, &info)?;
        Ok(bytes)
    }

    async fn large(
        &self,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
        data: &mut Incoming<'_>,
    ) -> Result<(), Status> {
        let tenant = TenantId::new(&leased.meta.tenant).map_err(ApiError::from)?;
        let upload = self.keystore.begin_result(&tenant, digest).await.map_err(ApiError::from)?;
        let mut left = digest.size_bytes;
        if upload.complete {
            while left > 0 {
                left -= data.take(left).await?.len() as u64;
            }
            return Ok(self.keep(&tenant, leased, digest, expected).await?);
        }
        let receiving = self.transfers.receive();
        // An earlier attempt may have stored the first bytes. The worker sends them again, so they
        // are skipped.
        let mut skip = upload.committed_bytes;
        let mut writer =
            self.keystore.append_result(&tenant, &upload.id, upload.committed_bytes).await.map_err(ApiError::from)?;
        while left > 0 {
            let mut bytes = data.take(left).await?;
            left -= bytes.len() as u64;
            let known = bytes.split_to(usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len()));
            skip -= known.len() as u64;
            if !bytes.is_empty() {
                receiving.bytes(bytes.len());
                writer.write(bytes).await.map_err(ApiError::from)?;
            }
        }
        receiving.finished(writer.finish().await).map_err(ApiError::from)?;
        Ok(self.keep(&tenant, leased, digest, expected).await?)
    }

    /// Checks an output that has become a blob, and pins it for the job's `keep_outputs`. The pin
    /// must precede the durable end: a succeeded job with evicted outputs would be useless.
    async fn keep(
        &self,
        tenant: &TenantId,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
    ) -> Result<(), ApiError> {
        expected.conform(leased, &self.keystore.blob(tenant, digest).await?)?;
        let until_micros = self.clock.unix_micros().saturating_add(leased.meta.keep_outputs_micros);
        let pin = keystore::Pin { holder: id::output_holder(leased.meta.id), until_micros: Some(until_micros) };
        Ok(self.keystore.pin(tenant, &[*digest], &pin).await?)
    }

    /// Releases the outputs of a refused commit. The outputs stay if the job is still live, or has
    /// succeeded, because its outputs may be the same blobs.
    pub(super) async fn release(&self, leased: &Leased) -> Result<(), ApiError> {
        let JobMeta { tenant, id: job, .. } = &*leased.meta;
        let view = self.store.job(tenant, *job, false).await.map_err(database::failed)?;
        let unwanted = view.is_none_or(|view| view.end.is_some() && view.state != v1::JobState::Succeeded);
        if unwanted {
            self.keystore.unpin(&id::output_holder(*job)).await?;
        }
        Ok(())
    }
}

/// A required output of a job.
enum Expected {
    /// A list of `of_row` ciphertexts for each row.
    Blocks { of_row: u64 },
    /// A vector.
    Vector(Vector),
}

impl Expected {
    /// Checks an output against this requirement.
    fn conform(&self, leased: &Leased, info: &BlobInfo) -> Result<(), ApiError> {
        let meta = &leased.meta;
        let is_it = match self {
            Self::Blocks { of_row } => {
                info.kind == ObjectKind::LweList && info.count == meta.rows.saturating_mul(*of_row)
            }
            Self::Vector(vector) => {
                let shape = info.set.ckks().and_then(|set| CiphertextShape::of(set, &info.dimensions).ok());
                info.kind == ObjectKind::CkksCiphertext && shape.is_some_and(|shape| vector.difference(shape).is_none())
            }
        };
        match is_it && info.set.id() == meta.set.id() && info.key_id == meta.key_id {
            true => Ok(()),
            false => {
                Err(INVALID_ARGUMENT
                    .error("an output is not of the job's set and key, or not what its program returns"))
            }
        }
    }
}
