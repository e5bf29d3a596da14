//! The wave engine: the ready nodes of all jobs under one key, computed together.
//!
//! One thread owns all of it. It gathers the next wave while the device computes one, takes results as they come, and
//! otherwise sleeps. A job that arrives joins at the next wave; one that is cancelled leaves with it.

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
    job::{EngineJob, Finished, JobStatus},
    plan::Plan,
    width::preferred,
};
use crate::{failure::JobFailure, group::GroupId, locked::Locked as _, pulse::Pulse};

enum Command {
    Job(Box<EngineJob>),
    Cancel(u64),
    Drain,
    /// The device has something to say.
    Wake,
    Close,
}

/// A handle on the engine's thread. Its queue is bounded by the jobs that the agent holds.
pub(crate) struct Engine {
    commands: mpsc::Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
    jobs: AtomicU64,
    pulse: Arc<Pulse>,
    /// The message of the panic that ended the thread.
    panic: Arc<OnceLock<String>>,
}

impl Engine {
    /// Starts an engine whose rows under way take up at most `arena_bytes` on the device.
    pub(crate) fn start(device: Arc<dyn Device>, arena_bytes: u64) -> std::io::Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let woken = Arc::new(AtomicBool::new(false));
        let waker = {
            let (commands, woken) = (commands.clone(), woken.clone());
            move || {
                // One wake-up in the queue is as good as many.
                if !woken.swap(true, Ordering::AcqRel) {
                    let _ = commands.send(Command::Wake);
                }
            }
        };
        device.set_waker(Arc::new(waker));
        let pulse = Arc::<Pulse>::default();
        let mut core = core::Core::new(device, inbox, woken, pulse.clone(), arena_bytes);
        let panic = Arc::<OnceLock<String>>::default();
        let noted = panic.clone();
        let work = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| core.run())) {
                let message = panic_message(&*panic);
                tracing::error!(cause = message, "the wave engine panicked: the worker cannot compute any more");
                // Before the core is dropped, and its jobs with it. A job that loses its engine asks for this message, and
                // hands in no failure when it finds one.
                noted.get_or_init(|| message.to_owned());
            }
        };
        let thread = std::thread::Builder::new().name("waves".to_owned()).spawn(work)?;
        Ok(Self { commands, thread: Mutex::new(Some(thread)), jobs: AtomicU64::new(1), pulse, panic })
    }

    /// The message of the panic that ended the engine's thread. The engine takes jobs no more, and those it had are gone.
    pub(crate) fn panic(&self) -> Option<&str> {
        self.panic.get().map(String::as_str)
    }

    /// How long the device has been at work without ending any.
    pub(crate) fn silent_for(&self) -> Duration {
        self.pulse.silent_for()
    }

    /// A name for a job.
    pub(crate) fn job_id(&self) -> u64 {
        self.jobs.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a job on. What becomes of it comes through its `done`.
    pub(crate) fn submit(&self, job: EngineJob) {
        // A closed engine drops the job, and with it the sender of its end.
        let _ = self.commands.send(Command::Job(Box::new(job)));
    }

    /// Forgets a job; its lanes are free from the next wave on.
    pub(crate) fn cancel(&self, id: u64) {
        let _ = self.commands.send(Command::Cancel(id));
    }

    /// Waves that end from now on were cut because nothing more will come.
    pub(crate) fn drain(&self) {
        let _ = self.commands.send(Command::Drain);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Close);
        if let Some(thread) = self.thread.locked().take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
