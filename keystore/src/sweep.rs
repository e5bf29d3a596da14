//! Removing what nobody needs: at start-up, and from time to time.

use crate::{
    Error, Keystore,
    catalogue::{blobs, pins, requests, uploads},
    store::{parse_object_name, remove_if_there},
};

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Uploads that nobody went on with.
    pub uploads: u64,
    /// Ciphertexts that were evicted.
    pub blobs: u64,
}

impl Keystore {
    /// Forgets expired uploads, pins and request ids, and brings unpinned ciphertexts below their limit. Whoever runs
    /// the keystore calls it from time to time.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let now_ms = self.now_ms();
        let mut swept = Swept::default();
        for upload in uploads::expired(&mut *self.reader().await?, now_ms).await? {
            // Not under somebody's hands, however slow they are.
            let Some(_turn) = self.registry().try_take_turn(&upload.id) else { continue };
            let mut tx = self.database().write().await?;
            uploads::remove(&mut tx, &upload.id).await?;
            tx.commit().await?;
            remove_if_there(&self.staging().path(&upload.tenant, &upload.id))?;
            swept.uploads += 1;
        }
        let mut tx = self.database().write().await?;
        pins::expire(&mut tx, now_ms).await?;
        let memory = i64::try_from(self.limits().request_memory.as_millis()).unwrap_or(i64::MAX);
        requests::forget(&mut tx, now_ms.saturating_sub(memory)).await?;
        // Enough or not: what is too recent to go, the next sweep will find older.
        let evicted = self.make_room(&mut tx, now_ms, None).await?.evicted;
        tx.commit().await?;
        swept.blobs = evicted.len() as u64;
        self.remove_bytes(&evicted).await?;
        Ok(swept)
    }
}

/// Removes what a process that died left behind: staged files of no open upload, and bytes of no catalogued blob.
pub(crate) async fn recover(keystore: &Keystore) -> Result<(), Error> {
    let mut sql = keystore.reader().await?;
    for (tenant, id) in keystore.staging().sweep()? {
        let upload = uploads::find(&mut sql, &tenant, &id).await?;
        if upload.is_none_or(|upload| upload.complete) {
            remove_if_there(&keystore.staging().path(&tenant, &id))?;
        }
    }
    for name in keystore.store().names(keystore.limits().orphan_age).await? {
        let known = match parse_object_name(&name) {
            Some((tenant, blake3)) => blobs::exists(&mut sql, &tenant, &blake3).await?,
            None => false,
        };
        if !known {
            tracing::warn!(name, "removing what an interrupted commit left");
            keystore.store().remove(&name).await?;
        }
    }
    Ok(())
}
