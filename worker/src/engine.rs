//! The wave engine: computes ready nodes of all jobs under one key together.
//!
//! One thread owns the engine's state. The thread gathers the next wave while the device computes
//! one, and takes results as they come. Without results, the thread polls for a moment and then
//! sleeps. A new job joins the next wave, and a cancelled job is left out of the next wave.

mod core;
mod flavours;
mod group;
mod job;
mod memory;
mod plan;
mod row;
mod slots;
mod tables;
mod width;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use cloakwork_device::{Device, panic_message};

pub(crate) use self::{
    job::{EngineJob, JobStatus},
    plan::Plan,
    width::preferred,
};
use crate::{failure::JobFailure, group::GroupId, locked::Locked as _, observer::Observer, pulse::Pulse};

enum Command {
    Job(Box<EngineJob>),
    Cancel(u64),
    Drain,
    /// A wave has ended, or the device has room.
    Wake,
    Close,
}

/// Time for which the last group keeps its arena and tables without jobs, since the last command. A
/// GPU takes part of a millisecond to create them. Without this time, each of several jobs in a row
/// would pay for it.
const IDLE_GROUP_TIME: Duration = Duration::from_secs(10);

/// Handle of the engine's thread. The number of jobs that the agent holds bounds the command queue.
pub(crate) struct Engine {
    commands: mpsc::Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
    jobs: AtomicU64,
    pulse: Arc<Pulse>,
    /// Message of the panic that ended the thread.
    panic: Arc<OnceLock<String>>,
}

impl Engine {
    /// Starts an engine whose rows in progress take at most `arena_bytes` on the device.
    pub(crate) fn start(device: Arc<dyn Device>, arena_bytes: u64, observer: Observer) -> std::io::Result<Self> {
        Self::start_with_idle_time(device, arena_bytes, IDLE_GROUP_TIME, observer)
    }

    /// Starts an engine whose last group stays for `idle_group_time` without jobs.
    fn start_with_idle_time(
        device: Arc<dyn Device>,
        arena_bytes: u64,
        idle_group_time: Duration,
        observer: Observer,
    ) -> std::io::Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let woken = Arc::new(AtomicBool::new(false));
        let waker = {
            let (commands, woken) = (commands.clone(), woken.clone());
            move || {
                // One wake-up in the queue is enough, so further ones are merged.
                if !woken.swap(true, Ordering::AcqRel) {
                    let _ = commands.send(Command::Wake);
                }
            }
        };
        device.set_waker(Arc::new(waker));
        let pulse = Arc::<Pulse>::default();
        let mut core = core::Core::new(device, inbox, woken, pulse.clone(), arena_bytes, idle_group_time, observer);
        let panic = Arc::<OnceLock<String>>::default();
        let noted = panic.clone();
        let work = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| core.run())) {
                let message = panic_message(&*panic);
                tracing::error!(cause = message, "the wave engine panicked: the worker can compute no more");
                // The message is stored before the core is dropped, and its jobs with it. A job
                // that loses its engine checks for this message, and then commits no failure.
                noted.get_or_init(|| message.to_owned());
            }
        };
        let thread = std::thread::Builder::new().name("waves".to_owned()).spawn(work)?;
        Ok(Self { commands, thread: Mutex::new(Some(thread)), jobs: AtomicU64::new(1), pulse, panic })
    }

    /// Message of the panic that ended the engine's thread. After the panic the engine takes no
    /// jobs, and its previous jobs are lost.
    pub(crate) fn panic(&self) -> Option<&str> {
        self.panic.get().map(String::as_str)
    }

    /// Time for which the device has been busy without ending a wave.
    pub(crate) fn silent_for(&self) -> Duration {
        self.pulse.silent_for()
    }

    /// A new id for a job.
    pub(crate) fn job_id(&self) -> u64 {
        self.jobs.fetch_add(1, Ordering::Relaxed)
    }

    /// Submits a job. The outcome arrives through the job's `done` sender.
    pub(crate) fn submit(&self, job: EngineJob) {
        // A closed engine drops the job together with its `done` sender, which the receiver
        // notices.
        let _ = self.commands.send(Command::Job(Box::new(job)));
    }

    /// Cancels a job. Its lanes are left out from the next wave on.
    pub(crate) fn cancel(&self, id: u64) {
        let _ = self.commands.send(Command::Cancel(id));
    }

    /// Marks the engine as draining. Partial waves are then recorded as cut because no more work
    /// will come.
    pub(crate) fn drain(&self) {
        let _ = self.commands.send(Command::Drain);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Close);
        let thread = self.thread.locked().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
