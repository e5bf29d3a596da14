//! Typed programs, and the bootstrap graphs they become.
//!
//! A [`Program`] is what a client writes and a server checks; [`Program::lower`] turns it into a [`Graph`], whose nodes
//! are linear combinations of ciphertexts with or without a lookup table, which is what devices compute. Programs on
//! vectors of approximate numbers are another family, [`ckks`]. Pure: no clock, no randomness, no I/O.

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
mod program;

/// The message that programs are written in.
#[allow(missing_docs, reason = "proto/cloakwork/v1/program.proto is its documentation")]
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/cloakwork.v1.rs"));
}

pub use any_program::AnyProgram;
pub use error::ProgramError;
pub use evaluate::EvaluationError;
pub use graph::{Cost, Graph, Node, Output, Table, Term, ValueId};
pub use integer::{Goal, LANES_ASSUMED};
pub use program::{Input, LIMITS, Limits, Operation, Program, ProgramId, RowType, Type};
