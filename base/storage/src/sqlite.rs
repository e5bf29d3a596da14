//! The adapter for SQLite. No file outside this folder names a type of the driver.

mod absorb;
mod error;
mod open;
mod script;
mod session;

pub(crate) use absorb::absorb;
pub(crate) use open::{Access, open, version};
pub(crate) use session::{Row, Session};
