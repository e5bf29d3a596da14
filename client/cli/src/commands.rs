//! The commands, one file each.

pub(crate) mod admin;
pub(crate) mod anchor;
pub(crate) mod bench;
pub(crate) mod ckks;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod gate;
pub(crate) mod jobs;
pub(crate) mod keygen;
pub(crate) mod keys;
pub(crate) mod pbs;
pub(crate) mod sets;
pub(crate) mod top;
pub(crate) mod uploads;
