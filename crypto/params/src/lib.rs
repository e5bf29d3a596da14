//! Named parameter sets, object kinds and the envelope that every key and ciphertext travels in.
//!
//! A leaf: it knows no cryptography, only the data that both sides must agree on.

#![forbid(unsafe_code)]

mod any_set;
pub mod ckks;
pub mod envelope;
pub mod info;
pub mod kind;
pub mod layout;
pub mod noise;
pub mod set;
pub mod table;

pub use any_set::AnySet;
pub use envelope::{EnvelopeError, EnvelopeReader, EnvelopeWriter, Header, Seed};
pub use info::CiphertextInfo;
pub use kind::{KeyId, ObjectKind};
pub use layout::{Expected, Layout};
pub use set::{
    CompressionId, CompressionSet, Decomposition, Encoding, FailureProbability, ModulusSwitch, Noise, Order,
    ParameterSet, Security, SetId, Standing, TorusWidth,
};
