//! What a worker computes waves on.

use std::{sync::Arc, time::Duration};

use cloakwork_cuda::{CudaDevice, gpu};
use cloakwork_device::{Device, DeviceError};

use crate::{CpuDevice, WorkerError};

/// Which devices a worker uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Devices {
    /// GPUs where there are any, else processors
    Auto,
    /// Processors
    Cpu,
    /// GPUs; without any, the worker does not start
    Cuda,
}

/// A device, and what follows from what it is.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    /// The GPUs that it is, in their order.
    pub(crate) gpus: Vec<gpu::Description>,
    /// Name of the pool of workers that have the like.
    pub(crate) pool: &'static str,
    /// Memory that it has for itself, in bytes. A device without shares the machine's.
    pub(crate) memory: Option<u64>,
}

impl Devices {
    /// Opens them, and logs what there is. Processors get so many threads, GPUs so much memory of the machine's for keys that
    /// come back.
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

/// Processors, as many threads.
pub(crate) fn open_cpu(threads: usize, pin_threads: bool) -> Result<Arc<CpuDevice>, WorkerError> {
    if !pin_threads {
        return Ok(Arc::new(CpuDevice::new(threads)?));
    }
    let problem = |error: std::io::Error| WorkerError::Option { option: "pin_threads", problem: error.to_string() };
    Ok(Arc::new(CpuDevice::pinned(threads).map_err(problem)?))
}

/// Of a GPU's memory: what waves under way take, and what others on the machine may.
const SHARE_OF_OTHERS: u64 = 8;

/// How long a copy of a key that is on no GPU is kept for. Nobody says when a key is deleted.
const WARM: Duration = Duration::from_secs(3600);

fn open_gpus(gpus: Vec<Arc<dyn gpu::Driver>>, warm_memory: u64) -> Result<Opened, WorkerError> {
    let descriptions: Vec<_> = gpus.iter().map(|gpu| gpu.describe().clone()).collect();
    for (number, gpu) in descriptions.iter().enumerate() {
        let (name, mebibytes) = (&gpu.name, gpu.memory_bytes >> 20);
        tracing::info!(number, name, mebibytes, multiprocessors = gpu.multiprocessors, "computing on a GPU");
    }
    let least = descriptions.iter().map(|gpu| gpu.memory_bytes).min();
    let memory = least.map(|bytes| bytes - bytes / SHARE_OF_OTHERS);
    let device = Arc::new(CudaDevice::new(gpus)?.with_warm_keys(warm_memory, WARM)?);
    Ok(Opened { device, gpus: descriptions, pool: "gpu", memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_stand_in_for_gpus_unless_gpus_are_asked_for() {
        // Tests are built without kernels, so that no GPU is found anywhere.
        let opened = Devices::Auto.open(1, false, 0).expect("a processor");
        assert_eq!((opened.pool, opened.memory, opened.device.describe().kind), ("cpu", None, "cpu"));
        let refused = Devices::Cuda.open(1, false, 0).err().expect("no GPU").to_string();
        assert!(refused.contains("no GPU: this binary was built without kernels"), "{refused}");
    }
}
