//! Programs on vectors of approximate numbers, under parameter sets of CKKS.
//!
//! What a client writes says nothing of scales, and of levels only where it wants to: [`Program::decode`] plans when
//! operands are brought to one level and one scale, which keys that takes, and what it costs.

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

/// What plans say of bootstraps and of keys.
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
use crate::{ProgramError, ProgramId, ValueId, message, program::at_most};

/// A program that has been checked and planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    id: ProgramId,
    outline: Outline,
    steps: Vec<Step>,
    outputs: Vec<Output>,
    clear: Clear,
}

/// What is known of a vector whatever is in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vector {
    /// log2 of how many numbers it holds.
    pub slots_log2: u32,
    /// Its level.
    pub level: usize,
    /// What its numbers are multiplied by.
    pub scale: f64,
}

impl Vector {
    /// How a ciphertext is not that, if it is not.
    pub fn difference(&self, got: CiphertextShape) -> Option<String> {
        let Self { slots_log2, level, scale } = *self;
        if got.slots_log2 != slots_log2 {
            Some(format!("{} numbers: the program takes {}", 1_u64 << got.slots_log2, 1_u64 << slots_log2))
        } else if got.level != level {
            Some(format!("level {}: the program takes level {level}", got.level))
        } else if !is_same(scale, got.scale) {
            Some(format!("a scale of 2^{:.6}: the program takes 2^{:.6}", got.scale.log2(), scale.log2()))
        } else {
            None
        }
    }
}

/// What a program takes for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Name, for messages.
    pub name: String,
    /// What it holds.
    pub vector: Vector,
}

/// What a program returns for each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// The value.
    pub value: ValueId,
    /// What it holds.
    pub vector: Vector,
}

/// One step of the plan. Values are numbered from 0: inputs, then the result of each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// What comes out.
    pub vector: Vector,
    /// The operation of the program that it belongs to.
    pub operation: usize,
    /// Values that no later step reads, and that are not returned.
    pub last_uses: Vec<ValueId>,
}

impl Step {
    /// Bytes that it takes up.
    fn held_bytes(&self) -> usize {
        let coefficients = if let Action::Chebyshev(_, coefficients) = &self.action { &coefficients[..] } else { &[] };
        size_of::<Self>() + size_of_val(coefficients) + size_of_val(&self.last_uses[..])
    }
}

/// What a step does. All that multiplies takes the level that it needs by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Of vectors of one scale; the higher level is lowered to the other.
    Add(ValueId, ValueId),
    /// The same.
    Subtract(ValueId, ValueId),
    /// Every number negated.
    Negate(ValueId),
    /// Every number times i, exactly.
    TimesI(ValueId),
    /// Plus a real number.
    AddNumber(ValueId, f64),
    /// Plus clear numbers.
    AddClear(ValueId, usize),
    /// Times a real number, to exactly the result's level and scale.
    MultiplyNumber(ValueId, f64),
    /// Times clear numbers, to exactly the result's scale.
    MultiplyClear(ValueId, usize),
    /// The product of two vectors, divided by the last prime of the lower one.
    Multiply(ValueId, ValueId),
    /// Turned to the left.
    Rotate(ValueId, i64),
    /// Every number conjugated.
    Conjugate(ValueId),
    /// The sum of all numbers, in every place.
    Total(ValueId),
    /// To a lower level.
    Lower(ValueId),
    /// A sum of Chebyshev polynomials.
    Chebyshev(ValueId, Vec<f64>),
    /// A clear matrix times the vector.
    Transform(ValueId, usize),
    /// New levels.
    Bootstrap(ValueId, BootstrapShape),
}

impl Action {
    /// What goes in.
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

/// Clear numbers that steps name, by their real and imaginary parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clear {
    /// As many as a vector holds.
    pub vectors: Vec<Vec<[f64; 2]>>,
    /// By their diagonals.
    pub matrices: Vec<Vec<Diagonal>>,
}

impl Clear {
    /// Those that steps name, which are told the new places: a program may say much that it does not use.
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

    /// Bytes that they take up.
    fn held_bytes(&self) -> usize {
        let vectors = self.vectors.iter().map(|numbers| size_of_val(&numbers[..]));
        let diagonals =
            self.matrices.iter().flatten().map(|diagonal| size_of_val(&diagonal.numbers[..]) + size_of::<Diagonal>());
        vectors.chain(diagonals).sum()
    }

    /// Which diagonals a matrix has, for vectors of so many numbers.
    fn offsets(&self, matrix: usize, slots_log2: u32) -> Offsets {
        Offsets::new(1 << slots_log2, self.matrices[matrix].iter().map(|diagonal| diagonal.offset))
    }
}

/// What is kept of a list.
struct Kept<T> {
    all: Vec<T>,
    /// By old places.
    places: HashMap<usize, usize>,
    kept: Vec<T>,
}

impl<T: Default> Kept<T> {
    fn new(all: Vec<T>) -> Self {
        Self { all, places: HashMap::new(), kept: Vec::new() }
    }

    /// Keeps what is at a place, and says where it is from now on.
    fn keep(&mut self, place: &mut usize) {
        let Self { all, places, kept } = self;
        *place = *places.entry(*place).or_insert_with(|| {
            kept.push(mem::take(&mut all[*place]));
            kept.len() - 1
        });
    }
}

/// How a product with a clear matrix turns the numbers.
const WAY_OF_CLEAR_MATRICES: Way = Way::Apart { more: 0 };

/// A diagonal of a square matrix: the entries so many columns to the right, around the end, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagonal {
    /// How far to the right.
    pub offset: usize,
    /// The entries.
    pub numbers: Vec<[f64; 2]>,
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
    /// Arguments of all operations together.
    pub arguments: usize,
    /// Outputs.
    pub outputs: usize,
    /// Degree of a polynomial.
    pub degree: usize,
    /// Bytes of the matrices of one kind of bootstrap, which everybody shares.
    pub matrix_bytes: u64,
    /// Bytes that the values of a row may take at a time, and what is worked on beside them.
    pub memory_bytes: u64,
    /// Cost of a row, in millions of multiplications.
    pub cost: u64,
}

/// What every server and worker accepts.
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
/// Some seventy bootstraps of a whole vector, a few minutes of two processors: a job is computed to its end while others wait.
const COST_MAX: u64 = 1 << 21;

/// log2 of the bytes whose planning takes as long as a million multiplications, also of steps that nothing comes of.
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
        let outline = Outline { set, inputs, outputs: vectors, keys, cost, planned_bytes: planned as u64 };
        Ok(Self { id: ProgramId(*blake3::hash(bytes).as_bytes()), outline, steps, outputs, clear })
    }

    /// Its name.
    pub fn id(&self) -> ProgramId {
        self.id
    }

    /// What it takes and returns, and what that takes.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The parameter set that it is written for.
    pub fn set(&self) -> &'static CkksSet {
        self.outline.set
    }

    /// What it takes.
    pub fn inputs(&self) -> &[Input] {
        &self.outline.inputs
    }

    /// What is done, in this order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What it returns.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Clear numbers that its steps name.
    pub fn clear(&self) -> &Clear {
        &self.clear
    }

    /// Keys that it needs, each once, at the highest level that it is needed at.
    pub fn keys(&self) -> &[KeyNeed] {
        &self.outline.keys
    }

    /// What a row takes.
    pub fn cost(&self) -> Cost {
        self.outline.cost
    }

    /// What a value holds.
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
