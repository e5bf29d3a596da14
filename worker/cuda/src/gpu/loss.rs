//! Whether a GPU of the device is lost.

use std::sync::OnceLock;

use super::DriverError;

/// Reason why the device's GPUs get no more requests. The first failure sets it, once. All GPUs
/// share it: the results of one may lie in the memory of another.
#[derive(Default)]
pub(crate) struct Loss(OnceLock<String>);

impl Loss {
    /// Records the loss of the GPU of number `number`.
    pub(crate) fn note(&self, number: usize, gpu: &str, message: &str) {
        self.0.get_or_init(|| {
            tracing::error!(number, gpu, cause = message, "a GPU is lost: the device takes no more work");
            format!("GPU {number}, {gpu}: {message}")
        });
    }

    /// The GPU that is lost, and the reason.
    pub(crate) fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Fails if a GPU of the device is lost.
    pub(crate) fn check(&self) -> Result<(), DriverError> {
        self.why().map_or(Ok(()), |why| Err(DriverError::Lost(why.to_owned())))
    }
}
