//! The Cloakwork server. [`config`] says what can be set, [`error`] what callers are told, [`limits`] how much of
//! everything there may be. A call passes the [`edge`], reaches one of the [`services`], and what it changes is decided
//! by [`dispatch`] and kept by the [`store`] and the key store.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod address;
pub mod admin;
pub mod admit;
pub mod auth;
pub mod backend;
pub mod caller;
pub mod cli;
pub mod clock;
pub mod config;
pub mod connection;
pub mod database;
pub mod dev_certs;
pub mod digest;
pub mod dispatch;
pub mod edge;
pub mod error;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod logging;
pub mod metrics;
pub mod page;
pub mod programs;
pub mod quota;
pub mod resource;
mod run;
pub mod services;
pub mod store;
pub mod sweep;
pub mod tasks;
pub mod tenant;
pub mod tls;

pub use run::{RunError, Server, run};
