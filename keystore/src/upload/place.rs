//! A place among the open uploads, and among the tenant's bytes. Where there is none, uploads that nobody has gone on
//! with for a while are given up.

use std::time::Duration;

use super::{Purpose, registry::Turn};
use crate::{
    Error, Keystore, TenantId, UploadId,
    catalogue::{
        Connection,
        uploads::{self, UploadRow},
    },
    clock,
    store::remove_if_there,
};

/// An upload that is given up: nobody writes to it while its turn is held.
pub(super) struct GivenUp {
    upload: UploadRow,
    _turn: Turn,
}

impl Keystore {
    /// Sees to it that the tenant may open one more upload, of so many bytes. What is given up for it goes with the
    /// transaction.
    pub(super) async fn take_place(
        &self,
        sql: &mut Connection,
        tenant: &TenantId,
        purpose: Purpose,
        bytes: u64,
        now_ms: i64,
    ) -> Result<Vec<GivenUp>, Error> {
        let mut given_up = Vec::new();
        while let Some((giver, refusal)) = self.lacking(sql, tenant, purpose, bytes).await? {
            // A result takes no place, so giving it up would free none.
            let results = matches!(refusal, Error::QuotaExceeded { .. });
            given_up.push(self.give_up(sql, &giver, results, now_ms).await?.ok_or(refusal)?);
        }
        Ok(given_up)
    }

    /// Removes the bytes, once the transaction is committed.
    pub(super) fn remove_given_up(&self, given_up: Vec<GivenUp>) {
        for GivenUp { upload, _turn } in given_up {
            self.remove_staged(&upload.tenant, &upload.id);
            tracing::debug!(upload = %upload.id, "an upload that nobody went on with made room");
        }
    }

    /// Removes what an upload has staged, whose row goes and whose turn the caller holds.
    pub(super) fn remove_staged(&self, tenant: &TenantId, id: &UploadId) {
        if let Err(error) = remove_if_there(&self.staging().path(tenant, id)) {
            // The next start finds it.
            tracing::warn!(upload = %id, %error, "what an upload had staged stays");
        }
    }

    /// What there is too little of, if anything, and who would have to give.
    async fn lacking(
        &self,
        sql: &mut Connection,
        tenant: &TenantId,
        purpose: Purpose,
        bytes: u64,
    ) -> Result<Option<(TenantId, Error)>, Error> {
        let (mine, total, _) = uploads::open(sql, tenant).await?;
        let (mine_max, total_max) = (self.limits().uploads_per_tenant, self.limits().uploads_total);
        let counts = purpose == Purpose::Upload;
        if counts && mine >= mine_max.into() {
            return Ok(Some((tenant.clone(), Error::UploadsUsedUp { limit: mine_max })));
        }
        if counts && total >= total_max.into() {
            // Whoever keeps to an even share loses nothing.
            let largest = uploads::largest(sql).await?.filter(|(_, open)| *open > mine + 1);
            let giver = largest.map_or_else(|| tenant.clone(), |(giver, _)| giver);
            return Ok(Some((giver, Error::TooManyUploads { what: "open uploads", limit: total_max })));
        }
        match self.check_tenant_bytes(sql, tenant, bytes).await {
            Err(refusal @ Error::QuotaExceeded { .. }) => Ok(Some((tenant.clone(), refusal))),
            checked => checked.map(|()| None),
        }
    }

    /// Gives up the upload that has been silent for longest, if one may go. Results are among them only if
    /// so asked.
    async fn give_up(
        &self,
        sql: &mut Connection,
        giver: &TenantId,
        results: bool,
        now_ms: i64,
    ) -> Result<Option<GivenUp>, Error> {
        // Each is alive for so long from when somebody last began or ceased to send.
        let silent_ms = clock::after(now_ms, self.limits().upload_expiry.saturating_sub(SILENT));
        for upload in uploads::silent(sql, giver, results, silent_ms).await? {
            if let Some(turn) = self.registry().try_take_turn(&upload.id) {
                uploads::remove(sql, &upload.id).await?;
                return Ok(Some(GivenUp { upload, _turn: turn }));
            }
        }
        Ok(None)
    }
}

/// How long an upload is safe although its place is wanted.
const SILENT: Duration = Duration::from_secs(600);
