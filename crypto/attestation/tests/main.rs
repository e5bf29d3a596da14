//! Attestations that hold, and every way in which they may not.

mod anchor;
mod attestation;
mod common;
mod encoding;
