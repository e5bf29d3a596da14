//! Devices that compute waves.

use std::{sync::Arc, time::Duration};

use cloakwork_cuda::{CudaDevice, gpu};
use cloakwork_device::{Device, DeviceError};

use crate::{CpuDevice, WorkerError};

/// Choice of devices for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Devices {
    /// GPUs if there are any, otherwise the CPU
    Auto,
    /// The CPU
    Cpu,
    /// GPUs; without any, the worker does not start
    Cuda,
}

/// An opened device and its properties.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    /// The GPUs of the device, in their order.
    pub(crate) gpus: Vec<gpu::Description>,
    /// Default name of the worker's pool.
    pub(crate) pool: &'static str,
    /// Memory of the device itself, in bytes. `None` for a device that shares the machine's memory.
    pub(crate) memory: Option<u64>,
}

impl Devices {
    /// Opens the device and logs its properties. The CPU gets `threads` threads. GPUs get
    /// `warm_memory` bytes of host memory for evicted keys.
    pub(crate) fn open(self, threads: usize, pin_threads: bool, warm_memory: u64) -> Result<Opened, WorkerError> {
        let error = match (self, gpu::find()) {
            (Self::Auto | Self::Cuda, Ok(gpus)) => return open_gpus(gpus, warm_memory),
            (Self::Cuda, Err(error)) => return Err(DeviceError::from(error).into()),
            (_, found) => found.err(),
        };
        if let (Self::Auto, Some(error)) = (self, error) {
            tracing::info!("{error}: computing on {threads} threads");
        }
        Ok(Opened { device: open_cpu(threads, pin_threads)?, gpus: Vec::new(), pool: "cpu", memory: None })
    }
}

/// Opens the CPU with the given number of threads.
pub(crate) fn open_cpu(threads: usize, pin_threads: bool) -> Result<Arc<CpuDevice>, WorkerError> {
    if !pin_threads {
        return Ok(Arc::new(CpuDevice::new(threads)?));
    }
    let problem = |error: std::io::Error| WorkerError::Option { option: "pin_threads", problem: error.to_string() };
    Ok(Arc::new(CpuDevice::pinned(threads).map_err(problem)?))
}

/// A GPU's memory divided by this number is left for waves in progress and for other processes.
const RESERVED_MEMORY_DIVISOR: u64 = 8;

/// Retention time in host memory of a key that is on no GPU. The bound is necessary because nothing
/// notifies a worker of deleted keys.
const WARM_KEY_RETENTION: Duration = Duration::from_secs(3600);

fn open_gpus(gpus: Vec<Arc<dyn gpu::Driver>>, warm_memory: u64) -> Result<Opened, WorkerError> {
    let descriptions: Vec<_> = gpus.iter().map(|gpu| gpu.describe().clone()).collect();
    for (number, gpu) in descriptions.iter().enumerate() {
        let (name, mebibytes) = (&gpu.name, gpu.memory_bytes >> 20);
        tracing::info!(number, name, mebibytes, multiprocessors = gpu.multiprocessors, "computing on a GPU");
    }
    let least = descriptions.iter().map(|gpu| gpu.memory_bytes).min();
    let memory = least.map(|bytes| bytes - bytes / RESERVED_MEMORY_DIVISOR);
    let device = Arc::new(CudaDevice::new(gpus)?.with_warm_keys(warm_memory, WARM_KEY_RETENTION)?);
    Ok(Opened { device, gpus: descriptions, pool: "gpu", memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_replaces_missing_gpus_unless_gpus_are_required() {
        // Tests are built without kernels, so that no GPU is ever found.
        let opened = Devices::Auto.open(1, false, 0).expect("a processor");
        assert_eq!((opened.pool, opened.memory, opened.device.describe().kind), ("cpu", None, "cpu"));
        let refused = Devices::Cuda.open(1, false, 0).err().expect("no GPU").to_string();
        assert!(refused.contains("no GPU: this binary was built without kernels"), "{refused}");
    }
}
