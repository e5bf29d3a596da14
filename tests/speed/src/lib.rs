//! The instructions of each function of a compiled program, as read by `objdump`.
//!
//! There are two users. The gate of this crate counts the instructions of our AVX-512 kernels.
//! `tests/peers` checks that a peer without AVX-512 contains none.

#![forbid(unsafe_code)]

pub mod disassembly;
