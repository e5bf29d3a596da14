//! The Cloakwork server. [`config`] says what can be set, [`error`] what callers are told, [`limits`] how much of
//! everything there may be.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod auth;
pub mod caller;
pub mod clock;
pub mod config;
pub mod database;
pub mod digest;
pub mod dispatch;
pub mod embedded;
pub mod error;
pub mod jobs;
pub mod limits;
pub mod logging;
pub mod page;
pub mod programs;
pub mod resource;
pub mod services;
pub mod store;
pub mod sweep;
