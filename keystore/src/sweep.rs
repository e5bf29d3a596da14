//! Removal of unneeded data, at start-up and periodically.

use cloakwork_clock::unix_micros_before;
use cloakwork_storage::Asker;

use crate::{
    Error, Keystore,
    catalogue::{blobs, pins, requests, shards, uploads},
    detached::to_the_end,
    store::{Object, remove_if_there},
};

/// Numbers of removed objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Expired uploads.
    pub uploads: u64,
    /// Evicted ciphertexts.
    pub blobs: u64,
}

impl Keystore {
    /// Removes expired uploads, pins and request ids, and evicts unpinned ciphertexts down to their
    /// limit. The program that runs the keystore calls this periodically.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let now_micros = self.now_micros();
        let uploads = self.sweep_uploads(now_micros).await?;
        self.sweep_rows(now_micros).await?;
        let blobs = self.sweep_blobs(now_micros).await?;
        Ok(Swept { uploads, blobs })
    }

    async fn sweep_uploads(&self, now_micros: i64) -> Result<u64, Error> {
        let mut swept = 0;
        loop {
            let mut reader = self.reader(Asker::Upkeep).await?;
            let expired = uploads::expired(&mut reader, self.shard(), now_micros, SWEEP_ROWS_MAX).await?;
            drop(reader);
            let may_be_more = expired.len() >= SWEEP_ROWS_MAX as usize;
            // An upload with a writer stays, however slow the writer is.
            let mut gone: Vec<_> = expired.into_iter().filter_map(|upload| self.give_up(upload)).collect();
            let mut tx = self.write_all(Asker::Upkeep).await?;
            for index in (0..gone.len()).rev() {
                // A client may have begun the upload again meanwhile.
                if !uploads::remove_expired(&mut tx, &gone[index].upload.id, now_micros).await? {
                    gone.swap_remove(index);
                }
            }
            let removed = gone.len() as u64;
            self.commit_given_up(tx, gone).await?;
            swept += removed;
            if removed == 0 || !may_be_more {
                return Ok(swept);
            }
        }
    }

    async fn sweep_blobs(&self, now_micros: i64) -> Result<u64, Error> {
        let mut tx = self.write_all(Asker::Upkeep).await?;
        // The room need not be enough: a later sweep can evict blobs that are still too recent.
        let evicted = self.make_room(&mut tx, now_micros, None).await?.evicted;
        let keystore = self.clone();
        to_the_end(async move {
            tx.commit().await?;
            keystore.remove_bytes(&evicted).await?;
            Ok(evicted.len() as u64)
        })
        .await
    }

    /// Removes pins and request ids in small transactions, so that no other writer waits long.
    async fn sweep_rows(&self, now_micros: i64) -> Result<(), Error> {
        let forgotten_micros = unix_micros_before(now_micros, self.limits().request_memory);
        loop {
            let mut tx = self.write_all(Asker::Upkeep).await?;
            let pins = pins::expire(&mut tx, self.shard(), now_micros, SWEEP_ROWS_MAX).await?;
            let ids = requests::forget(&mut tx, self.shard(), forgotten_micros, SWEEP_ROWS_MAX).await?;
            tx.commit().await?;
            if pins.max(ids) < SWEEP_ROWS_MAX.into() {
                return Ok(());
            }
        }
    }
}

/// Maximum number of rows that one transaction of the sweep removes.
const SWEEP_ROWS_MAX: u32 = 256;

/// Removes leftovers of a dead process: staged files without an open upload, and bytes without a
/// row.
pub(crate) async fn recover(keystore: &Keystore) -> Result<(), Error> {
    let mut sql = keystore.reader(Asker::Upkeep).await?;
    for (tenant, id) in keystore.staging().sweep()? {
        let upload = uploads::find(&mut sql, &tenant, &id).await?;
        if upload.is_none_or(|upload| upload.complete) {
            remove_if_there(&keystore.staging().path(&tenant, &id))?;
        }
    }
    let orphaned_micros = unix_micros_before(keystore.now_micros(), keystore.limits().orphan_age);
    for name in keystore.store().names(orphaned_micros).await? {
        let known = match Object::parse(&name) {
            // The owner of another shard may be writing the row of this object.
            Some(object) if !shards::has(&mut sql, keystore.shard(), &object.tenant).await? => true,
            Some(object) => blobs::lists(&mut sql, &object).await?,
            // An object of no tenant is left to one server.
            None => keystore.shard() != 0,
        };
        if !known {
            tracing::warn!(name, "removing an object that the catalogue does not know");
            keystore.store().remove(&name).await?;
        }
    }
    Ok(())
}
