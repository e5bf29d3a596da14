//! All suites in one program, so that the crates below are linked once.

#![allow(clippy::unwrap_used)]

mod ckks;
mod ckks_flooding;
mod ckks_format;
mod ckks_key_file;
mod client_key;
mod common;
mod evaluation_keys;
mod key_file;
mod public_and_packed;
mod randomness;
mod whole;
