//! Jobs on vectors of approximate numbers: what the worker keeps for them, and how its memory is shared out.

mod keys;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_circuit::ckks::{Action, LIMITS, Program};
use cloakwork_params::ckks::CkksSet;
use cloakwork_proto::v1;
use cloakwork_vectors::{Engine, Job, Matrices, self_test};
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::keys::{VectorKeyRequest, VectorKeys, VectorLease};
use crate::{failure::JobFailure, group::GroupId, locked::Locked as _, pulse::Pulse};

/// The engine for vectors, its keys and its matrices.
pub(crate) struct Vectors {
    engine: Engine<GroupId>,
    pub(crate) keys: Arc<VectorKeys>,
    shares: Shares,
    threads: usize,
    /// Sets that this machine has got a known answer right under.
    proven: Mutex<Vec<&'static CkksSet>>,
    pulse: Arc<Pulse>,
    /// One program is planned at a time: many at once would take the processors from whatever is to be told the server in time.
    planning: Arc<Semaphore>,
}

/// Who has which part of the memory for vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    keys: u64,
    matrices: u64,
    values: u64,
}

/// Work after which another key's jobs are next, in millions of multiplications: some bootstraps of a whole vector, which take
/// longer than a key's way from the server.
const TURN: u64 = 1 << 18;

impl Shares {
    /// Of a bootstrap of a whole vector in five stages, with a medium key: 4.8 GiB are keys, 1.7 matrices, and less than 1 is
    /// worked on.
    fn of(bytes: u64) -> Self {
        Self { keys: bytes / 8 * 5, matrices: bytes / 4, values: bytes / 8 }
    }

    /// Refuses a program that would need more than there ever is.
    fn check(self, program: &Program, key_bytes: u64, threads: usize) -> Result<(), JobFailure> {
        let bootstraps = program.steps().iter().filter_map(|step| match step.action {
            Action::Bootstrap(_, kind) => Some(kind.matrix_bytes(program.set())),
            _ => None,
        });
        for (what, wanted, most) in [
            ("the matrices of a bootstrap", bootstraps.max().unwrap_or(0), self.matrices),
            ("its numbers", program.cost().memory_bytes_on(threads), self.values),
            ("its key", key_bytes, self.keys),
        ] {
            if wanted > most {
                let message = format!(
                    "the job takes {wanted} bytes for {what}: of its memory for vectors, this worker has {most} for them"
                );
                return Err(JobFailure::passing("WORKER_OUT_OF_MEMORY", message));
            }
        }
        Ok(())
    }
}

impl Vectors {
    /// With so much memory; none where that is nothing. `changed` is told when there is news for the server.
    pub(crate) fn start(memory: u64, threads: usize, changed: &Arc<Notify>) -> std::io::Result<Option<Self>> {
        if memory == 0 {
            return Ok(None);
        }
        let shares = Shares::of(memory);
        let matrices = Arc::new(Matrices::new(usize::try_from(shares.matrices).unwrap_or(usize::MAX), threads));
        let pulse = Arc::<Pulse>::default();
        let beats = pulse.clone();
        let engine = Engine::start(threads, TURN, matrices, move |is_busy| beats.beat(is_busy))?;
        let keys = Arc::new(VectorKeys::new(shares.keys, threads, changed.clone()));
        let (proven, planning) = (Mutex::default(), Arc::new(Semaphore::new(1)));
        Ok(Some(Self { engine, keys, shares, threads, proven, pulse, planning }))
    }

    /// Computes known answers. Each lets `changed` know, for the server to be told of its sets without waiting for the others. It
    /// blocks.
    pub(crate) fn prove(&self, changed: &Notify) {
        let began = Instant::now();
        let proven = |set| {
            self.proven.locked().push(set);
            changed.notify_one();
        };
        // One that panics has proven nothing either.
        let refused = match catch_unwind(AssertUnwindSafe(|| self_test(self.threads, proven))) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("a known answer was not computed to its end".to_owned()),
        };
        match refused {
            None => tracing::debug!(seconds = began.elapsed().as_secs_f64(), "proved itself on vectors"),
            Some(error) => {
                self.proven.locked().clear();
                changed.notify_one();
                tracing::error!(%error, "this worker takes no jobs on vectors");
            }
        }
    }

    /// Sets that jobs may have.
    pub(crate) fn sets(&self) -> Vec<&'static CkksSet> {
        self.proven.locked().clone()
    }

    /// Plans a program when its turn comes: a few bytes may be one that takes long.
    pub(crate) async fn plan(&self, bytes: Bytes) -> Result<Program, JobFailure> {
        let turn = self.planning.clone().acquire_owned().await.expect("nobody closes it");
        let plan = move || {
            // Not before the end: the job that wants it may be gone by then.
            let _turn = turn;
            Program::decode(&bytes, &LIMITS)
        };
        let planned = tokio::task::spawn_blocking(plan).await;
        let planned = planned.map_err(|error| JobFailure::passing("DEVICE_FAILED", error))?;
        planned.map_err(|error| JobFailure::lasting("PROGRAM_INVALID", error))
    }

    /// Refuses what this worker does not compute, with a key of these parts.
    pub(crate) fn check(&self, program: &Program, parts: &[v1::Digest]) -> Result<(), JobFailure> {
        let set = program.set();
        if !self.proven.locked().iter().any(|proven| proven.id == set.id) {
            let message = format!("this worker has not proved itself under {}", set.name);
            return Err(JobFailure::passing("SET_NOT_SERVED", message));
        }
        // With its masks, it is more than twice as long as it is stored: what has no room even so is not begun.
        let stored: u64 = parts.iter().map(|part| part.size_bytes).fold(0, u64::saturating_add);
        self.shares.check(program, stored.saturating_mul(2), self.threads)
    }

    /// Takes a job on.
    pub(crate) fn submit(&self, job: Job<GroupId>) {
        self.engine.submit(job);
    }

    /// For how long it has computed without ending a step.
    pub(crate) fn silent_for(&self) -> Duration {
        self.pulse.silent_for()
    }

    /// Has the engine's thread ended? Jobs would wait for it for ever.
    pub(crate) fn has_died(&self) -> bool {
        self.engine.has_died()
    }

    /// Gives up jobs that wait and that nobody wants any more.
    pub(crate) fn forget_cancelled(&self) {
        self.engine.forget_cancelled();
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_circuit::wire::{self, operation::Kind};
    use prost::Message as _;

    use super::*;

    /// A bootstrap of all numbers of a real set.
    fn bootstrap(stages: u32) -> Program {
        let size = wire::operation::bootstrap::Size::Medium.into();
        let message = wire::Program {
            parameter_set: "CKKS_45_60_50".to_owned(),
            inputs: vec![wire::program::Input {
                name: "x".to_owned(),
                r#type: wire::Type::Vector.into(),
                slots_log2: 15,
                ..Default::default()
            }],
            operations: vec![wire::Operation {
                kind: Kind::Bootstrap.into(),
                arguments: vec![0],
                bootstrap: Some(wire::operation::Bootstrap { stages, size, ..Default::default() }),
                ..Default::default()
            }],
            outputs: vec![1],
            ..Default::default()
        };
        Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program")
    }

    #[test]
    fn the_usual_memory_is_enough_for_the_usual_bootstrap() {
        let shares = Shares::of(8 << 30);
        assert!(shares.keys + shares.matrices + shares.values <= 8 << 30);
        let program = bootstrap(5);
        for threads in [1, 2, 64, 256] {
            shares.check(&program, 4922 << 20, threads).expect("room, however many threads there are");
        }
        assert!(program.cost().work * 4 < TURN, "{} in a turn of {TURN}", program.cost().work);
        let refused = shares.check(&bootstrap(3), 0, 2).expect_err("its matrices take more than twice as much");
        assert!(refused.reason == "WORKER_OUT_OF_MEMORY" && refused.message.contains("matrices"), "{refused:?}");
        Shares::of(24 << 30).check(&bootstrap(3), 8374 << 20, 2).expect("room");
        let refused = shares.check(&program, 6 << 30, 2).expect_err("its key takes more than there is for keys");
        assert!(refused.message.contains("its key"), "{refused:?}");
    }
}
