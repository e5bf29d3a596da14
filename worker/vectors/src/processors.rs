//! The machine's processors as a unit that computes rows.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use cloakwork_circuit::ckks::{Action, Program};
use cloakwork_ckks::KeyPart;
use cloakwork_device::{DeviceError, KeySlot, Row, RowError, RowResult, VectorUnit};
use cloakwork_params::ckks::{CKKS_SETS, CkksSet};

use crate::{Keys, Matrices, Part, ring, run};

/// The processors, with memory for one row at a time. Each row uses all threads.
pub struct Processors {
    threads: usize,
    matrices: Matrices,
    matrix_bytes: u64,
    value_bytes: u64,
    numbers: AtomicU64,
    parts: Mutex<HashMap<u64, Part>>,
}

impl Processors {
    /// Processors that compute on `threads` threads, with `matrix_bytes` bytes for the matrices of
    /// bootstraps and `value_bytes` bytes for the values of a row.
    pub fn new(threads: usize, matrix_bytes: u64, value_bytes: u64) -> Self {
        let matrices = Matrices::new(usize::try_from(matrix_bytes).unwrap_or(usize::MAX), threads);
        let numbers = AtomicU64::new(1);
        Self { threads, matrices, matrix_bytes, value_bytes, numbers, parts: Mutex::default() }
    }

    /// The keys that some parts make up. Parts share their contents, so that this copies little.
    fn keys(&self, slots: &[KeySlot]) -> Result<Keys, RowError> {
        let parts = self.parts();
        let part = |slot: &KeySlot| parts.get(&slot.number).cloned();
        let named: Option<Vec<Part>> = slots.iter().map(part).collect();
        drop(parts);
        let named = named.ok_or(DeviceError::UnknownHandle { what: "part of a key" })?;
        Keys::of_parts(named).map_err(RowError::Keys)
    }

    /// Each statement under this lock leaves the map consistent, so that a poisoned lock is safe to
    /// use.
    fn parts(&self) -> MutexGuard<'_, HashMap<u64, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VectorUnit for Processors {
    fn sets(&self) -> Vec<&'static CkksSet> {
        CKKS_SETS.iter().collect()
    }

    fn load_part(&self, set: &'static CkksSet, part: KeyPart) -> Result<KeySlot, DeviceError> {
        let part = Part::expand(ring(set), part, self.threads).map_err(DeviceError::WrongPart)?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let slot = KeySlot { number, bytes: part.bytes() as u64 };
        self.parts().insert(number, part);
        Ok(slot)
    }

    fn evict_part(&self, part: KeySlot) {
        // The part may free much memory, so the lock is released first.
        let freed = self.parts().remove(&part.number);
        drop(freed);
    }

    fn check(&self, program: &Program) -> Result<(), DeviceError> {
        let bootstraps = program.steps().iter().filter_map(|step| match step.action {
            Action::Bootstrap(_, kind) => Some(kind.matrix_bytes(program.set())),
            _ => None,
        });
        for (what, needed, most) in [
            ("the matrices of a bootstrap", bootstraps.max().unwrap_or(0), self.matrix_bytes),
            ("its numbers", program.cost().memory_bytes_on(self.threads), self.value_bytes),
        ] {
            if needed > most {
                return Err(DeviceError::TooLarge { what, needed, most });
            }
        }
        Ok(())
    }

    fn compute(&self, row: Row<'_>) -> Result<RowResult, RowError> {
        let keys = self.keys(row.parts)?;
        run(row.program, row.inputs, &keys, &self.matrices, self.threads, row.goes_on)
    }
}
