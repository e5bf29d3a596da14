//! Measures the noise of the evaluation core and holds the formula of `cloakwork_params::noise` against it.

#![forbid(unsafe_code)]

pub mod random;
pub mod transform;
