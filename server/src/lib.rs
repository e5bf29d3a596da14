//! The Cloakwork server. [`config`] says what can be set, [`error`] what callers are told, [`limits`] how much of
//! everything there may be.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod auth;
pub mod config;
pub mod database;
pub mod error;
pub mod limits;
pub mod logging;
pub mod page;
pub mod resource;
