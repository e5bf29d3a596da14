//! Programs as the server knows them: compiled once, remembered while there is room.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use cloakwork_circuit::{Input, LIMITS, Program, ProgramId, Type};
use cloakwork_params::ParameterSet;

use crate::error::{ApiError, PROGRAM_INVALID};

/// What jobs need to know of a program.
#[derive(Debug)]
pub struct Compiled {
    /// Its name.
    pub id: ProgramId,
    /// Its bytes, as received.
    pub bytes: Bytes,
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// What it takes.
    pub inputs: Vec<Input>,
    /// What it returns.
    pub outputs: Vec<Type>,
    /// Bootstraps for one row.
    pub pbs_count: u64,
    /// Bootstraps one after the other, at least.
    pub depth: u32,
}

/// Compiles programs and remembers the latest ones.
///
/// A program is a pure function of its bytes, so tenants may share what was found out about it: nobody learns more than
/// the bytes that he already has.
#[derive(Clone, Default)]
pub struct Compiler(Arc<Mutex<Remembered>>);

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

impl Compiler {
    /// Checks the program in `bytes`.
    pub fn compile(&self, bytes: &Bytes) -> Result<Arc<Compiled>, ApiError> {
        let id = ProgramId(*blake3::hash(bytes).as_bytes());
        if let Some(compiled) = self.lock().compiled.get(&id) {
            return Ok(compiled.clone());
        }
        let program = Program::decode(bytes, &LIMITS).map_err(|error| PROGRAM_INVALID.error(error.to_string()))?;
        let graph = program.lower();
        let compiled = Arc::new(Compiled {
            id,
            // A copy: the bytes may be a slice of a much larger request.
            bytes: Bytes::copy_from_slice(bytes),
            set: program.set(),
            inputs: program.inputs().to_vec(),
            outputs: program.output_types().collect(),
            pbs_count: graph.pbs_count(),
            depth: graph.depth(),
        });
        self.lock().remember(compiled.clone());
        Ok(compiled)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn remember(&mut self, compiled: Arc<Compiled>) {
        if self.compiled.contains_key(&compiled.id) {
            return;
        }
        self.bytes += compiled.bytes.len();
        self.order.push_back(compiled.id);
        self.compiled.insert(compiled.id, compiled);
        while self.bytes > REMEMBERED_BYTES || self.order.len() > REMEMBERED_MAX {
            let Some(oldest) = self.order.pop_front().and_then(|id| self.compiled.remove(&id)) else { break };
            self.bytes -= oldest.bytes.len();
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
            set: &cloakwork_params::table::SETS[0],
            inputs: Vec::new(),
            outputs: Vec::new(),
            pbs_count: 0,
            depth: 0,
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
