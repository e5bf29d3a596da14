//! To be filled.

#![forbid(unsafe_code)]
