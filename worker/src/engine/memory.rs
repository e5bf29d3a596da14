//! How the memory for rows under way is shared: every group has an arena of its own, and all of them together may take
//! up no more than one.

/// A row is small when all of its values would take at most this part of the whole.
const SMALL_PART: u64 = 64;
/// This part of the whole is kept for small rows: large ones may take hours.
const KEPT_PART: u64 = 8;

/// What is left while rows begin, group after group, those that have waited longest first.
#[derive(Debug)]
pub(super) struct Memory {
    whole: u64,
    /// Of small rows under way.
    small: u64,
    /// Of the others.
    large: u64,
    /// What the row takes that has waited longest, if it did not fit.
    next: u64,
}

/// What rows under way may come to need, in bytes or slots.
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
    /// Of so many bytes, some of them reserved.
    pub(super) fn new(whole: u64, reserved: impl Iterator<Item = Reserved>) -> Self {
        let (mut small, mut large) = (0, 0);
        for reserved in reserved {
            small += reserved.small;
            large += reserved.large;
        }
        Self { whole, small, large, next: 0 }
    }

    /// Is a row small whose values would take up so much of so many bytes or slots?
    pub(super) fn is_small(whole: u64, row: u64) -> bool {
        row <= whole / SMALL_PART
    }

    /// Rows of so many bytes that may begin.
    pub(super) fn rows(&self, row: u64, is_small: bool) -> usize {
        let free = self.whole.saturating_sub(self.small + self.large);
        let room = if self.small + self.large == 0 {
            self.whole
        } else if is_small {
            let kept = (self.whole / KEPT_PART).min(self.whole.saturating_sub(self.next));
            free.saturating_sub(self.next).max(kept.saturating_sub(self.small).min(free))
        } else {
            let most = (self.whole - self.whole / KEPT_PART).saturating_sub(self.large);
            most.min(free).saturating_sub(self.next)
        };
        usize::try_from(room / row.max(1)).unwrap_or(usize::MAX)
    }

    /// So many rows of so many bytes begin.
    pub(super) fn take(&mut self, row: u64, is_small: bool, count: usize) {
        let bytes = row * count as u64;
        if is_small {
            self.small += bytes;
        } else {
            self.large += bytes;
        }
    }

    /// A row did not fit that nobody has waited longer than: what others leave is for it.
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

    /// Rows of so many bytes, all of whose values they hold at once.
    fn rows(memory: &Memory, row: u64) -> usize {
        memory.rows(row, Memory::is_small(1024, row))
    }

    #[test]
    fn a_row_that_takes_all_of_it_begins_alone() {
        assert_eq!(rows(&memory(0, 0), 1024), 1);
        assert_eq!(rows(&memory(1, 0), 1024), 0);
        assert_eq!(rows(&memory(0, 0), 1025), 0);
    }

    #[test]
    fn large_rows_leave_a_part_to_small_ones() {
        assert_eq!(rows(&memory(0, 600), 100), 2, "up to 896");
        assert_eq!(rows(&memory(0, 896), 17), 0);
        assert_eq!(rows(&memory(0, 896), 16), 8);
        assert_eq!(rows(&memory(112, 896), 16), 1);
    }

    #[test]
    fn what_is_kept_for_the_next_is_taken_by_nobody_else() {
        let mut memory = memory(0, 500);
        memory.keep_for(600);
        memory.keep_for(17);
        assert_eq!(rows(&memory, 17), 0);
        assert_eq!(rows(&memory, 16), 8, "small ones have their part");
        memory.take(16, true, 8);
        assert_eq!(rows(&memory, 16), 0);
    }

    #[test]
    fn small_rows_make_way_for_one_that_needs_all() {
        let mut memory = memory(16, 0);
        memory.keep_for(1024);
        assert_eq!(rows(&memory, 16), 0);
    }

    #[test]
    fn rows_that_hold_few_of_many_values_are_large() {
        assert_eq!(memory(0, 896).rows(8, false), 0, "they may take hours");
        assert_eq!(memory(0, 896).rows(8, true), 16);
    }

    #[test]
    fn never_more_than_there_is() {
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
