//! One small object of every kind, and what any bytes whatever must survive. The fuzz targets of `tests/fuzz`
//! and the tests of this crate call the same functions.

#![forbid(unsafe_code)]

mod cases;
mod inputs;
pub mod parameters;

pub use cases::{Case, Comparison, KEY_ID, all, named};
pub use inputs::{
    TARGETS, Target, decode_lwe_list_input, decode_seeded_bootstrap_key_input, decode_seeded_key_switch_key_input,
    reseal, verify_envelope_input,
};
