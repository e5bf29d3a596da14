//! A GPU: memory, launches and clocks. All unsafe code of the crate is in this module. The public
//! functions check every length and every index before a kernel uses it.

#![allow(unsafe_code)]

mod arena;
mod buffer;
mod driver;
mod launches;
mod lists;
mod loss;
mod nvidia;
mod pinned;
mod refilled;
mod staging;
mod watched;

pub(crate) use arena::GpuArena;
pub use buffer::{Buffer, View};
pub use driver::{Address, Description, Download, Driver, DriverError, GPU_MARK_TIMEOUT, MARKS, Stream, Upload};
pub use launches::{
    BootstrapKeyViews, Complex, KeySwitchShape, Launcher, Line, Places, RotationShape, RotationViews, SeededRows,
};
pub use lists::{Lists, Table, Work};
pub(crate) use loss::Loss;
pub use nvidia::{find, kernels_are_built_in};
pub use pinned::Pinned;
pub(crate) use refilled::Refilled;
pub use staging::Staging;
pub(crate) use watched::Watched;
