//! Sharing of the memory for rows in progress. Every group has an arena of its own, and all arenas
//! together may use no more memory than one.

/// A row is small if all of its values fit in the whole memory divided by this number.
const SMALL_ROW_DIVISOR: u64 = 64;
/// The whole memory divided by this number is kept for small rows, because large rows may take
/// hours.
const SMALL_ROWS_SHARE_DIVISOR: u64 = 8;

/// Free memory during admission. Groups begin rows in turn, and the group that has waited longest
/// is first.
#[derive(Debug)]
pub(super) struct Memory {
    whole: u64,
    /// Bytes of small rows in progress.
    small: u64,
    /// Bytes of large rows in progress.
    large: u64,
    /// Bytes of the row that has waited longest, if that row did not fit.
    next: u64,
}

/// Memory that rows in progress may need, in bytes or slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) small: u64,
    pub(super) large: u64,
}

impl Reserved {
    pub(super) fn all(self) -> u64 {
        self.small + self.large
    }
}

impl Memory {
    /// Memory of `whole` bytes, of which `reserved` is taken.
    pub(super) fn new(whole: u64, reserved: impl Iterator<Item = Reserved>) -> Self {
        let (mut small, mut large) = (0, 0);
        for reserved in reserved {
            small += reserved.small;
            large += reserved.large;
        }
        Self { whole, small, large, next: 0 }
    }

    /// Whether a row is small, given the size of all its values and of the whole memory, in bytes
    /// or slots.
    pub(super) fn is_small(whole: u64, row: u64) -> bool {
        row <= whole / SMALL_ROW_DIVISOR
    }

    /// Number of rows of `row` bytes that may begin.
    pub(super) fn rows(&self, row: u64, is_small: bool) -> usize {
        let free = self.whole.saturating_sub(self.small + self.large);
        let room = if self.small + self.large == 0 {
            self.whole
        } else if is_small {
            let kept = (self.whole / SMALL_ROWS_SHARE_DIVISOR).min(self.whole.saturating_sub(self.next));
            free.saturating_sub(self.next).max(kept.saturating_sub(self.small).min(free))
        } else {
            let most = (self.whole - self.whole / SMALL_ROWS_SHARE_DIVISOR).saturating_sub(self.large);
            most.min(free).saturating_sub(self.next)
        };
        usize::try_from(room / row.max(1)).unwrap_or(usize::MAX)
    }

    /// Reserves memory for `count` rows of `row` bytes.
    pub(super) fn take(&mut self, row: u64, is_small: bool, count: usize) {
        let bytes = row * count as u64;
        if is_small {
            self.small += bytes;
        } else {
            self.large += bytes;
        }
    }

    /// Keeps memory that becomes free for a row that did not fit. Only the first call counts: it is
    /// for the row that has waited longest.
    pub(super) fn keep_for(&mut self, row: u64) {
        if self.next == 0 {
            self.next = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(small: u64, large: u64) -> Memory {
        Memory::new(1024, [Reserved { small, large }].into_iter())
    }

    /// Number of rows that may begin, for rows that hold all their values at once.
    fn rows(memory: &Memory, row: u64) -> usize {
        memory.rows(row, Memory::is_small(1024, row))
    }

    #[test]
    fn a_row_that_takes_the_whole_memory_begins_alone() {
        assert_eq!(rows(&memory(0, 0), 1024), 1);
        assert_eq!(rows(&memory(1, 0), 1024), 0);
        assert_eq!(rows(&memory(0, 0), 1025), 0);
    }

    #[test]
    fn large_rows_leave_a_share_to_small_rows() {
        assert_eq!(rows(&memory(0, 600), 100), 2, "up to 896");
        assert_eq!(rows(&memory(0, 896), 17), 0);
        assert_eq!(rows(&memory(0, 896), 16), 8);
        assert_eq!(rows(&memory(112, 896), 16), 1);
    }

    #[test]
    fn memory_kept_for_the_next_row_is_not_given_to_others() {
        let mut memory = memory(0, 500);
        memory.keep_for(600);
        memory.keep_for(17);
        assert_eq!(rows(&memory, 17), 0);
        assert_eq!(rows(&memory, 16), 8, "small rows have a separate share");
        memory.take(16, true, 8);
        assert_eq!(rows(&memory, 16), 0);
    }

    #[test]
    fn small_rows_do_not_begin_before_a_waiting_row_that_needs_all() {
        let mut memory = memory(16, 0);
        memory.keep_for(1024);
        assert_eq!(rows(&memory, 16), 0);
    }

    #[test]
    fn rows_that_hold_few_of_many_values_are_large() {
        assert_eq!(memory(0, 896).rows(8, false), 0, "large rows may take hours");
        assert_eq!(memory(0, 896).rows(8, true), 16);
    }

    #[test]
    fn reservations_never_exceed_the_memory() {
        for (small, large) in [(0, 0), (100, 0), (900, 100), (0, 1024), (512, 512)] {
            for row in [1, 16, 17, 300, 1024] {
                let mut memory = memory(small, large);
                let rows = rows(&memory, row);
                memory.take(row, Memory::is_small(1024, row), rows);
                assert!(memory.small + memory.large <= 1024, "{small} {large} {row}");
            }
        }
    }
}
