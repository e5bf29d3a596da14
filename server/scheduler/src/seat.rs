//! Numbers of the slots that hold unfinished jobs.

/// The slot of a job until it ends. A later job may then reuse the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seat(u32);

impl Seat {
    /// The seat at an index below 2^32.
    pub(crate) fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("memory ends before the seats do"))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
