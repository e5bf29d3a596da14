//! The CUDA kernels, compiled for the processor: every thread of a block is a fiber (`emulator/emulator.h`).

pub mod emulator;
