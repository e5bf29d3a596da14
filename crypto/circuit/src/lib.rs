//! Typed programs and their lowering to graphs of bootstraps.
//!
//! A client writes a [`Program`] and a server checks it. [`Program::lower`] turns it into a
//! [`Graph`] for devices to compute. The nodes of a graph are linear combinations of ciphertexts,
//! with or without a lookup table. Programs on vectors of approximate numbers are a separate
//! family, [`ckks`]. The crate is pure: no clock, no randomness, no I/O.

#![forbid(unsafe_code)]

mod aes;
mod any_program;
pub mod ckks;
mod draft;
mod error;
mod evaluate;
mod graph;
mod integer;
mod lower;
mod message;
mod operation;
mod program;

/// The protobuf messages that encode programs.
#[allow(missing_docs, reason = "proto/cloakwork/v1/program.proto is its documentation")]
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/cloakwork.v1.rs"));
}

pub use any_program::AnyProgram;
pub use error::ProgramError;
pub use evaluate::EvaluationError;
pub use graph::{Cost, Graph, Node, Output, Table, Term, ValueId};
pub use integer::{Goal, LANES_ASSUMED};
pub use operation::operation_named;
pub use program::{Input, LIMITS, Limits, Operation, Program, ProgramId, RowType, Type};
