//! The scheduler's rules, one test each, readable as its documentation.

mod common;
mod order;
mod poison;
