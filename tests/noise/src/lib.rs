//! Measures the noise of the evaluation core and holds the formula of `cloakwork_params::noise` against it.

#![forbid(unsafe_code)]

pub mod keys;
pub mod measure;
pub mod statistics;
pub mod transform;
