//! The comparison of a database with its store of blobs, after one of them was restored from a
//! backup.

use std::collections::HashSet;

use cloakwork_storage::{Asker, Database, Rows};
use futures_util::TryStreamExt as _;

use crate::{
    Digest, Error, StoreOptions, TenantId,
    catalogue::blobs,
    store::{Object, Store},
    verify::is_key,
};

/// The differences between a database and its store of blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Number of blobs that the database knows.
    pub blobs: u64,
    /// Blobs that the database takes for present, and whose bytes are gone.
    pub lost: Vec<Lost>,
    /// Number of objects in the store.
    pub objects: u64,
    /// Number of objects that the database does not know. Servers remove them after their next
    /// start.
    pub unknown: u64,
}

/// A blob without bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The tenant.
    pub tenant: TenantId,
    /// The blob.
    pub digest: Digest,
    /// Whether the blob is a part of a key.
    pub is_key: bool,
    /// The object of the blob whose bytes are gone.
    pub(crate) generation: i64,
}

/// Compares a database with a store. Changes nothing, and a server may run meanwhile.
pub async fn compare(options: &StoreOptions, database: &Database) -> Result<Compared, Error> {
    let store = Store::open(options).await?;
    let mut names: HashSet<String> = store.names(i64::MAX).await?.try_collect().await?;
    let mut compared = Compared { objects: names.len() as u64, ..Compared::default() };
    let mut after = (String::new(), Vec::new());
    loop {
        let mut reader = database.read(Asker::Upkeep).await?;
        let page = blobs::page(&mut reader, (&after.0, &after.1), PAGE_ROWS).await?;
        drop(reader);
        let Some((tenant, row)) = page.last() else { break };
        after = (tenant.to_string(), row.digest.blake3.to_vec());
        for (tenant, row) in page {
            compared.blobs += 1;
            let object = row.object(&tenant);
            let name = object.name();
            let is_there = names.remove(&name) || row.damaged;
            // The bytes may have come after the list of names. A server that runs meanwhile may
            // also have replaced the object of the page by another one.
            if !is_there && !store.has(&name).await? && is_known(database, &object).await? {
                let (is_key, generation) = (is_key(row.content.kind), row.generation);
                compared.lost.push(Lost { tenant, digest: row.digest, is_key, generation });
            }
        }
    }
    for name in names {
        let is_known = match Object::parse(&name) {
            Some(object) => is_known(database, &object).await?,
            None => false,
        };
        compared.unknown += u64::from(!is_known);
    }
    Ok(compared)
}

/// Whether an object has a row, which may have come after its page was read.
async fn is_known(database: &Database, object: &Object) -> Result<bool, Error> {
    blobs::lists(&mut *database.read(Asker::Upkeep).await?, object).await
}

/// Marks blobs as damaged, so that they count as missing until they are uploaded again.
pub async fn condemn(database: &Database, lost: &[Lost]) -> Result<(), Error> {
    for some in lost.chunks(CONDEMNED_PER_TRANSACTION) {
        let mut tx = database.write(Asker::Upkeep, Rows::All).await?;
        for Lost { tenant, digest, generation, .. } in some {
            // The blob may have been uploaded again since the comparison.
            blobs::condemn(&mut tx, &Object::new(tenant, digest, *generation)).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

/// Number of rows that are read at once.
const PAGE_ROWS: u32 = 1024;

/// Number of rows that one transaction changes. Longer transactions would delay other writers.
const CONDEMNED_PER_TRANSACTION: usize = 64;
