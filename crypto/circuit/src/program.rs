//! Programs on blocks. Only decoding and checking a message produces a [`Program`].

mod check;
mod price;
mod signature;
mod types;

use std::fmt;

use cloakwork_params::{ObjectKind, ParameterSet, table};

pub(crate) use self::check::values_returned;
pub use self::types::{RowType, Type};
use crate::{
    ProgramError, ValueId,
    message::{self, at_most},
    operation, wire,
};

/// A checked program: every argument has the type, degree and noise that its operation accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(crate) id: ProgramId,
    pub(crate) set: &'static ParameterSet,
    pub(crate) inputs: Vec<Input>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) values: Vec<ValueInfo>,
    pub(crate) outputs: Vec<Returned>,
}

/// Values that the program returns as one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Returned {
    pub(crate) row: RowType,
    pub(crate) values: Vec<ValueId>,
}

/// BLAKE3 of a program's bytes as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId(pub [u8; 32]);

/// An input of a program, which has a value in each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Name, for messages.
    pub name: String,
    /// Type and length of the input in each row.
    pub row: RowType,
    /// Largest value that a block of the input may hold.
    pub degree_max: u32,
    /// Largest noise level that a block of the input may have.
    pub noise_level_max: u32,
    /// Whether the input must be freshly encrypted.
    pub is_fresh: bool,
}

impl Input {
    /// Whether a list of this kind is acceptable. A fresh input must come in a form that no result
    /// has, so that a list of results, with their noise, cannot pass as fresh.
    pub fn takes(&self, kind: ObjectKind) -> bool {
        match kind {
            ObjectKind::LweList => !self.is_fresh,
            ObjectKind::SeededLweList | ObjectKind::CompactList => true,
            _ => false,
        }
    }
}

/// A checked operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: wire::operation::Kind,
    /// Values of the arguments.
    pub arguments: Vec<ValueId>,
    /// Tables of a lookup, each padded with zeros to the number of entries that the lookup reads.
    pub tables: Vec<Vec<u64>>,
    /// Value of a constant, least significant byte first.
    pub value: Vec<u8>,
}

impl Operation {
    /// Number of values that the operation returns.
    pub(crate) fn results(&self) -> usize {
        self.tables.len().max(1)
    }
}

/// Properties of a value that hold for all inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueInfo {
    pub(crate) ty: Type,
    pub(crate) degree: u64,
    pub(crate) noise_level: u64,
}

/// Limits on the size of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Encoded bytes.
    pub bytes: usize,
    /// Inputs.
    pub inputs: usize,
    /// Operations.
    pub operations: usize,
    /// Outputs.
    pub outputs: usize,
    /// Blocks of all inputs and outputs.
    pub blocks: usize,
    /// Upper bound of the bootstraps for a row, computed before the program is lowered.
    pub bootstraps: u64,
}

/// Limits that every server and worker applies.
pub const LIMITS: Limits = Limits {
    bytes: BYTES_MAX,
    inputs: INPUTS_MAX,
    operations: OPERATIONS_MAX,
    outputs: OUTPUTS_MAX,
    blocks: BLOCKS_MAX,
    bootstraps: BOOTSTRAPS_MAX,
};

const BYTES_MAX: usize = 1 << 20;
const INPUTS_MAX: usize = 1024;
const OPERATIONS_MAX: usize = 1 << 14;
const OUTPUTS_MAX: usize = 1024;
const BLOCKS_MAX: usize = 1 << 14;
const BOOTSTRAPS_MAX: u64 = 1 << 17;

impl Program {
    /// Decodes and checks a program.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, ProgramError> {
        let message = message::decode(bytes, limits.bytes, limits.inputs, limits.operations)?;
        let lengths = &message.output_lengths;
        at_most("outputs", limits.outputs, if lengths.is_empty() { message.outputs.len() } else { lengths.len() })?;
        // Every element takes at least one block, and memory from here on, so count elements first.
        let elements = message.inputs.iter().map(|input| input.length.max(1) as usize).sum::<usize>();
        at_most("blocks of inputs and outputs", limits.blocks, elements.saturating_add(message.outputs.len()))?;
        let set = table::by_name(&message.parameter_set)
            .ok_or_else(|| ProgramError::UnknownParameterSet(message.parameter_set.clone()))?;
        let program = check::program(ProgramId(*blake3::hash(bytes).as_bytes()), set, message)?;
        at_most("blocks of inputs and outputs", limits.blocks, program.blocks())?;
        let bootstraps = program.bootstraps_max();
        if bootstraps > limits.bootstraps {
            return Err(ProgramError::TooManyBootstraps { max: limits.bootstraps, got: bootstraps });
        }
        Ok(program)
    }

    /// Digest that names the program.
    pub fn id(&self) -> ProgramId {
        self.id
    }

    /// Parameter set that the program is written for.
    pub fn set(&self) -> &'static ParameterSet {
        self.set
    }

    /// Inputs of the program.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The kind of the program's operations if they are of one kind, apart from constants and
    /// casts.
    pub fn operation(&self) -> &'static str {
        operation::of(self.operations.iter().map(|operation| operation.kind))
    }

    /// Operations of the program.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Number of blocks of all inputs and outputs.
    fn blocks(&self) -> usize {
        let rows = self.inputs.iter().map(|input| input.row).chain(self.output_types());
        rows.map(RowType::blocks).fold(0, usize::saturating_add)
    }

    /// Type and length of each output in each row.
    pub fn output_types(&self) -> impl ExactSizeIterator<Item = RowType> {
        self.outputs.iter().map(|output| output.row)
    }

    /// For each output, the largest value that each block of a row can have.
    pub fn output_degrees(&self) -> impl ExactSizeIterator<Item = Vec<u32>> {
        self.outputs.iter().map(|output| {
            let values = output.values.iter().map(|value| self.values[*value]);
            let degrees = values.map(|value| (value.ty.degree().unwrap_or(value.degree as u32), value.ty.blocks()));
            degrees.flat_map(|(degree, blocks)| std::iter::repeat_n(degree, blocks)).collect()
        })
    }

    /// Number of input values, which come before the values of the operations.
    pub(crate) fn input_values(&self) -> usize {
        self.inputs.iter().map(|input| input.row.values()).sum()
    }
}

impl fmt::Display for ProgramId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}
