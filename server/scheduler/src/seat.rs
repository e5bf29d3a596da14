//! Numbers of the places that unfinished jobs are kept in.

/// Where a job is kept until it ends. Then the next that comes may have the seat.
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
