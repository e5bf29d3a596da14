//! The compared operations.

/// A parameter set and the rows measured with it.
pub struct Case {
    /// First part of the row's name.
    pub label: &'static str,
    /// Name of the parameter set.
    pub set: &'static str,
    /// Number of inputs in a batch for all cores.
    pub batch: usize,
    /// Number of pairs of slices.
    pub pairs: usize,
    /// Rows, in order.
    pub rows: &'static [Row],
    /// Processes in which both sides run.
    pub place: Place,
    /// Whether the report states the share of the bootstrap key that each bootstrap reads.
    pub key_read: bool,
}

/// Processes in which the two sides of a case run.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    /// Both sides alternate in this process.
    Together,
    /// Each side has a process of its own, one after the other, since two keys do not fit into
    /// memory. Measured only on request.
    Apart,
    /// Both sides alternate in a process of the program whose peer was built without AVX-512. Ours
    /// is forced to AVX2.
    WithoutAvx512,
}

impl Case {
    /// Name of the row of this kind.
    pub fn name(&self, kind: Kind) -> String {
        format!("{} {}", self.label, kind.label())
    }
}

/// A comparison of one kind.
#[derive(Clone, Copy)]
pub struct Row {
    /// Kind of the measurement.
    pub kind: Kind,
    /// Least ratio that the project requires of itself.
    pub required: f64,
    /// Ratio that the project aims at.
    pub aim: Option<f64>,
}

/// Kind of a measurement.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// One operation after another, on one core.
    Latency,
    /// A batch on all cores.
    Throughput,
    /// One operation on each core at once, until all are done.
    OnEachCore,
    /// Generation of a seeded evaluation key for a given secret key, on all cores.
    Generation,
    /// Expansion of a seeded key to a key that is ready, on all cores.
    Expansion,
}

impl Kind {
    /// The kind with this [`label`](Self::label).
    pub fn by_label(label: &str) -> Option<Self> {
        let all = [Self::Latency, Self::Throughput, Self::OnEachCore, Self::Generation, Self::Expansion];
        all.into_iter().find(|kind| kind.label() == label)
    }

    /// Last part of the row's name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Latency => "latency, one core",
            Self::Throughput => "throughput, all cores",
            Self::OnEachCore => "one on each core at once",
            Self::Generation => "key generation, all cores",
            Self::Expansion => "key expansion, all cores",
        }
    }

    /// Unit of the row's figures.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Latency | Self::OnEachCore | Self::Generation | Self::Expansion => "ms",
            Self::Throughput => "per second",
        }
    }
}

const fn row(kind: Kind, required: f64, aim: f64) -> Row {
    Row { kind, required, aim: Some(aim) }
}

/// A row that requires ours to be as fast as the peer, within the noise of the measurement.
const fn par(kind: Kind) -> Row {
    Row { kind, required: 0.97, aim: None }
}

const CASE: Case =
    Case { label: "", set: "", batch: 128, pairs: 24, rows: &[], place: Place::Together, key_read: false };
const CLASSICAL: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
const INTEGERS: &[Row] = &[par(Kind::Latency), row(Kind::Throughput, 2.7, 3.6)];
const BITS: &[Row] = &[par(Kind::Latency), row(Kind::Throughput, 2.5, 3.5)];

/// All comparisons.
pub const CASES: &[Case] = &[
    Case {
        label: "2_2",
        set: CLASSICAL,
        rows: &[
            row(Kind::Latency, 1.6, 2.2),
            row(Kind::Throughput, 3.0, 4.0),
            par(Kind::Generation),
            par(Kind::Expansion),
        ],
        key_read: true,
        ..CASE
    },
    Case {
        label: "2_2 AVX2 only",
        set: CLASSICAL,
        rows: &[row(Kind::Throughput, 1.5, 2.2)],
        place: Place::WithoutAvx512,
        ..CASE
    },
    Case { label: "2_2 KS32", set: "V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128", rows: INTEGERS, ..CASE },
    Case { label: "1_1", set: "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", rows: INTEGERS, ..CASE },
    Case { label: "2_2 Gaussian", set: "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", rows: INTEGERS, ..CASE },
    Case {
        label: "3_3",
        set: "V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128",
        batch: 32,
        pairs: 8,
        rows: &[par(Kind::Latency), row(Kind::Throughput, 2.0, 3.0)],
        ..CASE
    },
    Case {
        label: "2_2 multi-bit g4",
        set: "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128",
        batch: 64,
        pairs: 16,
        rows: &[row(Kind::Latency, 1.5, 2.2), par(Kind::Throughput)],
        ..CASE
    },
    Case { label: "NAND KS_PBS", set: "DEFAULT_PARAMETERS_KS_PBS", rows: BITS, ..CASE },
    Case { label: "NAND 2^-165 KS_PBS", set: "PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS", rows: BITS, ..CASE },
    Case { label: "NAND TFHE_LIB", set: "TFHE_LIB_PARAMETERS", rows: BITS, ..CASE },
    Case {
        label: "4_4",
        set: "V1_8_PARAM_MESSAGE_4_CARRY_4_KS_PBS_TUNIFORM_2M128",
        batch: 4,
        pairs: 3,
        rows: &[par(Kind::Latency), row(Kind::OnEachCore, 1.3, 2.0), par(Kind::Throughput)],
        place: Place::Apart,
        ..CASE
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rows_are_unique() {
        let rows = CASES.iter().flat_map(|case| case.rows.iter().map(|row| (case.name(row.kind), row)));
        let mut names: Vec<_> = rows.clone().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), rows.clone().count());
        for (name, row) in rows {
            assert!(Kind::by_label(row.kind.label()) == Some(row.kind), "{name}");
            assert!(row.aim.is_none_or(|aim| aim > row.required), "{name}");
        }
    }
}
