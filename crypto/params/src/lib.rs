//! Named parameter sets, object kinds, and the envelope format of every key and ciphertext.
//!
//! This crate is a leaf without cryptography. The crate defines only the data on which both sides
//! must agree.

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
