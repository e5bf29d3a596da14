//! Programs on vectors of approximate numbers, run on ciphertexts. A worker uses this crate for a
//! job under a CKKS parameter set, once inputs and keys are there.
//!
//! An [`Engine`] hands jobs to the part of a device that computes vectors, grouped by key.
//! [`Processors`] compute where the device has no such part. There, [`run`] executes a plan step by
//! step, and [`Matrices`] caches the data of bootstraps that does not depend on a key.
//! [`self_test`] runs before any job.

#![forbid(unsafe_code)]

mod engine;
mod keys;
mod line;
mod matrices;
mod objects;
mod processors;
mod run;
mod self_test;
mod times;

pub use engine::{Engine, Finished, Job};
pub use keys::{Keys, Part};
pub use line::Line;
pub use matrices::{Matrices, ring};
pub use objects::{InputError, read_input, read_part, write_output};
pub use processors::Processors;
pub use run::run;
pub use self_test::{SelfTestError, self_test};
