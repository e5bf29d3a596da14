//! Removing what nobody needs: at start-up, and from time to time.

use crate::{
    Error, Keystore,
    catalogue::{
        blobs, pins, requests,
        uploads::{self, UploadRow},
    },
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
        let uploads = self.sweep_uploads(now_ms).await?;
        self.sweep_rows(now_ms).await?;
        let mut tx = self.database().write().await?;
        // Enough or not: what is too recent to go, the next sweep will find older.
        let evicted = self.make_room(&mut tx, now_ms, None).await?.evicted;
        tx.commit().await?;
        self.remove_bytes(&evicted).await?;
        Ok(Swept { uploads, blobs: evicted.len() as u64 })
    }

    async fn sweep_uploads(&self, now_ms: i64) -> Result<u64, Error> {
        let mut swept = 0;
        loop {
            let expired = uploads::expired(&mut *self.reader().await?, now_ms, ROWS).await?;
            // Not under somebody's hands, however slow they are.
            let free = |upload: &UploadRow| self.registry().try_take_turn(&upload.id);
            let mut gone: Vec<_> = expired.iter().filter_map(|upload| Some((upload, free(upload)?))).collect();
            let mut tx = self.database().write().await?;
            for index in (0..gone.len()).rev() {
                // Somebody may have begun it again in the meantime.
                if !uploads::remove_expired(&mut tx, &gone[index].0.id, now_ms).await? {
                    gone.swap_remove(index);
                }
            }
            tx.commit().await?;
            for (upload, _turn) in &gone {
                remove_if_there(&self.staging().path(&upload.tenant, &upload.id))?;
            }
            swept += gone.len() as u64;
            if gone.is_empty() || expired.len() < ROWS as usize {
                return Ok(swept);
            }
        }
    }

    /// Pins and request ids, some at a time, so that nobody waits long to write.
    async fn sweep_rows(&self, now_ms: i64) -> Result<(), Error> {
        let memory = i64::try_from(self.limits().request_memory.as_millis()).unwrap_or(i64::MAX);
        let forgotten_ms = now_ms.saturating_sub(memory);
        loop {
            let mut tx = self.database().write().await?;
            let pins = pins::expire(&mut tx, now_ms, ROWS).await?;
            let ids = requests::forget(&mut tx, forgotten_ms, ROWS).await?;
            tx.commit().await?;
            if pins.max(ids) < ROWS.into() {
                return Ok(());
            }
        }
    }
}

/// Rows that one transaction of the sweep removes.
const ROWS: u32 = 256;

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
