//! The slots of an arena: which are free, and how many are spoken for.

use super::memory::Reserved;

/// The slots of an arena.
#[derive(Default)]
pub(super) struct Slots {
    free: Vec<u32>,
    /// Free ones whose contents have been forgotten: the first so many.
    forgotten: usize,
    next: u32,
    /// Slots that the rows under way may come to need. Never more than the arena has, so that taking never fails.
    pub(super) reserved: Reserved,
}

/// What a row may come to need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Slots, and as many more as what keeps account of the row would fill.
    pub(super) slots: u32,
    /// Is it a row that ends soon, having few values?
    pub(super) is_small: bool,
}

/// Of a value that has none.
pub(super) const NO_SLOT: u32 = u32::MAX;

impl Slots {
    /// Speaks for so many rows.
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

    /// Frees a value's slot, if it has one.
    pub(super) fn give_back(&mut self, slot: &mut u32) {
        if *slot != NO_SLOT {
            self.free.push(std::mem::replace(slot, NO_SLOT));
        }
    }

    /// Free slots that may still hold something. They are taken to be forgotten now.
    pub(super) fn forget(&mut self) -> &[u32] {
        let forgotten = std::mem::replace(&mut self.forgotten, self.free.len());
        &self.free[forgotten..]
    }

    /// Slots that are not free.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.next as usize - self.free.len()
    }
}
