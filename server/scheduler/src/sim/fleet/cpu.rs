//! Processor time of the schedulers.

use std::io::{Read as _, Seek as _};
use std::time::Instant;

/// A clock of this thread's processor time. Without `/proc`, a clock of real time.
pub(super) struct Cpu {
    file: Option<std::fs::File>,
    begun: Instant,
}

impl Cpu {
    pub(super) fn new() -> Self {
        Self { file: std::fs::File::open("/proc/thread-self/schedstat").ok(), begun: Instant::now() }
    }

    pub(super) fn nanos(&mut self) -> u64 {
        self.of_thread().unwrap_or_else(|| self.begun.elapsed().as_nanos() as u64)
    }

    fn of_thread(&mut self) -> Option<u64> {
        let file = self.file.as_mut()?;
        let mut bytes = [0; 64];
        file.rewind().ok()?;
        let len = file.read(&mut bytes).ok()?;
        str::from_utf8(&bytes[..len]).ok()?.split_ascii_whitespace().next()?.parse().ok()
    }
}
