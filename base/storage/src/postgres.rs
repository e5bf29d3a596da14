//! The adapter for PostgreSQL. No file outside this folder names a type of the driver.

mod connect;
mod error;
mod locks;
mod migrate;
mod session;
mod sets;
mod standby;
mod values;

pub use connect::{Server, ServerError};
pub(crate) use migrate::migrate;
pub(crate) use session::{Row, Session};
pub(crate) use standby::STANDBYS;
pub use standby::Standbys;
