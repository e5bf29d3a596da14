//! The three tables in the documentation of DESILO's library.

use cloakwork_ckks::{Bootstrap, CkksError, KeySize, Ring};

use KeySize::{Large, Medium, Small};

/// A table of the page.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [Row],
    make: for<'r> fn(&'r Ring, u32, usize, KeySize) -> Result<Bootstrap<'r>, CkksError>,
}

/// A row of a table. `published` is the page's time in seconds on one thread of an i7-10700K.
pub(crate) struct Row {
    pub(crate) slots_log2: u32,
    pub(crate) size: KeySize,
    pub(crate) stages: usize,
    pub(crate) published: f64,
}

pub(crate) const TABLES: [Table; 3] = [
    Table {
        title: "regular",
        rows: &[
            row(15, Small, 3, 108.075),
            row(15, Small, 4, 70.137),
            row(15, Small, 5, 66.095),
            row(15, Medium, 3, 30.512),
            row(15, Medium, 4, 24.765),
            row(15, Medium, 5, 23.176),
            row(15, Large, 3, 28.122),
            row(15, Large, 4, 23.889),
            row(15, Large, 5, 20.840),
        ],
        make: |ring, slots_log2, stages, size| Bootstrap::new(ring, slots_log2, stages, size),
    },
    Table {
        title: "sparse",
        rows: &[
            row(5, Small, 1, 43.207),
            row(5, Small, 2, 32.293),
            row(5, Medium, 1, 26.593),
            row(5, Medium, 2, 25.485),
            row(5, Large, 1, 26.619),
            row(10, Small, 2, 70.202),
            row(10, Small, 3, 48.467),
            row(10, Small, 4, 45.378),
            row(10, Medium, 2, 29.102),
            row(10, Medium, 3, 25.554),
            row(10, Medium, 4, 23.830),
            row(10, Large, 2, 27.669),
            row(10, Large, 3, 24.548),
        ],
        make: |ring, slots_log2, stages, size| Bootstrap::new(ring, slots_log2, stages, size),
    },
    Table {
        title: "lossy",
        rows: &[
            row(15, Small, 3, 84.058),
            row(15, Small, 4, 59.371),
            row(15, Small, 5, 59.641),
            row(15, Medium, 3, 27.120),
            row(15, Medium, 4, 23.035),
            row(15, Medium, 5, 21.642),
            row(15, Large, 3, 25.321),
            row(15, Large, 4, 22.407),
            row(15, Large, 5, 19.441),
        ],
        make: |ring, slots_log2, stages, size| Bootstrap::lossy(ring, slots_log2, stages, size),
    },
];

const fn row(slots_log2: u32, size: KeySize, stages: usize, published: f64) -> Row {
    Row { slots_log2, size, stages, published }
}

impl Table {
    /// Name of a row, such as `CKKS_45_60_50_H4096 regular 32768 medium 5`.
    pub(crate) fn name(&self, set: &str, row: &Row) -> String {
        let size = format!("{:?}", row.size).to_lowercase();
        format!("{set} {} {} {size} {}", self.title, 1 << row.slots_log2, row.stages)
    }

    /// The bootstrap of a row. A toy ring limits the number of slots to its own.
    pub(crate) fn bootstrap<'r>(&self, ring: &'r Ring, row: &Row) -> Result<Bootstrap<'r>, CkksError> {
        (self.make)(ring, row.slots_log2.min(ring.set().size_log2 - 1), row.stages, row.size)
    }
}
