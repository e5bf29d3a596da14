//! Project rules that a program can check.

#![forbid(unsafe_code)]

pub mod circles;
mod dependencies;
pub mod language;

pub use dependencies::{packages, reachable, violations};
