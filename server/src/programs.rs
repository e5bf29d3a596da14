//! Programs as the server knows them: compiled once, remembered while there is room.
//!
//! Compiling a program of 200 bytes can take a second. So its cost is estimated first, and tenants take turns at a few
//! slots (`programs/queue.rs`). What came of some bytes is remembered, also that they are no program
//! (`programs/known.rs`).

mod compiler;
mod known;
mod queue;

use bytes::Bytes;
use cloakwork_circuit::{Cost, Goal, Input, LANES_ASSUMED, Program, ProgramId, RowType, ckks::Outline};
use cloakwork_params::{AnySet, ParameterSet};

pub use compiler::Compiler;

/// What jobs need to know of a program.
#[derive(Debug)]
pub struct Compiled {
    /// Its name.
    pub id: ProgramId,
    /// Its bytes, as received.
    pub bytes: Bytes,
    /// What it computes on.
    pub family: Family,
}

/// What a program computes on, and what there is to know of it.
#[derive(Debug)]
pub enum Family {
    /// Blocks, under a set of TFHE.
    Blocks(Blocks),
    /// Vectors of approximate numbers, under a set of CKKS.
    Vectors(Outline),
}

/// Of a program on blocks.
#[derive(Debug)]
pub struct Blocks {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// What it takes.
    pub inputs: Vec<Input>,
    /// What it returns.
    pub outputs: Vec<RowType>,
    /// What a row costs where rows are many.
    pub work: Cost,
    /// What it costs where they are few.
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

    /// Bytes that it takes up, roughly.
    fn held_bytes(&self) -> usize {
        let of_family = match &self.family {
            Family::Blocks(blocks) => blocks.held_bytes(),
            Family::Vectors(outline) => outline.held_bytes(),
        };
        size_of::<Self>() + self.bytes.len() + of_family
    }
}

impl Blocks {
    /// What is to be known of a program. This takes time in proportion to [`Program::bootstraps_max`].
    fn of(program: &Program) -> Self {
        Self {
            set: program.set(),
            inputs: program.inputs().to_vec(),
            outputs: program.output_types().collect(),
            work: program.cost(Goal::Work),
            depth: program.cost(Goal::Depth),
        }
    }

    /// Bytes of its lists. An input of two bytes in the message becomes many more here.
    fn held_bytes(&self) -> usize {
        let names: usize = self.inputs.iter().map(|input| input.name.len()).sum();
        names + size_of_val(&self.inputs[..]) + size_of_val(&self.outputs[..])
    }

    /// What a row costs in a job of so many, by itself and on a small device. Others under the same key, or a larger device,
    /// may have a worker lower the program the other way.
    pub fn cost(&self, rows: u64) -> Cost {
        match Goal::of_rows(rows, LANES_ASSUMED) {
            Goal::Work => self.work,
            Goal::Depth => self.depth,
        }
    }

    /// Ciphertexts that a row takes and returns.
    pub fn count(&self) -> u64 {
        let inputs = self.inputs.iter().map(|input| input.row);
        inputs.chain(self.outputs.iter().copied()).map(|row| row.blocks() as u64).sum()
    }
}
