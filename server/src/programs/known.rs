//! A cache of compile outcomes by program ID, which keeps the latest outcomes while there is room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloakwork_circuit::ProgramId;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter, unsync};

use super::Compiled;
use crate::error::ApiError;

/// The outcome for some bytes: the compiled program, or the error that they contain.
pub(super) type Outcome = Result<Arc<Compiled>, ApiError>;

/// Maximum number of bytes of remembered programs.
const REMEMBERED_BYTES: usize = 32 << 20;

/// Maximum number of remembered programs. Small programs take more memory beside their bytes than
/// in them.
const REMEMBERED_MAX: usize = 4096;

/// Remembers outcomes.
///
/// An outcome is a pure function of the bytes, so tenants may share it. A tenant learns nothing
/// beyond the bytes that it already has.
pub(super) struct Known(Mutex<Cache>);

type Cache = unsync::Cache<ProgramId, Outcome, Weight>;

/// Maximum share of the room for hot outcomes; cold outcomes have the rest.
///
/// New outcomes are hot while this part has room, and cold afterwards. A cold outcome becomes hot
/// if it is requested again before it is the oldest cold outcome. The outcome also becomes hot if
/// it is inserted again soon after its eviction. A tenant that sends many programs once each evicts
/// only cold outcomes. A tenant that sends each program twice also evicts hot outcomes, beginning
/// with those that had no request in the meantime.
const HOT_SHARE: f64 = 0.75;

/// Weighs an outcome by its bytes. The minimum weight limits the cache to [`REMEMBERED_MAX`]
/// outcomes.
#[derive(Clone)]
struct Weight;

impl Weighter<ProgramId, Outcome> for Weight {
    fn weight(&self, _: &ProgramId, outcome: &Outcome) -> u64 {
        let bytes = match outcome {
            Ok(compiled) => compiled.held_bytes(),
            Err(error) => error.message().len(),
        };
        bytes.max(REMEMBERED_BYTES / REMEMBERED_MAX) as u64
    }
}

impl Default for Known {
    fn default() -> Self {
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(REMEMBERED_MAX).weight_capacity(REMEMBERED_BYTES as u64);
        options.hot_allocation(HOT_SHARE);
        let options = options.build().expect("both capacities are set");
        // One shard, not one for each processor: a program of a mebibyte must fit.
        Self(Mutex::new(Cache::with_options(options, Weight, DefaultHashBuilder::default(), Default::default())))
    }
}

impl Known {
    pub(super) fn get(&self, id: ProgramId) -> Option<Outcome> {
        self.lock().get(&id).cloned()
    }

    pub(super) fn insert(&self, id: ProgramId, outcome: Outcome) {
        self.lock().insert(id, outcome);
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cloakwork_circuit::Cost;

    use super::{
        super::{Blocks, Family},
        *,
    };
    use crate::error::PROGRAM_INVALID;

    fn id(number: usize) -> ProgramId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_le_bytes());
        ProgramId(id)
    }

    fn compiled(number: usize, bytes: usize) -> Outcome {
        Ok(Arc::new(Compiled {
            id: id(number),
            bytes: Bytes::from(vec![0; bytes]),
            family: Family::Blocks(Blocks {
                set: &cloakwork_params::table::SETS[0],
                operation: "ADD",
                inputs: Vec::new(),
                outputs: Vec::new(),
                work: Cost::default(),
                depth: Cost::default(),
            }),
        }))
    }

    #[test]
    fn programs_are_forgotten_by_number_and_by_bytes() {
        let known = Known::default();
        for number in 0..3 * REMEMBERED_MAX {
            let outcome = if number % 2 == 0 { compiled(number, 1) } else { Err(PROGRAM_INVALID.error("no")) };
            known.insert(id(number), outcome);
        }
        let count = known.lock().len();
        assert!((REMEMBERED_MAX / 2..=REMEMBERED_MAX).contains(&count), "{count}");
        let known = Known::default();
        (0..100).for_each(|number| known.insert(id(number), compiled(number, 1 << 20)));
        let held: usize =
            known.lock().iter().filter_map(|(_, outcome)| Some(outcome.as_ref().ok()?.held_bytes())).sum();
        assert!(((16 << 20)..=REMEMBERED_BYTES).contains(&held), "{held}");
    }

    #[test]
    fn lists_of_small_programs_count() {
        let input = cloakwork_circuit::Input {
            name: "x".to_owned(),
            row: cloakwork_circuit::RowType { ty: cloakwork_circuit::Type::Bool, length: None },
            degree_max: 1,
            noise_level_max: 1,
            is_fresh: false,
        };
        let known = Known::default();
        for number in 0..REMEMBERED_MAX {
            let Ok(mut compiled) = compiled(number, 2).map(|compiled| Arc::into_inner(compiled).unwrap()) else {
                panic!()
            };
            let Family::Blocks(blocks) = &mut compiled.family else { panic!() };
            blocks.inputs = vec![input.clone(); 1024];
            known.insert(id(number), Ok(Arc::new(compiled)));
        }
        let count = known.lock().len();
        let bytes = count * 1024 * size_of::<cloakwork_circuit::Input>();
        assert!(count > 0 && bytes <= REMEMBERED_BYTES, "{count} programs of {bytes} bytes");
    }

    #[test]
    fn a_used_program_stays_cached_while_many_new_programs_arrive() {
        let known = Known::default();
        (0..2 * REMEMBERED_MAX).for_each(|number| known.insert(id(number), compiled(number, 1)));
        let used = id(usize::MAX);
        known.insert(used, compiled(usize::MAX, 1));
        for number in 0..3 * REMEMBERED_MAX {
            known.insert(id(number), compiled(number, 1));
            assert!(number % 500 != 0 || known.get(used).is_some(), "forgotten after {number} others");
        }
    }
}
