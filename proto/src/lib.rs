//! The gRPC surface of Cloakwork. The files under `proto/cloakwork/v1` are the contract and its documentation; this
//! crate is what the compiler makes of them, and the one rule that all who connect keep to.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the protocol files are the documentation, and much of them is their own comment")]
#![allow(clippy::large_enum_variant, clippy::derive_partial_eq_without_eq, reason = "generated")]

mod connect;

pub use connect::is_loopback;

/// Version 1.
pub mod v1 {
    tonic::include_proto!("cloakwork.v1");
}

/// The compiled protocol, for reflection and for tests that ask what it holds.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
