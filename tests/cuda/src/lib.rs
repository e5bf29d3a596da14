//! A GPU for tests: the CUDA kernels, compiled for the processor, with every thread of a block a fiber (`emulator/`).

pub mod emulator;
pub mod gpu;
