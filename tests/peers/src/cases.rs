//! What is compared.

/// One parameter set and the rows measured with it.
pub struct Case {
    /// What the row's name starts with.
    pub label: &'static str,
    /// Parameter set.
    pub set: &'static str,
    /// Inputs in a batch for all cores.
    pub batch: usize,
    /// Pairs of slices.
    pub pairs: usize,
    /// Rows, in order.
    pub rows: &'static [Row],
    /// Do two keys not fit into memory together? Each side then has a process of its own, one after the
    /// other, and both are only run where asked for.
    pub apart: bool,
}

impl Case {
    /// Name of a row.
    pub fn name(&self, kind: Kind) -> String {
        format!("{} {}", self.label, kind.label())
    }
}

/// One comparison.
#[derive(Clone, Copy)]
pub struct Row {
    /// What is done.
    pub kind: Kind,
    /// Least ratio that the project asks of itself.
    pub required: f64,
}

/// What a row times.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// One operation after the other, on one core.
    Latency,
    /// A batch on all cores.
    Throughput,
    /// A seeded evaluation key for a given secret key, on all cores.
    Generation,
    /// From the seeded key to one ready for use, on all cores.
    Expansion,
}

impl Kind {
    /// What the row's name ends with.
    pub fn label(self) -> &'static str {
        match self {
            Self::Latency => "latency, one core",
            Self::Throughput => "throughput, all cores",
            Self::Generation => "key generation, all cores",
            Self::Expansion => "key expansion, all cores",
        }
    }

    /// Unit of the row's figures.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Latency | Self::Generation | Self::Expansion => "ms",
            Self::Throughput => "per second",
        }
    }
}

const fn row(kind: Kind, required: f64) -> Row {
    Row { kind, required }
}

const PAR: f64 = 0.97;
const BATCHED: f64 = 1.3;
const BOTH: &[Row] = &[row(Kind::Latency, PAR), row(Kind::Throughput, PAR)];

const CASE: Case = Case { label: "", set: "", batch: 128, pairs: 24, rows: BOTH, apart: false };

/// Every comparison.
pub const CASES: &[Case] = &[
    Case {
        label: "2_2",
        set: "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128",
        rows: &[
            row(Kind::Latency, PAR),
            row(Kind::Throughput, BATCHED),
            row(Kind::Generation, PAR),
            row(Kind::Expansion, PAR),
        ],
        ..CASE
    },
    Case {
        label: "2_2 KS32",
        set: "V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128",
        rows: &[row(Kind::Latency, PAR), row(Kind::Throughput, BATCHED)],
        ..CASE
    },
    Case { label: "1_1", set: "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", ..CASE },
    Case { label: "2_2 Gaussian", set: "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", ..CASE },
    Case { label: "3_3", set: "V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128", batch: 32, pairs: 8, ..CASE },
    Case {
        label: "2_2 multi-bit g4",
        set: "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128",
        batch: 64,
        pairs: 16,
        ..CASE
    },
    Case { label: "NAND KS_PBS", set: "DEFAULT_PARAMETERS_KS_PBS", ..CASE },
    Case { label: "NAND TFHE_LIB", set: "TFHE_LIB_PARAMETERS", ..CASE },
    Case {
        label: "4_4",
        set: "V1_8_PARAM_MESSAGE_4_CARRY_4_KS_PBS_TUNIFORM_2M128",
        batch: 4,
        pairs: 3,
        apart: true,
        ..CASE
    },
];
