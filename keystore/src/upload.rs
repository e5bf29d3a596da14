//! Uploads: begin, continue, look up.
//!
//! All clients of a tenant share one upload for a blob, so a restarted client continues where it
//! was. The committed offset of an upload is the length of its staged file.

mod abort;
mod blocks;
mod place;
mod receive;
mod registry;
mod staged;
mod writer;

use std::collections::HashSet;

use cloakwork_clock::unix_micros_after;
use cloakwork_share::{Exceeded, Share};
use cloakwork_storage::{Batch, Rows, Survival};

use crate::{
    Digest, Error, Keystore, RequestId, TenantId, UploadId,
    catalogue::{blobs, requests, uploads, uploads::UploadRow},
};

pub(crate) use abort::CLEARING;
pub(crate) use registry::Registry;
pub use writer::UploadWriter;

/// The refusal of an upload beyond the limits on uploads that receive. A waiting upload would hold
/// memory.
fn too_many_receiving(exceeded: Exceeded) -> Error {
    let (what, limit) = match exceeded {
        Exceeded::All { limit, .. } => ("uploads receiving", limit),
        Exceeded::Each { limit, .. } => ("uploads of the tenant receiving", limit),
    };
    Error::TooManyUploads { what, limit: u32::try_from(limit).unwrap_or(u32::MAX) }
}

/// Maximum number of results that receive at the same time, of all workers and of each worker. Each
/// of them occupies a thread, and its window. Without the limits, results could occupy all threads
/// for blocking work.
pub(crate) const RESULTS_MAX: u64 = 64;
pub(crate) const WORKER_RESULTS_MAX: u64 = 16;

/// Maximum number of received results that are committed at the same time, of all tenants and of
/// each tenant. A commit into a bucket takes minutes, and holds several parts of the blob in
/// memory. These limits differ from those above, so that slow commits keep no worker from sending.
pub(crate) const RESULT_COMMITS_MAX: u64 = 64;
pub(crate) const TENANT_RESULT_COMMITS_MAX: u64 = 16;

/// Origin of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A client sends the blob.
    Upload,
    /// A worker hands in a blob computed for the tenant. The jobs given to a worker bound its
    /// uploads, so the limits on the number of uploads do not apply.
    Result,
}

/// A place among the uploads that receive, until dropped.
#[derive(Debug)]
enum Receiving {
    Client(Share<TenantId>),
    Worker(Share<u128>),
}

/// State of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadInfo {
    /// Name of the upload.
    pub id: UploadId,
    /// Required digest of the bytes.
    pub digest: Digest,
    /// Committed offset, where the upload continues.
    pub committed_bytes: u64,
    /// Unix time at which the upload expires without a writer, in microseconds.
    pub expires_micros: i64,
    /// Whether the blob is stored and nothing is left to send.
    pub complete: bool,
}

/// A page of a tenant's open uploads, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPage {
    /// The uploads.
    pub uploads: Vec<UploadInfo>,
    /// Last id of this page, after which the next page begins, if there is a next page.
    pub next: Option<UploadId>,
}

impl Keystore {
    /// Returns the blobs that the tenant lacks, in the order of `digests`. The other blobs are kept
    /// from eviction for a while.
    pub async fn find_missing(&self, tenant: &TenantId, digests: &[Digest]) -> Result<Vec<Digest>, Error> {
        self.check_count(digests.len())?;
        let now_micros = self.now_micros();
        let keep_until_micros = unix_micros_after(now_micros, self.limits().keep);
        let found = self.present(tenant, digests).await?;
        for kept in found.chunks(KEPT_MAX) {
            let keep = |batch: &mut Batch| blobs::keep(batch, tenant, kept, now_micros, keep_until_micros);
            self.database().apply(tenant.asker(), Rows::Tenant(tenant.as_str()), Survival::PowerFailure, keep).await?;
        }
        // A blob may have gone before it was kept. A blob that is found now is kept.
        let kept: HashSet<Digest> = self.present(tenant, &found).await?.into_iter().collect();
        Ok(digests.iter().filter(|digest| !kept.contains(*digest)).copied().collect())
    }

    /// Returns the blobs of `digests` that the tenant has undamaged. Each query takes a reader of
    /// its own, so that other calls need not wait for all queries.
    async fn present(&self, tenant: &TenantId, digests: &[Digest]) -> Result<Vec<Digest>, Error> {
        let mut present = Vec::new();
        for listed in digests.chunks(blobs::LISTED) {
            present.extend(blobs::present(&mut *self.reader(tenant.asker()).await?, tenant, listed).await?);
        }
        Ok(present)
    }

    /// Opens an upload, or returns the upload that is already open. If the tenant has the blob, the
    /// upload is complete at once.
    pub async fn begin_upload(
        &self,
        tenant: &TenantId,
        request_id: &RequestId,
        digest: &Digest,
    ) -> Result<UploadInfo, Error> {
        self.begin(tenant, Some(request_id), digest, Purpose::Upload).await
    }

    /// Like [`Self::begin_upload`], for a request without a request id.
    pub async fn begin_upload_once(&self, tenant: &TenantId, digest: &Digest) -> Result<UploadInfo, Error> {
        self.begin(tenant, None, digest, Purpose::Upload).await
    }

    /// Like [`Self::begin_upload`], for a blob computed for the tenant. Results do not count as
    /// open uploads, so no use of these by clients keeps results out.
    pub async fn begin_result(&self, tenant: &TenantId, digest: &Digest) -> Result<UploadInfo, Error> {
        self.begin(tenant, None, digest, Purpose::Result).await
    }

    async fn begin(
        &self,
        tenant: &TenantId,
        request_id: Option<&RequestId>,
        digest: &Digest,
        purpose: Purpose,
    ) -> Result<UploadInfo, Error> {
        if digest.size_bytes > self.largest_blob() {
            let what = "any blob".to_owned();
            return Err(Error::BlobTooLarge { what, limit: self.largest_blob(), got: digest.size_bytes });
        }
        let now_micros = self.now_micros();
        let mut upload = UploadRow {
            id: UploadId::of(tenant, digest),
            tenant: tenant.clone(),
            digest: *digest,
            complete: false,
            result: purpose == Purpose::Result,
            expires_micros: unix_micros_after(now_micros, self.limits().upload_expiry),
        };
        let mut tx = self.write(tenant).await?;
        if let Some(request_id) = request_id {
            let content = blake3::hash(format!("begin upload {digest}").as_bytes());
            let most = self.limits().request_ids_per_tenant;
            requests::claim(&mut tx, tenant, request_id, &content, now_micros, most).await?;
        }
        let mut given_up = Vec::new();
        let blob = blobs::find(&mut tx, tenant, digest).await?;
        if blob.as_ref().is_some_and(|blob| !blob.damaged) {
            upload.complete = true;
            let keep_until_micros = unix_micros_after(now_micros, self.limits().keep);
            blobs::renew(&mut tx, tenant, digest, now_micros, keep_until_micros).await?;
        } else if uploads::find(&mut tx, tenant, &upload.id).await?.is_none_or(|found| found.complete) {
            // The tenant's sum already includes the bytes of a damaged blob.
            let more = if blob.is_some() { 0 } else { digest.size_bytes };
            given_up = self.take_place(&mut tx, tenant, purpose, more, now_micros).await?;
        }
        uploads::put(&mut tx, &upload).await?;
        self.commit_given_up(tx, given_up).await?;
        self.describe(&upload)
    }

    /// Lists the tenant's open uploads after `after`, in the order of their ids. A page has at most
    /// `page_uploads` uploads, capped at the limit; 0 asks for the limit. Uploads of workers'
    /// results are left out.
    pub async fn list_uploads(
        &self,
        tenant: &TenantId,
        after: Option<&UploadId>,
        page_uploads: u32,
    ) -> Result<UploadPage, Error> {
        let wanted = self.page_entries(page_uploads);
        let mut rows =
            uploads::page(&mut *self.reader(tenant.asker()).await?, tenant, after, wanted.saturating_add(1)).await?;
        let more = rows.len() > wanted as usize;
        rows.truncate(wanted as usize);
        let next = rows.last().filter(|_| more).map(|row| row.id.clone());
        let uploads = rows.iter().map(|row| self.describe(row)).collect::<Result<_, _>>()?;
        Ok(UploadPage { uploads, next })
    }

    /// Looks up the state of an upload.
    pub async fn upload(&self, tenant: &TenantId, id: &UploadId) -> Result<UploadInfo, Error> {
        let upload = self.find_upload(tenant, id).await?;
        self.describe(&upload)
    }

    /// Continues an upload at its committed offset. If another writer has the upload, this call
    /// waits. Either the other writer completes the blob, for both callers, or it sends nothing for
    /// a second and loses its turn.
    pub async fn append(&self, tenant: &TenantId, id: &UploadId, offset: u64) -> Result<UploadWriter, Error> {
        self.go_on(tenant, id, offset, None).await
    }

    /// Like [`Self::append`], for a blob that `worker` has computed for the tenant. Results do not
    /// count as uploads that receive. Results have a limit of their own, and wait for a place
    /// instead of being refused: the work behind a refused result would be lost. A client that
    /// continues the upload ends such a wait with `UploadTakenOver`.
    pub async fn append_result(
        &self,
        worker: u128,
        tenant: &TenantId,
        id: &UploadId,
        offset: u64,
    ) -> Result<UploadWriter, Error> {
        self.go_on(tenant, id, offset, Some(worker)).await
    }

    /// Continues an upload of a client, or of the result of a `worker`.
    async fn go_on(
        &self,
        tenant: &TenantId,
        id: &UploadId,
        offset: u64,
        worker: Option<u128>,
    ) -> Result<UploadWriter, Error> {
        let upload = self.find_upload(tenant, id).await?;
        if upload.complete {
            return self.completed(&upload).await;
        }
        let purpose = worker.map_or(Purpose::Upload, |_| Purpose::Result);
        let (turn, presence) = self.registry().take_turn(id, purpose).await?;
        // The previous writer may have completed the upload or had it refused, or a client may have
        // aborted it.
        let mut upload = self.find_upload(tenant, id).await?;
        if upload.complete {
            return self.completed(&upload).await;
        }
        let committed_bytes = self.staging().committed_bytes(tenant, id)?;
        if committed_bytes != offset {
            return Err(Error::UploadOffsetMismatch { committed_bytes, got: offset });
        }
        upload.expires_micros = unix_micros_after(self.now_micros(), self.limits().upload_expiry);
        // All bytes of the upload get room at once. If uploads took room piece by piece, several
        // could fill the directory together, and none would end.
        let path = self.staging().path(tenant, id);
        let rest_bytes = upload.digest.size_bytes.saturating_sub(committed_bytes);
        let grow = || self.staging().grow(path, committed_bytes, rest_bytes);
        let (place, growth) = match worker {
            None => {
                let place = self.receiving().try_take(tenant, 1).map_err(too_many_receiving)?;
                // An upload without room is not renewed, so it expires if its client goes away.
                let growth = grow()?;
                self.put_upload(&upload).await?;
                (Receiving::Client(place), growth)
            }
            Some(worker) => {
                // The place comes last, because other tenants wait for it. Only the room follows,
                // so that a result in line takes none from the others.
                self.put_upload(&upload).await?;
                let place = presence.queue(id, self.results().take(&worker, 1)).await?;
                (Receiving::Worker(place), grow()?)
            }
        };
        Ok(UploadWriter::start(self.clone(), upload, committed_bytes, turn, presence, place, growth))
    }

    async fn put_upload(&self, upload: &UploadRow) -> Result<(), Error> {
        let mut tx = self.write(&upload.tenant).await?;
        uploads::put(&mut tx, upload).await?;
        Ok(tx.commit().await?)
    }

    /// Renews the upload's expiry as if the upload had begun now.
    async fn renew(&self, upload: &UploadRow) -> Result<(), Error> {
        let mut tx = self.write(&upload.tenant).await?;
        uploads::renew(&mut tx, &upload.id, unix_micros_after(self.now_micros(), self.limits().upload_expiry)).await?;
        Ok(tx.commit().await?)
    }

    async fn completed(&self, upload: &UploadRow) -> Result<UploadWriter, Error> {
        match self.blob(&upload.tenant, &upload.digest).await {
            Ok(blob) => Ok(UploadWriter::done(blob)),
            // The blob was evicted, deleted or damaged since.
            Err(Error::BlobNotFound { .. } | Error::BlobDamaged { .. }) => {
                Err(Error::UploadNotFound { id: upload.id.clone() })
            }
            Err(error) => Err(error),
        }
    }

    async fn find_upload(&self, tenant: &TenantId, id: &UploadId) -> Result<UploadRow, Error> {
        let upload = uploads::find(&mut *self.reader(tenant.asker()).await?, tenant, id).await?;
        let live = upload.filter(|upload| upload.expires_micros > self.now_micros());
        live.ok_or_else(|| Error::UploadNotFound { id: id.clone() })
    }

    fn describe(&self, upload: &UploadRow) -> Result<UploadInfo, Error> {
        let committed_bytes = match upload.complete {
            true => upload.digest.size_bytes,
            false => self.staging().committed_bytes(&upload.tenant, &upload.id)?,
        };
        Ok(UploadInfo {
            id: upload.id.clone(),
            digest: upload.digest,
            committed_bytes,
            expires_micros: upload.expires_micros,
            complete: upload.complete,
        })
    }

    pub(crate) fn check_count(&self, got: usize) -> Result<(), Error> {
        let limit = u64::from(self.limits().digests_per_call);
        match got as u64 <= limit {
            true => Ok(()),
            false => Err(Error::QuotaExceeded { what: "digests in one call", limit, got: got as u64 }),
        }
    }
}

/// Maximum number of blobs that one transaction marks as used. All other writers wait meanwhile.
const KEPT_MAX: usize = 1024;

#[cfg(test)]
mod tests;
