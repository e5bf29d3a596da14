//! The Cloakwork server. [`config`] says what can be set, [`error`] what callers are told, [`limits`] how much of
//! everything there may be.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
pub mod auth;
pub mod cli;
pub mod config;
pub mod connection;
pub mod database;
pub mod dev_certs;
pub mod edge;
pub mod error;
pub mod limits;
pub mod logging;
pub mod metrics;
pub mod page;
pub mod resource;
mod run;
pub mod tls;

pub use run::{RunError, Server, run};
