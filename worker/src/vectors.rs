//! Support for jobs on vectors of approximate numbers, and the division of its memory.

mod keys;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_circuit::ckks::{LIMITS, Program};
use cloakwork_device::{Device, DeviceError, VectorUnit};
use cloakwork_params::ckks::CkksSet;
use cloakwork_proto::v1;
use cloakwork_vectors::{Engine, Job, Processors, self_test};
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::keys::{VectorKeyRequest, VectorKeys, VectorLease};
use crate::{failure::JobFailure, group::GroupId, locked::Locked as _, pulse::Pulse};

/// The engine for vectors, its keys and its matrices.
pub(crate) struct Vectors {
    engine: Engine<GroupId>,
    unit: Arc<dyn VectorUnit>,
    pub(crate) keys: Arc<VectorKeys>,
    /// Sets of the unit that have passed the self-test.
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
}

impl Vectors {
    /// Starts the engine with the given memory; `None` for 0 bytes. The engine computes on the
    /// device, or on `threads` threads of the machine if the device does not compute vectors.
    /// `changed` is notified when the next report to the server is due early.
    pub(crate) fn start(
        device: &dyn Device,
        memory: u64,
        threads: usize,
        changed: &Arc<Notify>,
    ) -> std::io::Result<Option<Self>> {
        if memory == 0 {
            return Ok(None);
        }
        let shares = Shares::of(memory);
        let processors = || Arc::new(Processors::new(threads, shares.matrices, shares.values)) as Arc<dyn VectorUnit>;
        let unit = device.vector_unit().unwrap_or_else(processors);
        let pulse = Arc::<Pulse>::default();
        let beats = pulse.clone();
        let engine = Engine::start(unit.clone(), KEY_TURN_WORK, move |is_busy| beats.beat(is_busy))?;
        let keys = Arc::new(VectorKeys::new(unit.clone(), shares.keys, changed.clone()));
        let (proven, planning) = (Mutex::default(), Arc::new(Semaphore::new(1)));
        Ok(Some(Self { engine, unit, keys, proven, pulse, planning }))
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
        let refused = match catch_unwind(AssertUnwindSafe(|| self_test(self.unit.as_ref(), proven))) {
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
        self.unit.check(program).map_err(too_large)?;
        self.keys.check(parts)
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

/// The failure of a job that needs more than a share of the memory for vectors.
fn too_large(error: DeviceError) -> JobFailure {
    JobFailure::passing(
        "WORKER_OUT_OF_MEMORY",
        format!("{error} in this worker's memory for vectors (--vector-memory)"),
    )
}

#[cfg(test)]
mod tests {
    use cloakwork_circuit::wire::{self, operation::Kind};
    use prost::Message as _;

    use super::*;
    use crate::test_device::TestDevice;

    /// A program that bootstraps a full vector under a real set.
    fn bootstrap(stages: u32) -> Program {
        let size = wire::operation::bootstrap::Size::Medium.into();
        let message = wire::Program {
            parameter_set: "CKKS_45_60_50_H4096".to_owned(),
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
    fn a_device_with_a_unit_of_its_own_computes_vectors_on_it() {
        let mut device = TestDevice::new(1);
        let start = |device: &TestDevice| Vectors::start(device, 1 << 20, 1, &Arc::default());
        let own: Arc<dyn VectorUnit> = Arc::new(Processors::new(1, 0, 0));
        let replaced = start(&device).expect("a thread").expect("memory");
        assert!(!Arc::ptr_eq(&replaced.unit, &own));
        device.vector_unit = Some(own.clone());
        let vectors = start(&device).expect("a thread").expect("memory");
        assert!(Arc::ptr_eq(&vectors.unit, &own));
    }

    #[test]
    fn the_default_memory_suffices_for_a_bootstrap_in_five_stages() {
        let shares = Shares::of(8 << 30);
        assert!(shares.keys + shares.matrices + shares.values <= 8 << 30);
        assert!(shares.keys >= 4922 << 20, "its key");
        let program = bootstrap(5);
        let on = |shares: Shares, threads| Processors::new(threads, shares.matrices, shares.values);
        for threads in [1, 2, 64, 256] {
            on(shares, threads).check(&program).expect("room, however many threads there are");
        }
        assert!(program.cost().work * 4 < KEY_TURN_WORK, "{} in a turn of {KEY_TURN_WORK}", program.cost().work);
        let refused = on(shares, 2).check(&bootstrap(3)).expect_err("its matrices take more than twice as much");
        let refused = too_large(refused);
        assert!(refused.reason == "WORKER_OUT_OF_MEMORY" && refused.message.contains("matrices"), "{refused:?}");
        on(Shares::of(24 << 30), 2).check(&bootstrap(3)).expect("room");
    }
}
