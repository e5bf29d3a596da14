//! Counts the steps of drafts, in terms read and functions compared. Tests can then detect
//! quadratic time without a clock.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn spend(steps: usize) {
    STEPS.set(STEPS.get() + steps as u64);
}

/// Number of steps that this thread takes while `something` runs.
pub(crate) fn of(something: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    something();
    STEPS.get() - before
}
