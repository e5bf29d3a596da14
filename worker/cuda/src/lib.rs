//! Devices of GPUs, through CUDA.
//!
//! [`CudaDevice`] is one or more GPUs: keys, tables and ciphertext slots in their memory, and a
//! thread for each GPU that launches parts of waves. `gpu` contains the layers below: memory,
//! kernels as functions that check their arguments, and the driver, for which tests substitute an
//! emulator. The kernels themselves are in `kernels/`. `sensors` reads the power, load and errors
//! of GPUs.

mod bench;
mod device;
pub mod gpu;
mod key;
mod locked;
mod queue;
mod roots;
mod run;
pub mod sensors;
mod workspace;

pub use device::CudaDevice;
pub use key::{rotation_shape, serves};
pub use roots::roots;
