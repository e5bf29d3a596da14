//! Removal of unneeded data, at start-up and periodically.

use cloakwork_clock::unix_micros_before;
use cloakwork_storage::Asker;
use futures_util::StreamExt as _;

use crate::{
    ClaimError, Error, Keystore,
    catalogue::{blobs, pins, requests, shards, uploads},
    claim,
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

/// Removes leftovers of a dead process: staged files without an open upload, and files of blobs
/// without a row. Staged files that stay count towards their limit. A bucket may be away, and lists
/// many objects slowly, so its leftovers stay until [`Keystore::remove_orphans`].
pub(crate) async fn recover(keystore: &Keystore) -> Result<(), Error> {
    let mut sql = keystore.reader(Asker::Upkeep).await?;
    for (tenant, id) in keystore.staging().sweep()? {
        let upload = uploads::find(&mut sql, &tenant, &id).await?;
        if upload.is_none_or(|upload| upload.complete) {
            remove_if_there(&keystore.staging().path(&tenant, &id))?;
        } else {
            keystore.staging().keep(&tenant, &id)?;
        }
    }
    drop(sql);
    if keystore.store().is_local() {
        keystore.remove_unknown_objects().await?;
    }
    Ok(())
}

impl Keystore {
    /// Removes old objects of the bucket that the catalogue does not know. Refuses the bucket of
    /// another database. A directory has no such objects after [`Keystore::open`].
    pub async fn remove_orphans(&self) -> Result<(), ClaimError> {
        if !self.store().is_local() {
            claim::confirm(self.store(), self.database()).await?;
            self.remove_unknown_objects().await?;
        }
        Ok(())
    }

    async fn remove_unknown_objects(&self) -> Result<(), Error> {
        let orphaned_micros = unix_micros_before(self.now_micros(), self.limits().orphan_age);
        let mut pages = self.store().names(orphaned_micros).await?.chunks(OBJECTS_PER_PAGE);
        while let Some(page) = pages.next().await {
            let page = page.into_iter().collect::<Result<Vec<_>, _>>()?;
            for name in self.unknown(page).await? {
                tracing::warn!(name, "removing an object that the catalogue does not know");
                self.store().remove(&name).await?;
            }
        }
        Ok(())
    }

    /// The objects that the catalogue does not know, and that this server may remove.
    async fn unknown(&self, mut names: Vec<String>) -> Result<Vec<String>, Error> {
        let mut sql = self.reader(Asker::Upkeep).await?;
        for index in (0..names.len()).rev() {
            let stays = match Object::parse(&names[index]) {
                // The owner of another shard may be writing the row of this object.
                Some(object) if !shards::has(&mut sql, self.shard(), &object.tenant).await? => true,
                // The age of an object counts from the begin of its upload, which may take long.
                // The look at the row follows, because the row is written before the lock is free.
                Some(object) if self.is_changing(&object.tenant, &object.blake3) => true,
                Some(object) => blobs::lists(&mut sql, &object).await?,
                // An operator may have put the object into the bucket.
                None => !self.store().is_local(),
            };
            if stays {
                names.swap_remove(index);
            }
        }
        Ok(names)
    }
}

/// Number of objects whose rows are looked up with one connection.
const OBJECTS_PER_PAGE: usize = 256;
