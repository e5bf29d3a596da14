//! The Cloakwork server. [`config`] defines the settings, [`error`] the errors returned to callers,
//! and [`limits`] the limits on all resources. A call passes the [`edge`] and reaches one of the
//! [`services`]. The [`dispatch`] module decides on changes, and the [`store`] and the key store
//! persist them.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod address;
pub mod admin;
pub mod admit;
pub mod audit;
pub mod auth;
pub mod backend;
mod blobs;
pub mod caller;
pub mod cli;
pub mod config;
pub mod connection;
pub mod console;
mod data;
pub mod database;
pub mod day_quota;
pub mod dev_certs;
pub mod digest;
pub mod dispatch;
pub mod edge;
pub mod error;
pub mod hosts;
pub mod installation;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod logging;
mod message;
pub mod metering;
pub mod metrics;
mod moving;
mod open_files;
pub mod operators;
pub mod owner;
pub mod page;
pub mod programs;
pub mod pulse;
pub mod quota;
mod readings;
pub mod resource;
mod run;
pub mod services;
pub mod shards;
pub mod store;
pub mod sweep;
pub mod tasks;
pub mod tenant;
pub mod tenant_limits;
#[cfg(test)]
mod test_backend;
#[cfg(test)]
mod test_objects;
pub mod tls;

pub use blobs::BlobsError;
pub use data::DataError;
pub use run::{RunError, Server, run};
