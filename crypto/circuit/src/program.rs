//! Programs: decoded, checked, and only then a [`Program`].

mod check;
mod price;
mod signature;
mod types;

use std::fmt;

use cloakwork_params::{ObjectKind, ParameterSet, table};

pub(crate) use self::check::values_returned;
pub use self::types::{RowType, Type};
use crate::{ProgramError, ValueId, message, wire};

/// A program that has been checked: every argument has the type, degree and noise that its operation takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(crate) id: ProgramId,
    pub(crate) set: &'static ParameterSet,
    pub(crate) inputs: Vec<Input>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) values: Vec<ValueInfo>,
    pub(crate) outputs: Vec<Returned>,
}

/// What is returned as one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Returned {
    pub(crate) row: RowType,
    pub(crate) values: Vec<ValueId>,
}

/// BLAKE3 of a program's bytes as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId(pub [u8; 32]);

/// What a program takes for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Name, for messages.
    pub name: String,
    /// What it holds for each row.
    pub row: RowType,
    /// Largest value that a block of it may hold.
    pub degree_max: u32,
    /// Largest noise level that it may have.
    pub noise_level_max: u32,
    /// Must it be freshly encrypted?
    pub is_fresh: bool,
}

impl Input {
    /// May a list of this kind be what it takes? What is taken for fresh must come in a form that no result has.
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
    /// What it does.
    pub kind: wire::operation::Kind,
    /// What goes in.
    pub arguments: Vec<ValueId>,
    /// Tables of a lookup, padded to the number of entries that each has.
    pub tables: Vec<Vec<u64>>,
    /// What a constant holds, least significant byte first.
    pub value: Vec<u8>,
}

impl Operation {
    /// Values that it returns.
    pub(crate) fn results(&self) -> usize {
        self.tables.len().max(1)
    }
}

/// What is known of a value whatever the inputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueInfo {
    pub(crate) ty: Type,
    pub(crate) degree: u64,
    pub(crate) noise_level: u64,
}

/// How large a program may be.
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
    /// An upper bound of the bootstraps for a row, known before the program is lowered.
    pub bootstraps: u64,
}

/// What every server and worker accepts.
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
        // Each takes a block at least, and is held from here on.
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

    /// Its name.
    pub fn id(&self) -> ProgramId {
        self.id
    }

    /// The parameter set that it is written for.
    pub fn set(&self) -> &'static ParameterSet {
        self.set
    }

    /// What it takes.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Its operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Blocks of its inputs and outputs together.
    fn blocks(&self) -> usize {
        let rows = self.inputs.iter().map(|input| input.row).chain(self.output_types());
        rows.map(RowType::blocks).fold(0, usize::saturating_add)
    }

    /// What each of its outputs holds for each row.
    pub fn output_types(&self) -> impl ExactSizeIterator<Item = RowType> {
        self.outputs.iter().map(|output| output.row)
    }

    /// Values that come before those of its operations.
    pub(crate) fn input_values(&self) -> usize {
        self.inputs.iter().map(|input| input.row.values()).sum()
    }
}

impl fmt::Display for ProgramId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

pub(crate) fn at_most(what: &'static str, max: usize, got: usize) -> Result<(), ProgramError> {
    if got <= max { Ok(()) } else { Err(ProgramError::TooMany { what, max: max as u64, got: got as u64 }) }
}
