//! The claim of a database on its store of blobs.
//!
//! A keystore removes bytes that its database does not know. With the store of another database, it
//! would remove the blobs of that database. So the database and its store both hold one random
//! number, the store in an object of its own, the marker, and other stores are refused.

use std::time::Duration;

use cloakwork_storage::{Asker, Database, Rows};
use tokio::time::timeout;

use crate::{
    Error,
    catalogue::marker::{self, Marker},
    store::{Store, StoreOptions},
};

/// Why a database and a store do not belong together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClaimError {
    /// The store has the marker of another database.
    #[error("it belongs to another database (its marker has the number {theirs}, and this database has {ours})")]
    Other {
        /// Number in the marker.
        theirs: String,
        /// Number of the database.
        ours: String,
    },
    /// The database has marked a store, and this store has no marker.
    #[error("it is not the store that this database has used so far: it has no marker")]
    Unmarked,
    /// The store failed.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] cloakwork_storage::Error),
}

/// Claims a store for a database. `fresh` is a random number, for a database that has none. Every
/// claim writes to the store, so a store that cannot be written is found at the start. A bucket
/// counts as away if an answer takes longer than `patience`.
pub async fn claim(
    options: &StoreOptions,
    database: &Database,
    fresh: [u8; 16],
    patience: Duration,
) -> Result<(), ClaimError> {
    let store = Store::open(options).await?;
    let found = in_time(&store, patience, store.marker()).await?;
    let marker = own(database, found.as_deref(), fresh).await?;
    let is_there = is_of(Some(&marker), found.as_deref())?;
    if !in_time(&store, patience, store.place_marker(&text(&marker), !is_there)).await? {
        is_of(Some(&marker), in_time(&store, patience, store.marker()).await?.as_deref())?;
    }
    if !marker.is_placed {
        let mut tx = database.write(Asker::Upkeep, Rows::All).await?;
        marker::set_placed(&mut tx).await?;
        tx.commit().await?;
    }
    Ok(())
}

/// Checks that a store is not the store of another database. Changes nothing. A bucket counts as
/// away if its answer takes longer than `patience`.
pub async fn check(options: &StoreOptions, database: &Database, patience: Duration) -> Result<(), ClaimError> {
    let store = Store::open(options).await?;
    // The order matters. A first start gives the database its number before it writes the marker.
    let found = in_time(&store, patience, store.marker()).await?;
    let known = marker::find(&mut *database.read(Asker::Upkeep).await?).await?;
    is_of(known.as_ref(), found.as_deref()).map(drop)
}

/// Checks that a store has the marker of this database.
pub(crate) async fn confirm(store: &Store, database: &Database) -> Result<(), ClaimError> {
    let found = store.marker().await?;
    let known = marker::find(&mut *database.read(Asker::Upkeep).await?).await?;
    if is_of(known.as_ref(), found.as_deref())? { Ok(()) } else { Err(ClaimError::Unmarked) }
}

/// Whether the database has claimed a store before.
pub async fn has_claimed(database: &Database) -> Result<bool, ClaimError> {
    let known = marker::find(&mut *database.read(Asker::Upkeep).await?).await?;
    Ok(known.is_some_and(|marker| marker.is_placed))
}

/// Claims a store whatever its marker says, under a new number. The database that had the store
/// before is refused from then on.
pub async fn adopt(options: &StoreOptions, database: &Database, fresh: [u8; 16]) -> Result<(), ClaimError> {
    let store = Store::open(options).await?;
    let mut tx = database.write(Asker::Upkeep, Rows::All).await?;
    let marker = marker::replace(&mut tx, fresh).await?;
    tx.commit().await?;
    store.place_marker(&text(&marker), false).await?;
    let mut tx = database.write(Asker::Upkeep, Rows::All).await?;
    marker::set_placed(&mut tx).await?;
    Ok(tx.commit().await?)
}

/// Waits for an answer of a store. A directory answers in any case.
async fn in_time<T>(
    store: &Store,
    patience: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if store.is_local() {
        return answer.await;
    }
    let late = |_| Err(Error::StoreAway { message: format!("no answer within {patience:?}") });
    timeout(patience, answer).await.unwrap_or_else(late)
}

/// The number of the database. A database without a number gets one, unless its store has the
/// marker of another database.
async fn own(database: &Database, found: Option<&str>, fresh: [u8; 16]) -> Result<Marker, ClaimError> {
    let mut tx = database.write(Asker::Upkeep, Rows::All).await?;
    if let Some(marker) = marker::find(&mut tx).await? {
        return Ok(marker);
    }
    is_of(None, found)?;
    let marker = marker::replace(&mut tx, fresh).await?;
    tx.commit().await?;
    Ok(marker)
}

/// Whether the store has the marker of this database. A store that is new, as far as the database
/// knows, may have none.
fn is_of(known: Option<&Marker>, found: Option<&str>) -> Result<bool, ClaimError> {
    match (known, found) {
        (Some(known), Some(found)) if text(known) == found => Ok(true),
        (known, Some(found)) => Err(ClaimError::Other {
            theirs: number_in(found).to_owned(),
            ours: known.map_or_else(|| "none".to_owned(), hex),
        }),
        (Some(Marker { is_placed: true, .. }), None) => Err(ClaimError::Unmarked),
        (_, None) => Ok(false),
    }
}

/// The text of a marker.
fn text(marker: &Marker) -> String {
    format!(
        "The blobs of one Cloakwork database. Only the database of this number may use them. Keep this file.\n{}\n",
        hex(marker)
    )
}

fn hex(marker: &Marker) -> String {
    format!("{:032x}", u128::from_be_bytes(marker.number))
}

/// The number in the text of a marker.
fn number_in(text: &str) -> &str {
    let last = text.lines().last().unwrap_or_default();
    if last.len() == 32 && last.bytes().all(|byte| byte.is_ascii_hexdigit()) { last } else { "unreadable" }
}
