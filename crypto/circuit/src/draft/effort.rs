//! What drafts take, in terms read and functions compared, so that tests need no clock to notice quadratic time.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn spend(steps: usize) {
    STEPS.set(STEPS.get() + steps as u64);
}

/// Steps that this thread has taken while it did something.
pub(crate) fn of(something: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    something();
    STEPS.get() - before
}
