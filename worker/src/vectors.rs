//! Support for jobs on vectors of approximate numbers, and the division of its memory.

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
    /// Sets that have passed the self-test on this machine.
    proven: Mutex<Vec<&'static CkksSet>>,
    pulse: Arc<Pulse>,
    /// Limits planning to one program at a time. Many at once would take the processors from tasks
    /// that have to report to the server in time.
    planning: Arc<Semaphore>,
}

/// Division of the memory for vectors, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    keys: u64,
    matrices: u64,
    values: u64,
}

/// Work after which the jobs of another key are next, in millions of multiplications. The value
/// equals a few bootstraps of a full vector, which take longer than loading a key from the server.
const KEY_TURN_WORK: u64 = 1 << 18;

impl Shares {
    /// Shares for `bytes` bytes. A bootstrap of a full vector in five stages, with a medium key,
    /// needs 4.8 GiB for keys, 1.7 for matrices, and less than 1 for values.
    fn of(bytes: u64) -> Self {
        Self { keys: bytes / 8 * 5, matrices: bytes / 4, values: bytes / 8 }
    }

    /// Refuses a program that needs more than a share's whole memory.
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
    /// Starts the engine with the given memory; `None` for 0 bytes. `changed` is notified when the
    /// next report to the server is due early.
    pub(crate) fn start(memory: u64, threads: usize, changed: &Arc<Notify>) -> std::io::Result<Option<Self>> {
        if memory == 0 {
            return Ok(None);
        }
        let shares = Shares::of(memory);
        let matrices = Arc::new(Matrices::new(usize::try_from(shares.matrices).unwrap_or(usize::MAX), threads));
        let pulse = Arc::<Pulse>::default();
        let beats = pulse.clone();
        let engine = Engine::start(threads, KEY_TURN_WORK, matrices, move |is_busy| beats.beat(is_busy))?;
        let keys = Arc::new(VectorKeys::new(shares.keys, threads, changed.clone()));
        let (proven, planning) = (Mutex::default(), Arc::new(Semaphore::new(1)));
        Ok(Some(Self { engine, keys, shares, threads, proven, pulse, planning }))
    }

    /// Runs the self-test, which blocks. Each passed set notifies `changed`, so that the server
    /// learns of the set without waiting for the rest.
    pub(crate) fn prove(&self, changed: &Notify) {
        let began = Instant::now();
        let proven = |set| {
            self.proven.locked().push(set);
            changed.notify_one();
        };
        // A self-test that panics has proven nothing.
        let refused = match catch_unwind(AssertUnwindSafe(|| self_test(self.threads, proven))) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the self-test panicked".to_owned()),
        };
        match refused {
            None => tracing::debug!(seconds = began.elapsed().as_secs_f64(), "passed the self-test for vectors"),
            Some(error) => {
                self.proven.locked().clear();
                changed.notify_one();
                tracing::error!(%error, "this worker takes no jobs on vectors");
            }
        }
    }

    /// Sets that the worker accepts jobs for.
    pub(crate) fn sets(&self) -> Vec<&'static CkksSet> {
        self.proven.locked().clone()
    }

    /// Plans a program, one at a time: even a program of a few bytes may take long to plan.
    pub(crate) async fn plan(&self, bytes: Bytes) -> Result<Program, JobFailure> {
        let turn = self.planning.clone().acquire_owned().await.expect("the semaphore is never closed");
        let plan = move || {
            // The permit is held until planning ends, even if the requesting job is gone by that
            // time.
            let _turn = turn;
            Program::decode(&bytes, &LIMITS)
        };
        let planned = tokio::task::spawn_blocking(plan).await;
        let planned = planned.map_err(|error| JobFailure::passing("DEVICE_FAILED", error))?;
        planned.map_err(|error| JobFailure::lasting("PROGRAM_INVALID", error))
    }

    /// Refuses a program that this worker cannot compute with a key of these parts.
    pub(crate) fn check(&self, program: &Program, parts: &[v1::Digest]) -> Result<(), JobFailure> {
        let set = program.set();
        if !self.proven.locked().iter().any(|proven| proven.id == set.id) {
            let message = format!("this worker has not passed the self-test under {}", set.name);
            return Err(JobFailure::passing("SET_NOT_SERVED", message));
        }
        // With its masks, a key takes more than twice its stored size. A key that exceeds the
        // memory at twice its stored size is refused early.
        let stored: u64 = parts.iter().map(|part| part.size_bytes).fold(0, u64::saturating_add);
        self.shares.check(program, stored.saturating_mul(2), self.threads)
    }

    /// Submits a job.
    pub(crate) fn submit(&self, job: Job<GroupId>) {
        self.engine.submit(job);
    }

    /// Time for which the engine has computed without ending a step.
    pub(crate) fn silent_for(&self) -> Duration {
        self.pulse.silent_for()
    }

    /// Whether the engine's thread has ended. Jobs would otherwise wait for it forever.
    pub(crate) fn has_died(&self) -> bool {
        self.engine.has_died()
    }

    /// Gives up waiting jobs that were cancelled.
    pub(crate) fn forget_cancelled(&self) {
        self.engine.forget_cancelled();
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_circuit::wire::{self, operation::Kind};
    use prost::Message as _;

    use super::*;

    /// A program that bootstraps a full vector under a real set.
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
    fn the_default_memory_suffices_for_a_bootstrap_in_five_stages() {
        let shares = Shares::of(8 << 30);
        assert!(shares.keys + shares.matrices + shares.values <= 8 << 30);
        let program = bootstrap(5);
        for threads in [1, 2, 64, 256] {
            shares.check(&program, 4922 << 20, threads).expect("room, however many threads there are");
        }
        assert!(program.cost().work * 4 < KEY_TURN_WORK, "{} in a turn of {KEY_TURN_WORK}", program.cost().work);
        let refused = shares.check(&bootstrap(3), 0, 2).expect_err("its matrices take more than twice as much");
        assert!(refused.reason == "WORKER_OUT_OF_MEMORY" && refused.message.contains("matrices"), "{refused:?}");
        Shares::of(24 << 30).check(&bootstrap(3), 8374 << 20, 2).expect("room");
        let refused = shares.check(&program, 6 << 30, 2).expect_err("its key takes more than there is for keys");
        assert!(refused.message.contains("its key"), "{refused:?}");
    }
}
