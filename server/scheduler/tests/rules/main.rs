//! The scheduler's rules, one test each, readable as its documentation.

mod acquittal;
mod checks;
mod common;
mod figures;
mod long;
mod order;
mod poison;
mod refusals;
