//! What a compiled program is made of: the instructions of each function, as `objdump` reads them.
//!
//! Two ask: the gate of this crate, which counts the instructions of our AVX-512 kernels, and `tests/peers`, which
//! must know that a peer without AVX-512 is one.

#![forbid(unsafe_code)]

pub mod disassembly;
