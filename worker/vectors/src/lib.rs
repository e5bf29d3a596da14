//! Programs on vectors of approximate numbers, run on ciphertexts: what a worker does of a job under a parameter set of CKKS
//! once inputs and keys are there.
//!
//! An [`Engine`] computes jobs, of one key after another; [`run`] goes through a plan step by step; [`Matrices`] keeps what
//! bootstraps need that no key is in; [`self_test`] comes before all of it.

#![forbid(unsafe_code)]

mod engine;
mod keys;
mod line;
mod matrices;
mod objects;
mod run;
mod self_test;
mod times;

pub use engine::{Engine, Finished, Job};
pub use keys::{Keys, Part};
pub use line::Line;
pub use matrices::{Matrices, ring};
pub use objects::{InputError, read_input, read_part, write_output};
pub use run::{Run, RunError, run};
pub use self_test::{SelfTestError, self_test};
pub use times::Times;
