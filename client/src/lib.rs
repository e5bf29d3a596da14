//! The Rust SDK of Cloakwork: keys, encrypted values, programs and jobs.
//!
//! Secret keys never leave the process: the server gets evaluation keys and ciphertexts. Encrypted
//! values have operators:
//!
//! ```no_run
//! use cloakwork_client::{Client, ConnectOptions, Keys, Progress, Session, set_by_name};
//!
//! # async fn example() -> Result<(), cloakwork_client::ClientError> {
//! let client = Client::connect(&ConnectOptions::new("http://127.0.0.1:7270")).await?;
//! let set = set_by_name("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128")?;
//! let keys = Keys::generate(set, Progress::none()).await?;
//! client.push_key(&keys, &Progress::none()).await?;
//! let session = Session::new(client, keys).await?;
//!
//! let (x, y) = (session.encrypt(7_u64)?, session.encrypt(9_u64)?);
//! assert_eq!((x.max(&y) * 3).decrypt().await?, 27);
//! # Ok(())
//! # }
//! ```
//!
//! Results are verified: a worker signs whose job, program, inputs and evaluation key they belong
//! to. A client of a server on another machine needs the anchor of its installation
//! ([`ConnectOptions::anchor`]). A client that did not push its key itself names it by
//! [`Client::use_key`].
//!
//! Computations on single blocks, custom tables and many rows are programs, built value by value:
//!
//! ```no_run
//! use cloakwork_client::{Client, ConnectOptions, JobRequest, Keys, ProgramBuilder, Progress, set_by_name};
//!
//! # async fn example() -> Result<(), cloakwork_client::ClientError> {
//! let set = set_by_name("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128")?;
//! let client = Client::connect(&ConnectOptions::new("http://127.0.0.1:7270")).await?;
//! let keys = Keys::generate(set, Progress::none()).await?;
//! let key = client.push_key(&keys, &Progress::none()).await?;
//!
//! let mut program = ProgramBuilder::new(set);
//! let x = program.input_up_to("x", 15);
//! let square = program.lookup(x, |x| x * x % 16);
//! program.output(square);
//!
//! let job = JobRequest::new(program.build()?, &key.name).encrypted(keys.encrypt(&[1, 2, 3], 15)?);
//! let finished = client.run(&job).await?;
//! assert_eq!(*keys.decrypt(&client.output(&finished.output(0)?).await?)?, [1, 4, 9]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod ciphertexts;
mod ckks;
mod client;
mod connect;
mod digest;
mod error;
mod fhe;
mod integer;
mod jobs;
mod keys;
mod latency;
mod names;
mod operator;
mod origin;
mod pages;
mod program;
mod progress;
mod response;
mod retry;
mod shape;
mod upload;

pub use bytes::Bytes;
pub use ckks::{
    BootstrapKind, CkksBootstrap, CkksKeys, CkksPublicKey, CkksWish, Complex, Flooding, KeySize, Vector, VectorProgram,
    VectorProgramBuilder, VectorValue, ckks_set_by_name,
};
pub use client::Client;
/// Public keys of an installation, and why a result is not one of its own.
pub use cloakwork_attestation::{Anchor, AnchorError, AttestationError};
pub use cloakwork_circuit::{LIMITS, ProgramError, RowType, Type, wire::operation::Kind};
/// Parameter sets, for which programs are written.
pub use cloakwork_params as params;
/// Reads hexadecimal digits.
pub use cloakwork_proto::from_hex;
/// The messages of the protocol.
pub use cloakwork_proto::v1 as proto;
/// Makes text from the other side safe to show.
pub use cloakwork_proto::{printable, printable_json};
pub use cloakwork_secret::{
    Gate, SecretError,
    ckks::{CkksError, NoSuchBootstrap, format::FormatError as CkksFormatError},
    file::KeyFileError,
    format::FormatError,
};
/// The context of a trace.
pub use cloakwork_trace::{SpanId, TraceContext, TraceId};
pub use connect::{ConnectOptions, Identity, Token, sized};
pub use digest::Digest;
pub use error::{ClientError, Refusal, Result};
pub use fhe::{
    AnyFhe, Clear, Fhe, FheArray, FheBool, FheInt8, FheInt16, FheInt32, FheInt64, FheInt128, FheUint8, FheUint16,
    FheUint32, FheUint64, FheUint128, Session,
};
pub use integer::Integer;
pub use jobs::{Finished, Input, JobRequest, Output};
pub use keys::{AnyKeys, CLIENT_KEY_FILE, EvaluationKey, Keys, Part, make_directory, set_by_name};
pub use latency::{STAGES, add_transit, has_ended, stage_nanos};
pub use operator::Operator;
pub use origin::{Asked, Trust};
pub use program::{AnyProgram, Program, ProgramBuilder, Value};
pub use progress::{Progress, Step};
/// A time of day in the messages of the protocol.
pub use prost_types::Timestamp;
pub use retry::RetryPolicy;
pub use shape::{BlocksShape, Encrypted, Shape, VectorHeader, VectorShape};
pub use tonic::Code;
pub use upload::Source;
