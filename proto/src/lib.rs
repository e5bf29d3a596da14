//! The gRPC surface of Cloakwork. The files under `proto/cloakwork/v1` are the contract and its
//! documentation. This crate holds the code generated from these files, and the rules that clients,
//! workers and servers share. The rules say where a token may go, and which text of the other side
//! is safe to show.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the protocol files are the documentation, and many of their names need no comment")]
#![allow(clippy::large_enum_variant, clippy::derive_partial_eq_without_eq, reason = "generated")]

mod connect;
mod text;

pub use connect::is_loopback;
pub use text::{from_hex, is_deceptive, printable, printable_at_most, printable_json};

/// Version 1.
pub mod v1 {
    tonic::include_proto!("cloakwork.v1");
}

/// The compiled protocol, for reflection and for tests that inspect it.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Header with the shard that a worker serves, in calls of the worker and in answers to it. A
/// server adds the header to its answers, and refuses calls that name a shard that it does not own.
pub const SHARD_OF_WORKER: &str = "cloakwork-shard";
