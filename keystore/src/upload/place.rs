//! Places among the open uploads, and space among the tenant's bytes. If either is lacking, uploads
//! that have had no writer for a while are given up.

use std::time::Duration;

use cloakwork_clock::unix_micros_after;
use cloakwork_storage::Write;

use super::{Purpose, registry::Turn};
use crate::{
    Error, Keystore, TenantId,
    catalogue::{
        Connection,
        uploads::{self, UploadRow},
    },
    detached::to_the_end,
};

/// An upload that is given up. No writer can take it while its turn is held.
pub(crate) struct GivenUp {
    pub(crate) upload: UploadRow,
    turn: Turn,
}

impl Keystore {
    /// Ensures that the tenant may open one more upload of `bytes` bytes. The transaction also
    /// removes the rows of uploads that are given up.
    pub(super) async fn take_place(
        &self,
        sql: &mut Connection,
        tenant: &TenantId,
        purpose: Purpose,
        bytes: u64,
        now_micros: i64,
    ) -> Result<Vec<GivenUp>, Error> {
        let mut given_up = Vec::new();
        loop {
            let Some((giver, refusal)) = self.lacking(sql, tenant, purpose, bytes).await? else {
                return Ok(given_up);
            };
            // A result takes no place, so giving up its upload would free none.
            let results = matches!(refusal, Error::QuotaExceeded { .. });
            given_up.push(self.give_up_idle(sql, &giver, results, now_micros).await?.ok_or(refusal)?);
        }
    }

    /// Commits a transaction that removes the rows of given-up uploads, and then removes the staged
    /// files of these uploads.
    pub(crate) async fn commit_given_up(&self, tx: Write, given_up: Vec<GivenUp>) -> Result<(), Error> {
        let keystore = self.clone();
        to_the_end(async move {
            tx.commit().await?;
            for GivenUp { upload, turn } in given_up {
                keystore.staging().remove(&keystore.staging().path(&upload.tenant, &upload.id)).await;
                drop(turn);
                tracing::debug!(upload = %upload.id, "idle upload removed");
            }
            Ok(())
        })
        .await
    }

    /// Gives up an upload without a writer. The caller removes the upload's row.
    pub(crate) fn give_up(&self, upload: UploadRow) -> Option<GivenUp> {
        let turn = self.registry().try_take_turn(&upload.id)?;
        Some(GivenUp { upload, turn })
    }

    /// The refusal for the first lacking limit, if any, and the tenant that would have to give up
    /// an upload.
    async fn lacking(
        &self,
        sql: &mut Connection,
        tenant: &TenantId,
        purpose: Purpose,
        bytes: u64,
    ) -> Result<Option<(TenantId, Error)>, Error> {
        let (mine, total, _) = uploads::open(sql, self.shard(), tenant).await?;
        let (mine_max, total_max) = (self.limits().uploads_per_tenant, self.limits().uploads_total);
        let counts = purpose == Purpose::Upload;
        if counts && mine >= mine_max.into() {
            return Ok(Some((tenant.clone(), Error::UploadsUsedUp { limit: mine_max })));
        }
        if counts && total >= total_max.into() {
            // A tenant within an even share of the places loses none.
            let largest = uploads::largest(sql, self.shard()).await?.filter(|(_, open)| *open > mine + 1);
            let giver = largest.map_or_else(|| tenant.clone(), |(giver, _)| giver);
            return Ok(Some((giver, Error::TooManyUploads { what: "open uploads", limit: total_max })));
        }
        match self.check_tenant_bytes(sql, tenant, bytes).await {
            Err(refusal @ Error::QuotaExceeded { .. }) => Ok(Some((tenant.clone(), refusal))),
            checked => checked.map(|()| None),
        }
    }

    /// Gives up the upload that has been idle for longest, if any has been idle for long enough.
    /// `results` includes uploads of results, which may be idle for a shorter time.
    async fn give_up_idle(
        &self,
        sql: &mut Connection,
        giver: &TenantId,
        results: bool,
        now_micros: i64,
    ) -> Result<Option<GivenUp>, Error> {
        // An upload expires `upload_expiry` after the last time that a writer began or stopped
        // sending.
        let until_micros = |silent| unix_micros_after(now_micros, self.limits().upload_expiry.saturating_sub(silent));
        let results_micros = results.then(|| until_micros(RESULT_IDLE_MIN));
        let silent = uploads::silent(sql, giver, until_micros(UPLOAD_IDLE_MIN), results_micros).await?;
        for upload in silent {
            if let Some(given_up) = self.give_up(upload) {
                uploads::remove(sql, &given_up.upload.id).await?;
                return Ok(Some(given_up));
            }
        }
        Ok(None)
    }
}

/// Time for which an idle upload keeps its place although another upload needs it.
const UPLOAD_IDLE_MIN: Duration = Duration::from_secs(600);

/// Like [`UPLOAD_IDLE_MIN`], for the upload of a result. A worker sends its result again within
/// seconds. In a longer time, results that are announced and never sent would keep the tenant's
/// room.
const RESULT_IDLE_MIN: Duration = Duration::from_secs(60);
