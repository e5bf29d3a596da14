//! The number that the database and its store of blobs share.

use super::Connection;
use crate::Error;

/// The number of a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker {
    pub(crate) number: [u8; 16],
    /// Whether the store is known to have the marker.
    pub(crate) is_placed: bool,
}

/// The number, if the database has one.
pub(crate) async fn find(sql: &mut Connection) -> Result<Option<Marker>, Error> {
    let row = sql.query("SELECT number, is_placed FROM store_marker").optional().await?;
    row.map(|row| Ok(Marker { number: row.array("number")?, is_placed: row.flag("is_placed")? })).transpose()
}

/// Gives the database a number, in place of any other.
pub(crate) async fn replace(sql: &mut Connection, number: [u8; 16]) -> Result<Marker, Error> {
    sql.query("DELETE FROM store_marker").execute().await?;
    sql.query("INSERT INTO store_marker (number, is_placed) VALUES ($1, 0)").bind(number).execute().await?;
    Ok(Marker { number, is_placed: false })
}

/// Notes that the store has the marker.
pub(crate) async fn set_placed(sql: &mut Connection) -> Result<(), Error> {
    sql.query("UPDATE store_marker SET is_placed = 1").execute().await?;
    Ok(())
}
