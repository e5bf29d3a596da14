//! Several servers on one database: faults with real processes and real kills.
//!
//! A trial starts a cluster ([`Cluster`]), lets callers run jobs ([`Load`]), and does one harm to
//! the cluster ([`Fault`]). Each result is decrypted and compared. The program `chaos` runs many
//! trials, and appends them to the ledger ([`ledger`]), from which docs/reliability.md has its
//! figures.

#![forbid(unsafe_code)]

mod cluster;
mod fault;
pub mod ledger;
mod load;
mod races;
mod storm;
mod trial;
mod wire;

pub use cluster::{Cluster, Member, Size};
pub use fault::Fault;
pub use load::{Load, Outcome};
pub use storm::{Storm, storm};
pub use trial::{Trial, run};
pub use wire::{Course, Wire};
