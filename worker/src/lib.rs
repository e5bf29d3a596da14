//! The worker.

#![forbid(unsafe_code)]

mod cpu;
mod locked;

pub use cpu::CpuDevice;
