//! Programs on vectors of approximate numbers, under parameter sets of CKKS.
//!
//! A message states no scales of results, and states levels only where the client wants to. When
//! [`Program::decode`] plans a program, it aligns operands to one level and one scale, and computes
//! which keys the plan takes and what it costs.

mod cost;
mod evaluate;
mod keys;
mod kinds;
mod numbers;
mod outline;
mod plan;
mod polynomial;
mod read;
mod scales;

use std::{collections::HashMap, mem};

use cloakwork_params::ckks::{
    CkksSet,
    layout::CiphertextShape,
    offsets::{Offsets, Way},
};

/// Types of bootstraps and of key uses in plans.
pub use cloakwork_params::ckks::{
    bootstrap::{BootstrapKind, BootstrapShape, KeySize},
    key_use::KeyUse,
};

pub use self::{
    cost::{Cost, MULTIPLICATIONS_OF_A_MODULAR_ONE},
    keys::{KeyNeed, MissingKey},
    kinds::bootstrap_kinds_max,
    outline::Outline,
    scales::is_same,
};
use crate::{
    ProgramError, ProgramId, ValueId,
    message::{self, at_most},
    operation,
};

/// A program that has been checked and planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    id: ProgramId,
    outline: Outline,
    steps: Vec<Step>,
    outputs: Vec<Output>,
    clear: Clear,
}

/// Properties of a vector that do not depend on its content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vector {
    /// log2 of the number of slots. A slot holds one number.
    pub slots_log2: u32,
    /// Level of the vector.
    pub level: usize,
    /// Scale, by which the numbers are multiplied.
    pub scale: f64,
}

impl Vector {
    /// How a ciphertext differs from this description, or `None` if it matches.
    pub fn difference(&self, got: CiphertextShape) -> Option<String> {
        let Self { slots_log2, level, scale } = *self;
        if got.slots_log2 != slots_log2 {
            Some(format!("{} numbers: expected {}", 1_u64 << got.slots_log2, 1_u64 << slots_log2))
        } else if got.level != level {
            Some(format!("level {}: expected level {level}", got.level))
        } else if !is_same(scale, got.scale) {
            Some(format!("a scale of 2^{:.6}: expected 2^{:.6}", got.scale.log2(), scale.log2()))
        } else {
            None
        }
    }
}

/// An input of a program, which has a vector in each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Name, for messages.
    pub name: String,
    /// Slots, level and scale of the input.
    pub vector: Vector,
}

/// An output of a program, which has a vector in each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// The value to return.
    pub value: ValueId,
    /// Slots, level and scale of the output.
    pub vector: Vector,
}

/// One step of the plan. Values are numbered from 0: inputs, then the result of each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Computation of the step.
    pub action: Action,
    /// Slots, level and scale of the result.
    pub vector: Vector,
    /// Index of the program's operation that the step belongs to.
    pub operation: usize,
    /// Arguments that no later step reads and that are not returned.
    pub last_uses: Vec<ValueId>,
}

impl Step {
    /// Bytes of memory that the step takes up.
    fn held_bytes(&self) -> usize {
        let coefficients = if let Action::Chebyshev(_, coefficients) = &self.action { &coefficients[..] } else { &[] };
        size_of::<Self>() + size_of_val(coefficients) + size_of_val(&self.last_uses[..])
    }
}

/// Computation of a step. Each kind of multiplication consumes the level that it needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sum of vectors of one scale. The vector of higher level is lowered to the other's level.
    Add(ValueId, ValueId),
    /// Difference of vectors, on the conditions of a sum.
    Subtract(ValueId, ValueId),
    /// Every number negated.
    Negate(ValueId),
    /// Every number times i, exactly.
    TimesI(ValueId),
    /// A real number added to every number.
    AddNumber(ValueId, f64),
    /// Clear numbers added.
    AddClear(ValueId, usize),
    /// Product with a real number, at exactly the result's level and scale.
    MultiplyNumber(ValueId, f64),
    /// Product with clear numbers, at exactly the result's scale.
    MultiplyClear(ValueId, usize),
    /// Product of two vectors, divided by the last prime of the one of lower level.
    Multiply(ValueId, ValueId),
    /// Rotation to the left.
    Rotate(ValueId, i64),
    /// Every number conjugated.
    Conjugate(ValueId),
    /// Sum of all numbers, in every slot.
    Total(ValueId),
    /// Reduction to a lower level.
    Lower(ValueId),
    /// A sum of Chebyshev polynomials.
    Chebyshev(ValueId, Vec<f64>),
    /// Product of a clear matrix and the vector.
    Transform(ValueId, usize),
    /// Bootstrap to a new level.
    Bootstrap(ValueId, BootstrapShape),
}

impl Action {
    /// Values of the arguments.
    pub fn arguments(&self) -> impl Iterator<Item = ValueId> {
        let [first, second] = match *self {
            Self::Add(a, b) | Self::Subtract(a, b) | Self::Multiply(a, b) => [Some(a), Some(b)],
            Self::Negate(a)
            | Self::TimesI(a)
            | Self::AddNumber(a, _)
            | Self::AddClear(a, _)
            | Self::MultiplyNumber(a, _)
            | Self::MultiplyClear(a, _)
            | Self::Rotate(a, _)
            | Self::Conjugate(a)
            | Self::Total(a)
            | Self::Lower(a)
            | Self::Chebyshev(a, _)
            | Self::Transform(a, _)
            | Self::Bootstrap(a, _) => [Some(a), None],
        };
        first.into_iter().chain(second)
    }

    fn arguments_mut(&mut self) -> impl Iterator<Item = &mut ValueId> {
        let [first, second] = match self {
            Self::Add(a, b) | Self::Subtract(a, b) | Self::Multiply(a, b) => [Some(a), Some(b)],
            Self::Negate(a)
            | Self::TimesI(a)
            | Self::AddNumber(a, _)
            | Self::AddClear(a, _)
            | Self::MultiplyNumber(a, _)
            | Self::MultiplyClear(a, _)
            | Self::Rotate(a, _)
            | Self::Conjugate(a)
            | Self::Total(a)
            | Self::Lower(a)
            | Self::Chebyshev(a, _)
            | Self::Transform(a, _)
            | Self::Bootstrap(a, _) => [Some(a), None],
        };
        first.into_iter().chain(second)
    }
}

/// Clear numbers that steps name, as real and imaginary parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clear {
    /// Vectors, each with one number for all slots or one for each slot.
    pub vectors: Vec<Vec<[f64; 2]>>,
    /// Matrices, by their diagonals.
    pub matrices: Vec<Vec<Diagonal>>,
}

impl Clear {
    /// Keeps the numbers that steps name, and updates the steps to their new indices. A program may
    /// contain many constants that it does not use.
    fn named_by(self, steps: &mut [Step]) -> Self {
        let Self { vectors, matrices } = self;
        let (mut vectors, mut matrices) = (Kept::new(vectors), Kept::new(matrices));
        for step in steps {
            match &mut step.action {
                Action::AddClear(_, place) | Action::MultiplyClear(_, place) => vectors.keep(place),
                Action::Transform(_, place) => matrices.keep(place),
                _ => {}
            }
        }
        Self { vectors: vectors.kept, matrices: matrices.kept }
    }

    /// Bytes of memory that the numbers take up.
    fn held_bytes(&self) -> usize {
        let vectors = self.vectors.iter().map(|numbers| size_of_val(&numbers[..]));
        let diagonals =
            self.matrices.iter().flatten().map(|diagonal| size_of_val(&diagonal.numbers[..]) + size_of::<Diagonal>());
        vectors.chain(diagonals).sum()
    }

    /// Indices of a matrix's diagonals, for vectors of this many slots.
    fn offsets(&self, matrix: usize, slots_log2: u32) -> Offsets {
        Offsets::new(1 << slots_log2, self.matrices[matrix].iter().map(|diagonal| diagonal.offset))
    }
}

/// The kept elements of a list.
struct Kept<T> {
    all: Vec<T>,
    /// New indices by old ones.
    places: HashMap<usize, usize>,
    kept: Vec<T>,
}

impl<T: Default> Kept<T> {
    fn new(all: Vec<T>) -> Self {
        Self { all, places: HashMap::new(), kept: Vec::new() }
    }

    /// Keeps the element at an index, and replaces the index by the new one.
    fn keep(&mut self, place: &mut usize) {
        let Self { all, places, kept } = self;
        *place = *places.entry(*place).or_insert_with(|| {
            kept.push(mem::take(&mut all[*place]));
            kept.len() - 1
        });
    }
}

/// In a product with a clear matrix, each rotation is made on its own, with its own key.
const WAY_OF_CLEAR_MATRICES: Way = Way::Apart { more: 0 };

/// A diagonal of a square matrix: in each row, the entry `offset` columns to the right, with
/// wrap-around.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagonal {
    /// Distance from the main diagonal, to the right.
    pub offset: usize,
    /// The entries, row by row.
    pub numbers: Vec<[f64; 2]>,
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
    /// Arguments of all operations together.
    pub arguments: usize,
    /// Outputs.
    pub outputs: usize,
    /// Degree of a polynomial.
    pub degree: usize,
    /// Bytes of the matrices of one kind of bootstrap, which all jobs share.
    pub matrix_bytes: u64,
    /// Bytes of the values of a row that are in memory at a time, and of working memory beside
    /// them.
    pub memory_bytes: u64,
    /// Cost of a row, in millions of multiplications.
    pub cost: u64,
}

/// Limits that every server and worker applies.
pub const LIMITS: Limits = Limits {
    bytes: BYTES_MAX,
    inputs: INPUTS_MAX,
    operations: OPERATIONS_MAX,
    arguments: ARGUMENTS_MAX,
    outputs: OUTPUTS_MAX,
    degree: DEGREE_MAX,
    matrix_bytes: MATRIX_BYTES_MAX,
    memory_bytes: MEMORY_BYTES_MAX,
    cost: COST_MAX,
};

const BYTES_MAX: usize = 1 << 20;
const INPUTS_MAX: usize = 256;
const OPERATIONS_MAX: usize = 1 << 12;
const ARGUMENTS_MAX: usize = 1 << 14;
const OUTPUTS_MAX: usize = 256;
const DEGREE_MAX: usize = 511;
const MATRIX_BYTES_MAX: u64 = 6 << 30;
const MEMORY_BYTES_MAX: u64 = 8 << 30;
/// About seventy bootstraps of a whole vector, which take two processors a few minutes. The limit
/// exists because a job is computed to its end while others wait.
const COST_MAX: u64 = 1 << 21;

/// log2 of the bytes of a program whose planning takes as long as a million multiplications. Bytes
/// of unused operations count as well.
const PLANNED_LOG2: u32 = 10;

impl Program {
    /// Decodes, checks and plans a program.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, ProgramError> {
        let message = message::decode(bytes, limits.bytes, limits.inputs, limits.operations)?;
        let arguments = message.operations.iter().map(|operation| operation.arguments.len()).sum();
        at_most("arguments", limits.arguments, arguments)?;
        at_most("outputs", limits.outputs, message.outputs.len())?;
        let set = cloakwork_params::ckks::by_name(&message.parameter_set)
            .ok_or_else(|| ProgramError::UnknownParameterSet(message.parameter_set.clone()))?;
        let operation = operation::of(message.operations.iter().map(|operation| operation.kind()));
        let (inputs, plan, outputs) = read::program(set, limits, message)?;
        let (steps, outputs, clear) = plan.finish(outputs);
        let keys = keys::of_steps(set, &inputs, &steps, &clear);
        let mut cost = Cost::of(set, &inputs, &steps, &outputs, &clear);
        cost.work += (bytes.len() >> PLANNED_LOG2) as u64;
        for (what, max, got) in [
            ("bytes of memory for a row", limits.memory_bytes, cost.memory_bytes),
            ("millions of multiplications for a row", limits.cost, cost.work),
        ] {
            if got > max {
                return Err(ProgramError::TooMany { what, max, got });
            }
        }
        let vectors = outputs.iter().map(|output| output.vector).collect();
        let planned = steps.iter().map(Step::held_bytes).sum::<usize>() + clear.held_bytes();
        let outline = Outline { set, operation, inputs, outputs: vectors, keys, cost, planned_bytes: planned as u64 };
        Ok(Self { id: ProgramId(*blake3::hash(bytes).as_bytes()), outline, steps, outputs, clear })
    }

    /// Digest that names the program.
    pub fn id(&self) -> ProgramId {
        self.id
    }

    /// Inputs and outputs of the program, its keys and its cost.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Parameter set that the program is written for.
    pub fn set(&self) -> &'static CkksSet {
        self.outline.set
    }

    /// Inputs of the program.
    pub fn inputs(&self) -> &[Input] {
        &self.outline.inputs
    }

    /// Steps, in the order of execution.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Outputs of the program.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Clear numbers that the steps name.
    pub fn clear(&self) -> &Clear {
        &self.clear
    }

    /// Keys that the program needs, each once, with the highest level at which it is needed.
    pub fn keys(&self) -> &[KeyNeed] {
        &self.outline.keys
    }

    /// Cost of a row.
    pub fn cost(&self) -> Cost {
        self.outline.cost
    }

    /// Slots, level and scale of a value.
    pub fn vector(&self, value: ValueId) -> Vector {
        vector_of(&self.outline.inputs, &self.steps, value)
    }
}

fn vector_of(inputs: &[Input], steps: &[Step], value: ValueId) -> Vector {
    match inputs.get(value) {
        Some(input) => input.vector,
        None => steps[value - inputs.len()].vector,
    }
}
