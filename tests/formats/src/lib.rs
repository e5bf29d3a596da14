//! One small object of every kind, and checks of decoders on arbitrary bytes. The fuzz targets of
//! `tests/fuzz` and the tests of this crate call the same functions.

#![forbid(unsafe_code)]

mod attestations;
mod cases;
mod ckks;
mod inputs;
pub mod parameters;

pub use attestations::{read_anchor_input, verify_attestation_input};
pub use cases::{Case, Comparison, KEY_ID, all, named};
pub use ckks::{
    CkksCase, Decoder, all_of_ckks, decode_ckks_ciphertext_input, decode_seeded_ckks_ciphertext_input,
    decode_seeded_ckks_public_key_input, decode_seeded_ckks_switch_key_input,
};
pub use inputs::*;
