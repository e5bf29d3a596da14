//! Compiled programs: each program is compiled once, and the result is kept while there is room.
//!
//! Compiling a program of 200 bytes can take a second. The server therefore estimates the cost
//! first, and tenants take turns at a few slots (`programs/queue.rs`). The outcome for the bytes is
//! remembered, including the outcome that they are no valid program (`programs/known.rs`).

mod compiler;
mod known;
mod queue;

use bytes::Bytes;
use cloakwork_circuit::{Cost, Goal, Input, LANES_ASSUMED, Program, ProgramId, RowType, ckks::Outline};
use cloakwork_params::{AnySet, ParameterSet};

pub use compiler::Compiler;

/// The properties of a program that jobs need.
#[derive(Debug)]
pub struct Compiled {
    /// The program's ID.
    pub id: ProgramId,
    /// The program's bytes, as received.
    pub bytes: Bytes,
    /// The kind of its data, and its properties.
    pub family: Family,
}

/// The kind of data that a program computes on, with the properties of the program.
#[derive(Debug)]
pub enum Family {
    /// Blocks, under a TFHE set.
    Blocks(Blocks),
    /// Vectors of approximate numbers, under a CKKS set.
    Vectors(Outline),
}

/// The properties of a program on blocks.
#[derive(Debug)]
pub struct Blocks {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// The kind of the program's operations if they are of one kind.
    pub operation: &'static str,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The row types of the outputs.
    pub outputs: Vec<RowType>,
    /// Cost of a row when it is lowered for many rows (least work).
    pub work: Cost,
    /// Cost of a row when it is lowered for few rows (least depth).
    pub depth: Cost,
}

impl Compiled {
    /// The parameter set.
    pub fn set(&self) -> AnySet {
        match &self.family {
            Family::Blocks(blocks) => AnySet::Tfhe(blocks.set),
            Family::Vectors(outline) => AnySet::Ckks(outline.set),
        }
    }

    /// The kind of the program's operations if they are of one kind.
    pub fn operation(&self) -> &'static str {
        match &self.family {
            Family::Blocks(blocks) => blocks.operation,
            Family::Vectors(outline) => outline.operation,
        }
    }

    /// Bytes that the value takes in memory, approximately.
    fn held_bytes(&self) -> usize {
        let of_family = match &self.family {
            Family::Blocks(blocks) => blocks.held_bytes(),
            Family::Vectors(outline) => outline.held_bytes(),
        };
        size_of::<Self>() + self.bytes.len() + of_family
    }
}

impl Blocks {
    /// Computes the properties of a program. Takes time in proportion to
    /// [`Program::bootstraps_max`].
    fn of(program: &Program) -> Self {
        Self {
            set: program.set(),
            operation: program.operation(),
            inputs: program.inputs().to_vec(),
            outputs: program.output_types().collect(),
            work: program.cost(Goal::Work),
            depth: program.cost(Goal::Depth),
        }
    }

    /// Bytes of the lists. An input of two bytes in the message takes many more bytes here.
    fn held_bytes(&self) -> usize {
        let names: usize = self.inputs.iter().map(|input| input.name.len()).sum();
        names + size_of_val(&self.inputs[..]) + size_of_val(&self.outputs[..])
    }

    /// Cost of a row in a job of `rows` rows that runs alone on a small device. With other jobs
    /// under the same key, or on a larger device, a worker may lower the program for the other
    /// goal.
    pub fn cost(&self, rows: u64) -> Cost {
        match Goal::of_rows(rows, LANES_ASSUMED) {
            Goal::Work => self.work,
            Goal::Depth => self.depth,
        }
    }

    /// Number of ciphertexts that a row reads and returns.
    pub fn count(&self) -> u64 {
        let inputs = self.inputs.iter().map(|input| input.row);
        inputs.chain(self.outputs.iter().copied()).map(|row| row.blocks() as u64).sum()
    }
}
