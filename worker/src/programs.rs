//! Cache of programs, each checked and lowered once.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::{Goal, Input, LIMITS, Program, ProgramError, ProgramId};
use cloakwork_params::ParameterSet;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter, sync::Cache};
use tokio::task::spawn_blocking;

use crate::{engine::Plan, failure::JobFailure};

/// A lowered program: its set, its inputs and its plan.
#[derive(Clone)]
pub(crate) struct Lowered {
    pub(crate) set: &'static ParameterSet,
    pub(crate) inputs: Arc<[Input]>,
    pub(crate) plan: Arc<Plan>,
    /// Approximate bytes that the program occupies.
    bytes: usize,
}

impl Lowered {
    fn new(program: &Program, goal: Goal) -> Self {
        let plan = Plan::new(program.lower(goal));
        let inputs = program.inputs().iter().map(|input| size_of::<Input>() + input.name.len());
        let bytes = inputs.sum::<usize>() + plan.bytes();
        Self { set: program.set(), inputs: program.inputs().into(), plan: Arc::new(plan), bytes }
    }
}

/// A cache of programs, which keeps the latest programs while there is room.
///
/// A lowered program depends on the program's bytes and the goal only, so that tenants may share
/// it.
pub(crate) struct Programs {
    known: Cache<(ProgramId, Goal), Lowered, Weight>,
    steps: Steps,
}

/// The two steps that take time.
#[derive(Clone, Copy)]
struct Steps {
    decode: fn(&[u8]) -> Result<Program, ProgramError>,
    lower: fn(&Program, Goal) -> Lowered,
}

/// Maximum bytes of all cached programs. Programs of as many bootstraps as any program may have
/// take less than half of the part for hot programs.
const REMEMBERED_BYTES: usize = 64 << 20;
/// Maximum number of cached programs, however small.
const REMEMBERED_MAX: usize = 1024;
/// Maximum share of the room for hot programs; cold programs have the rest.
///
/// New programs are hot while this part has room, and cold afterwards. A cold program becomes hot
/// if it is requested again before its eviction. Programs that run once evict only cold programs.
const HOT_SHARE: f64 = 0.75;
/// Programs up to this number of bytes take less than a millisecond to decode. Larger programs are
/// decoded on a blocking thread, where they delay no other task, such as the worker's reports.
const INLINE_DECODING_BYTES: usize = 16 << 10;
/// Programs up to this number of bootstraps take less than a millisecond to lower. Larger programs
/// are lowered on a blocking thread too.
const INLINE_LOWERING_BOOTSTRAPS: u64 = 512;

/// Weighs a program by its bytes. The minimum weight limits the cache to [`REMEMBERED_MAX`]
/// programs.
#[derive(Clone)]
struct Weight;

impl Weighter<(ProgramId, Goal), Lowered> for Weight {
    fn weight(&self, _: &(ProgramId, Goal), lowered: &Lowered) -> u64 {
        lowered.bytes.max(REMEMBERED_BYTES / REMEMBERED_MAX) as u64
    }
}

impl Default for Programs {
    fn default() -> Self {
        Self::with(Steps { decode: |bytes| Program::decode(bytes, &LIMITS), lower: Lowered::new })
    }
}

impl Programs {
    fn with(steps: Steps) -> Self {
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(REMEMBERED_MAX).weight_capacity(REMEMBERED_BYTES as u64);
        // One shard, not one for each processor: the largest plan must fit.
        options.hot_allocation(HOT_SHARE).shards(1);
        let options = options.build().expect("both capacities are set");
        Self { known: Cache::with_options(options, Weight, DefaultHashBuilder::default(), Default::default()), steps }
    }

    /// Programs whose decoding panics.
    #[cfg(test)]
    pub(crate) fn that_panic() -> Self {
        Self::with(Steps { decode: |_| panic!("by the test"), lower: Lowered::new })
    }

    /// The lowered program of these bytes. Of several concurrent callers for one program, one
    /// lowers the program and all wait.
    pub(crate) async fn get(&self, bytes: &Bytes, goal: Goal) -> Result<Lowered, JobFailure> {
        let id = ProgramId(*blake3::hash(bytes).as_bytes());
        self.known.get_or_insert_async(&(id, goal), self.steps.run(bytes, goal)).await
    }
}

impl Steps {
    async fn run(self, bytes: &Bytes, goal: Goal) -> Result<Lowered, JobFailure> {
        let Self { decode, lower } = self;
        if bytes.len() > INLINE_DECODING_BYTES {
            let bytes = bytes.clone();
            return on_thread(move || Ok(lower(&decode(&bytes).map_err(invalid)?, goal))).await;
        }
        let program = decode(bytes).map_err(invalid)?;
        match program.bootstraps_max() <= INLINE_LOWERING_BOOTSTRAPS {
            true => Ok(lower(&program, goal)),
            false => on_thread(move || Ok(lower(&program, goal))).await,
        }
    }
}

/// Runs work on a blocking thread. A panic there says nothing about the program, so another attempt
/// may succeed.
async fn on_thread(work: impl FnOnce() -> Result<Lowered, JobFailure> + Send + 'static) -> Result<Lowered, JobFailure> {
    spawn_blocking(work).await.map_err(|error| JobFailure::passing("DEVICE_FAILED", error))?
}

fn invalid(error: ProgramError) -> JobFailure {
    JobFailure::lasting("PROGRAM_INVALID", error)
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

    /// A short program that takes many bootstraps: an operation on two integers.
    fn of_integers(kind: wire::operation::Kind, bits: u32) -> Bytes {
        let input = |name: &str| wire::program::Input {
            name: name.to_owned(),
            r#type: wire::Type::Uint.into(),
            bits,
            ..Default::default()
        };
        let message = wire::Program {
            parameter_set: "TOY_MESSAGE_2_CARRY_2".to_owned(),
            inputs: vec![input("x"), input("y")],
            operations: vec![wire::Operation { kind: kind.into(), arguments: vec![0, 1], ..Default::default() }],
            outputs: vec![2],
            ..Default::default()
        };
        message.encode_to_vec().into()
    }

    fn multiplication() -> Bytes {
        of_integers(wire::operation::Kind::Multiply, 64)
    }

    #[tokio::test]
    async fn a_program_is_lowered_once_for_each_goal() {
        let programs = Programs::default();
        let first = programs.get(&program(3), Goal::Work).await.expect("a program");
        let again = programs.get(&program(3), Goal::Work).await.expect("a program");
        let other = programs.get(&program(3), Goal::Depth).await.expect("a program");
        assert!(Arc::ptr_eq(&first.plan, &again.plan) && !Arc::ptr_eq(&first.plan, &other.plan));
        let refused = programs.get(&Bytes::from_static(b"nonsense"), Goal::Work).await.err().expect("a failure");
        assert!(!refused.retryable && refused.reason == "PROGRAM_INVALID", "{refused:?}");
    }

    /// A program of nearly as many bootstraps as any program may have. If its plan exceeded the
    /// part for hot programs, each job would lower it again.
    #[tokio::test]
    async fn the_largest_plans_are_cached() {
        let programs = Programs::default();
        let division = of_integers(wire::operation::Kind::Divide, 256);
        let first = programs.get(&division, Goal::Work).await.expect("a program");
        let again = programs.get(&division, Goal::Work).await.expect("a program");
        assert!(Arc::ptr_eq(&first.plan, &again.plan));
        assert!((first.bytes as f64) < HOT_SHARE / 2.0 * REMEMBERED_BYTES as f64, "{} bytes", first.bytes);
    }

    #[tokio::test]
    async fn programs_are_forgotten_by_number_and_by_bytes() {
        let programs = Programs::default();
        for number in 0..2 * REMEMBERED_MAX {
            programs.get(&named(&number.to_string(), 1), Goal::Work).await.expect("a program");
        }
        let count = programs.known.len();
        assert!((REMEMBERED_MAX / 2..=REMEMBERED_MAX).contains(&count), "{count}");
        // Names of inputs count towards the size of a program.
        let programs = Programs::default();
        for number in 0..200 {
            let name = format!("{number}{}", "x".repeat(1_000_000));
            programs.get(&named(&name, 1), Goal::Work).await.expect("a program");
        }
        let held: usize = programs.known.iter().map(|(_, lowered)| lowered.bytes).sum();
        assert!((REMEMBERED_BYTES / 2..=REMEMBERED_BYTES).contains(&held), "{held}");
    }

    #[tokio::test]
    async fn a_used_program_stays_cached_while_many_new_programs_arrive() {
        let programs = Programs::default();
        for number in 0..2 * REMEMBERED_MAX {
            programs.get(&named(&number.to_string(), 1), Goal::Work).await.expect("a program");
        }
        let first = programs.get(&program(1), Goal::Work).await.expect("a program");
        for number in 0..3 * REMEMBERED_MAX {
            programs.get(&named(&format!("new {number}"), 1), Goal::Work).await.expect("a program");
            if number % 100 == 0 {
                let again = programs.get(&program(1), Goal::Work).await.expect("a program");
                assert!(Arc::ptr_eq(&first.plan, &again.plan), "forgotten after {number} others");
            }
        }
    }

    #[tokio::test]
    async fn callers_share_one_lowering_even_if_the_first_goes_away() {
        let programs = Programs::default();
        let bytes = program(600);
        let mut gone = Box::pin(programs.get(&bytes, Goal::Work));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(gone.as_mut().poll(&mut context).is_pending(), "a blocking thread lowers the program");
        let others = async { tokio::join!(programs.get(&bytes, Goal::Work), programs.get(&bytes, Goal::Work)) };
        let mut others = Box::pin(others);
        assert!(others.as_mut().poll(&mut context).is_pending(), "the others wait");
        drop(gone);
        let (one, two) = others.await;
        assert!(Arc::ptr_eq(&one.expect("a program").plan, &two.expect("a program").plan));
    }

    #[tokio::test]
    async fn large_programs_are_decoded_and_lowered_on_a_blocking_thread() {
        /// The thread of the test is the thread of the runtime.
        fn elsewhere() -> bool {
            std::thread::current().name().is_none_or(|name| !name.ends_with("on_a_blocking_thread"))
        }
        let programs = Programs::with(Steps {
            decode: |bytes| {
                assert_eq!(elsewhere(), bytes.len() > INLINE_DECODING_BYTES);
                Program::decode(bytes, &LIMITS)
            },
            lower: |program, goal| {
                assert_eq!(elsewhere(), program.bootstraps_max() > INLINE_LOWERING_BOOTSTRAPS);
                Lowered::new(program, goal)
            },
        });
        assert!(!elsewhere());
        let long = program(600);
        assert!(long.len() > INLINE_DECODING_BYTES, "{} bytes", long.len());
        let short_and_slow = multiplication();
        assert!(short_and_slow.len() < INLINE_DECODING_BYTES, "{} bytes", short_and_slow.len());
        for bytes in [program(1), long, short_and_slow] {
            programs.get(&bytes, Goal::Work).await.expect("a program");
        }
    }

    #[tokio::test]
    async fn after_a_panic_on_a_blocking_thread_another_attempt_may_succeed() {
        let decode = |bytes: &[u8]| Program::decode(bytes, &LIMITS);
        for (bytes, steps) in [
            (program(600), Steps { decode: |_| panic!("by the test"), lower: Lowered::new }),
            (multiplication(), Steps { decode, lower: |_, _| panic!("by the test") }),
        ] {
            let programs = Programs::with(steps);
            let failure = programs.get(&bytes, Goal::Work).await.err().expect("a failure");
            assert!(failure.retryable && failure.reason == "DEVICE_FAILED", "{failure:?}");
        }
    }
}
