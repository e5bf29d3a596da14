//! A GPU for tests: the CUDA kernels compiled for the CPU, with a fiber for every thread of a block
//! (`emulator/`).

pub mod emulator;
pub mod gpu;
