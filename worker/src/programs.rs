//! Cache of programs, each checked and lowered once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use cloakwork_circuit::{Goal, Input, LIMITS, Program, ProgramError, ProgramId};
use cloakwork_params::ParameterSet;
use tokio::{sync::OnceCell, task::spawn_blocking};

use crate::{engine::Plan, locked::Locked as _};

/// A lowered program: its set, its inputs and its plan.
#[derive(Clone)]
pub(crate) struct Lowered {
    pub(crate) set: &'static ParameterSet,
    pub(crate) inputs: Arc<[Input]>,
    pub(crate) plan: Arc<Plan>,
}

impl Lowered {
    fn new(program: &Program, goal: Goal) -> Self {
        let (set, inputs) = (program.set(), program.inputs().into());
        Self { set, inputs, plan: Arc::new(Plan::new(program.lower(goal))) }
    }

    /// Approximate bytes that the program occupies.
    fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|input| size_of::<Input>() + input.name.len());
        inputs.sum::<usize>() + self.plan.bytes()
    }
}

/// An LRU cache of programs.
///
/// A lowered program depends on the program's bytes and the goal only, so that tenants may share
/// it.
#[derive(Default)]
pub(crate) struct Programs(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    entries: HashMap<(ProgramId, Goal), Entry>,
    clock: u64,
}

struct Entry {
    lowered: Arc<OnceCell<Lowered>>,
    last_use: u64,
}

/// Maximum bytes of all cached plans. A larger plan is cached alone.
const REMEMBERED_BYTES: usize = 64 << 20;
/// Maximum number of cached programs, however small.
const REMEMBERED_MAX: usize = 1024;
/// Programs up to this number of bootstraps take less than a millisecond to lower. Larger programs
/// are lowered on a blocking thread, where they delay no other task.
const INLINE_LOWERING_BOOTSTRAPS: u64 = 512;

impl Programs {
    /// The lowered program of these bytes. Of several concurrent callers for one program, one
    /// lowers the program and all wait.
    pub(crate) async fn get(&self, bytes: &Bytes, goal: Goal) -> Result<Lowered, ProgramError> {
        let id = ProgramId(*blake3::hash(bytes).as_bytes());
        let cell = self.0.locked().entry((id, goal));
        cell.get_or_try_init(|| lower(bytes.clone(), goal)).await.cloned()
    }
}

async fn lower(bytes: Bytes, goal: Goal) -> Result<Lowered, ProgramError> {
    let program = Program::decode(&bytes, &LIMITS)?;
    let is_short = program.bootstraps_max() <= INLINE_LOWERING_BOOTSTRAPS;
    if is_short {
        return Ok(Lowered::new(&program, goal));
    }
    match spawn_blocking(move || Lowered::new(&program, goal)).await {
        Ok(lowered) => Ok(lowered),
        // The runtime is about to end, and the job with it.
        Err(error) => Err(ProgramError::Malformed(error.to_string())),
    }
}

impl Remembered {
    /// The cache entry of a program, created if necessary. The least recently used entries are
    /// evicted.
    fn entry(&mut self, key: (ProgramId, Goal)) -> Arc<OnceCell<Lowered>> {
        self.clock += 1;
        let last_use = self.clock;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.last_use = last_use;
            return entry.lowered.clone();
        }
        let bytes = |entry: &Entry| entry.lowered.get().map_or(0, Lowered::bytes);
        let mut held: usize = self.entries.values().map(bytes).sum();
        while held > REMEMBERED_BYTES || self.entries.len() >= REMEMBERED_MAX {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| *key);
            let Some(entry) = oldest.and_then(|key| self.entries.remove(&key)) else { break };
            held -= bytes(&entry);
        }
        let lowered = Arc::<OnceCell<Lowered>>::default();
        self.entries.insert(key, Entry { lowered: lowered.clone(), last_use });
        lowered
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_circuit::wire;
    use prost::Message as _;

    use super::*;

    /// A program that applies a table to its input `lookups` times.
    fn program(lookups: usize) -> Bytes {
        named("x", lookups)
    }

    fn named(name: &str, lookups: usize) -> Bytes {
        let table = wire::Table { entries: (0..16).collect() };
        let lookup = |index: usize| wire::Operation {
            kind: wire::operation::Kind::Lookup.into(),
            arguments: vec![index as u32],
            tables: vec![table.clone()],
            ..Default::default()
        };
        let message = wire::Program {
            parameter_set: "TOY_MESSAGE_2_CARRY_2".to_owned(),
            inputs: vec![wire::program::Input {
                name: name.to_owned(),
                r#type: wire::Type::Block.into(),
                degree_max: 15,
                ..Default::default()
            }],
            operations: (0..lookups).map(lookup).collect(),
            outputs: vec![lookups as u32],
            ..Default::default()
        };
        message.encode_to_vec().into()
    }

    #[tokio::test]
    async fn a_program_is_lowered_once_for_each_goal() {
        let programs = Programs::default();
        let first = programs.get(&program(3), Goal::Work).await.expect("a program");
        let again = programs.get(&program(3), Goal::Work).await.expect("a program");
        let other = programs.get(&program(3), Goal::Depth).await.expect("a program");
        assert!(Arc::ptr_eq(&first.plan, &again.plan) && !Arc::ptr_eq(&first.plan, &other.plan));
        assert!(programs.get(&Bytes::from_static(b"nonsense"), Goal::Work).await.is_err());
    }

    #[tokio::test]
    async fn the_least_recently_used_programs_are_evicted() {
        let programs = Programs::default();
        let first = programs.get(&program(1), Goal::Work).await.expect("a program");
        for lookups in 2..REMEMBERED_MAX + 10 {
            programs.get(&program(1), Goal::Work).await.expect("a program");
            programs.0.locked().entry((ProgramId([lookups as u8; 32]), Goal::Depth));
            let mut id = [0; 32];
            id[..8].copy_from_slice(&lookups.to_le_bytes());
            programs.0.locked().entry((ProgramId(id), Goal::Work));
        }
        assert!(programs.0.locked().entries.len() <= REMEMBERED_MAX);
        let again = programs.get(&program(1), Goal::Work).await.expect("a program");
        assert!(Arc::ptr_eq(&first.plan, &again.plan), "it was used all the time");
    }

    #[tokio::test]
    async fn names_of_inputs_count_towards_the_size_of_a_program() {
        let programs = Programs::default();
        for number in 0..200 {
            let name = format!("{number}{}", "x".repeat(1_000_000));
            programs.get(&named(&name, 1), Goal::Work).await.expect("a program");
        }
        let held: usize =
            programs.0.locked().entries.values().filter_map(|entry| entry.lowered.get()).map(Lowered::bytes).sum();
        assert!((REMEMBERED_BYTES / 2..=REMEMBERED_BYTES + 2_000_000).contains(&held), "{held}");
    }
}
