//! Whether a GPU of the device is lost.

use std::sync::OnceLock;

use super::DriverError;

/// Why nothing more is asked of the device's GPUs, noted once, by whoever was failed first. All of them share it: what one
/// computes may lie in the memory of another.
#[derive(Default)]
pub(crate) struct Loss(OnceLock<String>);

impl Loss {
    /// Takes down what became of a GPU, the one of that number.
    pub(crate) fn note(&self, number: usize, gpu: &str, message: &str) {
        self.0.get_or_init(|| {
            tracing::error!(number, gpu, cause = message, "a GPU is lost: the device takes no more work");
            format!("GPU {number}, {gpu}: {message}")
        });
    }

    /// Which GPU is lost, and why.
    pub(crate) fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Are all GPUs there?
    pub(crate) fn check(&self) -> Result<(), DriverError> {
        self.why().map_or(Ok(()), |why| Err(DriverError::Lost(why.to_owned())))
    }
}
