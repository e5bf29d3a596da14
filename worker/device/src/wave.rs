//! Waves as plain data: flat lists of lanes that a device can copy unchanged.

/// Table index that stands for 'no table'.
pub const NO_TABLE: u32 = u32::MAX;

/// A slot multiplied by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The slot.
    pub slot: u32,
    /// The factor.
    pub factor: i64,
}

/// One lane. Its terms and outputs lie in the wave's lists, from the end of the previous lane's
/// entries to the ends given here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Constant added to the sum of the terms, as a fraction of the torus in units of 2^-64.
    pub constant: u64,
    /// Index of the table in the wave's list, or [`NO_TABLE`], where the sum itself is the result.
    pub table: u32,
    /// End of the lane's terms in the wave's list.
    pub terms_end: u32,
    /// End of the lane's outputs in the wave's list.
    pub outputs_end: u32,
}

/// Lanes that are computed together. No lane may read a slot that another lane writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wave {
    lanes: Vec<Lane>,
    terms: Vec<Term>,
    outputs: Vec<u32>,
    tables: Vec<crate::LutSlot>,
}

/// Why a wave is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaveError {
    /// The arena does not have the slot.
    #[error("lane {lane} names slot {slot}: the arena has {slots}")]
    SlotOutOfRange {
        /// The lane.
        lane: usize,
        /// The slot.
        slot: u32,
        /// Number of slots.
        slots: u32,
    },
    /// The slot was never written.
    #[error("lane {lane} reads slot {slot}, which nothing was written to")]
    Unwritten {
        /// The lane.
        lane: usize,
        /// The slot.
        slot: u32,
    },
    /// The slot is read or written elsewhere at the same time.
    #[error("lane {lane} uses slot {slot}, which other unfinished work writes, or reads and the lane would write")]
    Conflict {
        /// The lane.
        lane: usize,
        /// The slot.
        slot: u32,
    },
    /// The wave does not list the table.
    #[error("lane {lane} names table {table}: the wave lists {tables}")]
    TableOutOfRange {
        /// The lane.
        lane: usize,
        /// The table.
        table: u32,
        /// Number of tables.
        tables: usize,
    },
    /// The number of output slots differs from the number of the table's results.
    #[error("lane {lane} has {got} outputs: it makes {expected}")]
    WrongOutputs {
        /// The lane.
        lane: usize,
        /// Number of results that the lane computes.
        expected: usize,
        /// Number of slots that the lane names.
        got: usize,
    },
}

impl Wave {
    /// Appends a lane; `table` is an index from [`Self::table`], or [`NO_TABLE`].
    pub fn push(&mut self, terms: impl IntoIterator<Item = Term>, constant: u64, table: u32, outputs: &[u32]) {
        self.terms.extend(terms);
        self.outputs.extend_from_slice(outputs);
        let (terms_end, outputs_end) = (self.terms.len() as u32, self.outputs.len() as u32);
        self.lanes.push(Lane { constant, table, terms_end, outputs_end });
    }

    /// Adds a table to the list, unless it is listed already, and returns its index.
    pub fn table(&mut self, lut: crate::LutSlot) -> u32 {
        let known = self.tables.iter().position(|table| *table == lut);
        known.unwrap_or_else(|| {
            self.tables.push(lut);
            self.tables.len() - 1
        }) as u32
    }

    /// The lanes.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The tables.
    pub fn tables(&self) -> &[crate::LutSlot] {
        &self.tables
    }

    /// The terms of lane `index`.
    pub fn terms(&self, index: usize) -> &[Term] {
        let first = index.checked_sub(1).map_or(0, |before| self.lanes[before].terms_end);
        &self.terms[first as usize..self.lanes[index].terms_end as usize]
    }

    /// The output slots of lane `index`.
    pub fn outputs(&self, index: usize) -> &[u32] {
        let first = index.checked_sub(1).map_or(0, |before| self.lanes[before].outputs_end);
        &self.outputs[first as usize..self.lanes[index].outputs_end as usize]
    }

    /// Number of lanes with a table, hence of bootstraps.
    pub fn width(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.table != NO_TABLE).count()
    }

    /// Checks every index of the wave against its range. `results` returns the number of results of
    /// a table in the wave's list.
    pub fn check(&self, slots: u32, results: impl Fn(usize) -> usize) -> Result<(), WaveError> {
        for (lane, numbers) in self.lanes.iter().enumerate() {
            let named = self.terms(lane).iter().map(|term| term.slot).chain(self.outputs(lane).iter().copied());
            for slot in named {
                if slot >= slots {
                    return Err(WaveError::SlotOutOfRange { lane, slot, slots });
                }
            }
            let (table, tables) = (numbers.table, self.tables.len());
            let expected = match table {
                NO_TABLE => 1,
                table if (table as usize) < tables => results(table as usize),
                _ => return Err(WaveError::TableOutOfRange { lane, table, tables }),
            };
            let got = self.outputs(lane).len();
            if got != expected {
                return Err(WaveError::WrongOutputs { lane, expected, got });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LutSlot;

    fn term(slot: u32) -> Term {
        Term { slot, factor: 1 }
    }

    #[test]
    fn lanes_keep_their_own_terms_and_outputs() {
        let mut wave = Wave::default();
        let (one, two) = (wave.table(LutSlot(7)), wave.table(LutSlot(9)));
        assert_eq!(wave.table(LutSlot(7)), one);
        wave.push([term(1), term(2)], 5, one, &[3]);
        wave.push([], 0, NO_TABLE, &[4]);
        wave.push([term(0)], 0, two, &[5, 6]);
        assert_eq!(wave.terms(0), [term(1), term(2)]);
        assert_eq!((wave.terms(1), wave.outputs(1)), (&[][..], &[4][..]));
        assert_eq!((wave.terms(2), wave.outputs(2)), (&[term(0)][..], &[5, 6][..]));
        assert_eq!(wave.width(), 2);
        assert_eq!(wave.check(7, |table| table + 1), Ok(()));
    }

    #[test]
    fn indices_out_of_range_are_refused() {
        let check = |table: u32, slot: u32, outputs: &[u32]| {
            let mut wave = Wave::default();
            wave.table(LutSlot(1));
            wave.push([term(slot)], 0, table, outputs);
            wave.check(4, |_| 2)
        };
        assert_eq!(check(0, 3, &[1, 2]), Ok(()));
        assert_eq!(check(0, 4, &[1, 2]), Err(WaveError::SlotOutOfRange { lane: 0, slot: 4, slots: 4 }));
        assert_eq!(check(0, 3, &[1, 9]), Err(WaveError::SlotOutOfRange { lane: 0, slot: 9, slots: 4 }));
        assert_eq!(check(0, 3, &[1]), Err(WaveError::WrongOutputs { lane: 0, expected: 2, got: 1 }));
        assert_eq!(check(NO_TABLE, 3, &[]), Err(WaveError::WrongOutputs { lane: 0, expected: 1, got: 0 }));
        assert_eq!(check(1, 3, &[1, 2]), Err(WaveError::TableOutOfRange { lane: 0, table: 1, tables: 1 }));
    }
}
