//! Programs as the server knows them: compiled once, remembered while there is room.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use cloakwork_circuit::{
    AnyProgram, Goal, Input, LANES_ASSUMED, Program, ProgramError, ProgramId, RowType, ckks::Outline,
};
use cloakwork_params::{AnySet, ParameterSet};
use tokio::task::spawn_blocking;

use crate::{
    error::{ApiError, INTERNAL, PROGRAM_INVALID, REQUEST_TOO_LARGE},
    turns::Turns,
};

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

/// What a row costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bootstraps.
    pub pbs_count: u64,
    /// Bootstraps one after the other, at least.
    pub depth: u32,
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
        let outline = if let Family::Vectors(outline) = &self.family { outline.held_bytes() } else { 0 };
        self.bytes.len() + outline
    }
}

impl Blocks {
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

/// Compiles programs and remembers the latest ones.
///
/// A program is a pure function of its bytes, so tenants may share what was found out about it: nobody learns more than
/// the bytes that he already has.
#[derive(Clone)]
pub struct Compiler {
    remembered: Arc<Mutex<Remembered>>,
    turns: Turns,
    /// Bytes of a program that is sent.
    most: u64,
}

#[derive(Default)]
struct Remembered {
    compiled: HashMap<ProgramId, Arc<Compiled>>,
    order: VecDeque<ProgramId>,
    bytes: usize,
}

/// Bytes of programs that are remembered.
const REMEMBERED_BYTES: usize = 32 << 20;

/// Programs that are remembered: small ones take more beside their bytes than in them.
const REMEMBERED_MAX: usize = 4096;

/// Checking a program on blocks of so many bytes takes about a millisecond; a longer one, and any on vectors, is checked where
/// nobody waits behind it.
const SHORT_BYTES: usize = 8 << 10;
/// The same for lowering one of so many bootstraps, both ways.
const SHORT_BOOTSTRAPS: u64 = 512;

impl Compiler {
    /// One that takes programs of up to `most` bytes.
    pub fn new(most: u64) -> Self {
        // Nobody gets more than a core by sending many.
        Self { remembered: Arc::default(), turns: Turns::new(1, 1), most }
    }

    /// Checks a program that a tenant sends.
    pub async fn receive(&self, tenant: &str, bytes: &Bytes) -> Result<Arc<Compiled>, ApiError> {
        let most = self.most;
        if bytes.len() as u64 > most {
            return Err(REQUEST_TOO_LARGE.error(format!("a program of {} bytes: at most {most}", bytes.len())));
        }
        self.compile(tenant, bytes).await
    }

    /// Checks a program that a tenant has sent before.
    pub async fn compile(&self, tenant: &str, bytes: &Bytes) -> Result<Arc<Compiled>, ApiError> {
        let id = ProgramId(*blake3::hash(bytes).as_bytes());
        if let Some(compiled) = self.remembered(id) {
            return Ok(compiled);
        }
        // A few bytes may be a program on vectors that takes long to plan.
        if bytes.len() <= SHORT_BYTES && AnyProgram::set_of(bytes).map_err(invalid)?.tfhe().is_some() {
            let program = AnyProgram::decode(bytes).map_err(invalid)?;
            if matches!(&program, AnyProgram::Blocks(program) if program.bootstraps_max() <= SHORT_BOOTSTRAPS) {
                return Ok(self.finish(&program, bytes));
            }
        }
        let turn = self.turns.take(tenant, 1).await;
        let (this, bytes) = (self.clone(), bytes.clone());
        let compile = move || {
            // Not before the end: whoever asked may be gone by then.
            let _turn = turn;
            let decoded = || AnyProgram::decode(&bytes).map_err(invalid);
            this.remembered(id).map_or_else(|| Ok(this.finish(&decoded()?, &bytes)), Ok)
        };
        spawn_blocking(compile).await.map_err(|error| INTERNAL.error(error.to_string()))?
    }

    fn finish(&self, program: &AnyProgram, bytes: &Bytes) -> Arc<Compiled> {
        let family = match program {
            AnyProgram::Blocks(program) => Family::Blocks(blocks(program)),
            AnyProgram::Vectors(program) => Family::Vectors(program.outline().clone()),
        };
        // A copy: the bytes may be a slice of a much larger request.
        let compiled = Arc::new(Compiled { id: program.id(), bytes: Bytes::copy_from_slice(bytes), family });
        self.lock().remember(compiled.clone());
        compiled
    }

    fn remembered(&self, id: ProgramId) -> Option<Arc<Compiled>> {
        self.lock().compiled.get(&id).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn invalid(error: ProgramError) -> ApiError {
    PROGRAM_INVALID.error(error.to_string())
}

fn blocks(program: &Program) -> Blocks {
    let cost = |goal| {
        let graph = program.lower(goal);
        Cost { pbs_count: graph.pbs_count(), depth: graph.depth() }
    };
    Blocks {
        set: program.set(),
        inputs: program.inputs().to_vec(),
        outputs: program.output_types().collect(),
        work: cost(Goal::Work),
        depth: cost(Goal::Depth),
    }
}

impl Remembered {
    fn remember(&mut self, compiled: Arc<Compiled>) {
        if self.compiled.contains_key(&compiled.id) {
            return;
        }
        self.bytes += compiled.held_bytes();
        self.order.push_back(compiled.id);
        self.compiled.insert(compiled.id, compiled);
        while self.bytes > REMEMBERED_BYTES || self.order.len() > REMEMBERED_MAX {
            let Some(oldest) = self.order.pop_front().and_then(|id| self.compiled.remove(&id)) else { break };
            self.bytes -= oldest.held_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(number: usize, bytes: usize) -> Arc<Compiled> {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_le_bytes());
        Arc::new(Compiled {
            id: ProgramId(id),
            bytes: Bytes::from(vec![0; bytes]),
            family: Family::Blocks(Blocks {
                set: &cloakwork_params::table::SETS[0],
                inputs: Vec::new(),
                outputs: Vec::new(),
                work: Cost::default(),
                depth: Cost::default(),
            }),
        })
    }

    #[test]
    fn the_oldest_programs_are_forgotten_by_number_and_by_bytes() {
        let mut remembered = Remembered::default();
        (0..REMEMBERED_MAX + 5).for_each(|number| remembered.remember(compiled(number, 1)));
        assert_eq!((remembered.order.len(), remembered.compiled.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        assert_eq!(remembered.bytes, REMEMBERED_MAX);
        assert!(!remembered.compiled.contains_key(&compiled(4, 1).id));
        remembered.remember(compiled(usize::MAX, REMEMBERED_BYTES - 10));
        assert_eq!((remembered.order.len(), remembered.bytes), (11, REMEMBERED_BYTES));
    }
}
