//! All suites in one program, so that tfhe-rs is linked once.

#![allow(clippy::unwrap_used)]

mod arithmetic;
mod booleans;
mod common;
mod compression;
mod integers;
mod keys_of_ours;
mod keys_of_tfhe;
mod lists;
mod lookup_tables;
mod operations;
mod seeded_keys;
