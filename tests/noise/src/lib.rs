//! Measures the noise of the evaluation core and compares it with the formula of
//! `cloakwork_params::noise`.

#![forbid(unsafe_code)]

pub mod keys;
pub mod measure;
pub mod statistics;
pub mod transform;
