//! GPUs as devices, by CUDA.
//!
//! [`CudaDevice`] is one or more GPUs: keys, tables and ciphertext slots in their memory, and a thread for each that launches
//! parts of waves. `gpu` has what is below it: memory, kernels as functions that check their arguments, and the driver, which tests replace by an
//! emulator. The kernels themselves are in `kernels/`. `sensors` reads what GPUs draw and how they fare.

mod bench;
mod device;
pub mod gpu;
mod key;
mod queue;
mod roots;
mod run;
pub mod sensors;
mod workspace;

pub use device::CudaDevice;
pub use key::{rotation_shape, serves};
pub use roots::roots;
