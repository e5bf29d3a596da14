//! The slots of an arena: free slots and reservations.

use super::memory::Reserved;

/// The slots of an arena.
#[derive(Default)]
pub(super) struct Slots {
    free: Vec<u32>,
    /// Number of slots at the start of `free` whose contents are discarded already.
    forgotten: usize,
    next: u32,
    /// Slots that the rows in progress may need. The sum never exceeds the arena, so that taking a
    /// slot never fails.
    pub(super) reserved: Reserved,
}

/// Slot need of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Number of slots, including as many as the bookkeeping of the row would fill.
    pub(super) slots: u32,
    /// Whether the row is small: it has few values and therefore ends soon.
    pub(super) is_small: bool,
}

/// Slot of a value that has none.
pub(super) const NO_SLOT: u32 = u32::MAX;

impl Slots {
    /// Reserves slots for `count` rows.
    pub(super) fn reserve(&mut self, row: Need, count: usize) {
        *self.class(row) += u64::from(row.slots) * count as u64;
    }

    pub(super) fn unreserve(&mut self, row: Need) {
        *self.class(row) -= u64::from(row.slots);
    }

    fn class(&mut self, row: Need) -> &mut u64 {
        if row.is_small { &mut self.reserved.small } else { &mut self.reserved.large }
    }

    pub(super) fn take(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.forgotten = self.forgotten.min(self.free.len());
        slot
    }

    /// Frees a value's slot, if the value has one.
    pub(super) fn give_back(&mut self, slot: &mut u32) {
        if *slot != NO_SLOT {
            self.free.push(std::mem::replace(slot, NO_SLOT));
        }
    }

    /// Free slots that may still hold a ciphertext. The caller discards them, so they now count as
    /// discarded.
    pub(super) fn forget(&mut self) -> &[u32] {
        let forgotten = std::mem::replace(&mut self.forgotten, self.free.len());
        &self.free[forgotten..]
    }

    /// Number of slots that were ever taken.
    pub(super) fn ever_taken(&self) -> u64 {
        self.next.into()
    }

    /// Number of slots that are not free.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.next as usize - self.free.len()
    }
}
