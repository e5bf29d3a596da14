//! Conversions between the evaluation core and tfhe-rs.

#![forbid(unsafe_code)]
