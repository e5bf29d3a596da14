//! Who writes to which upload: one at a time.
//!
//! Whoever comes while somebody writes waits: that one either completes the blob for both, or falls silent and loses
//! its turn. So a client that reconnects is not locked out by its own broken connection, and two that send the same
//! blob do not chase each other away.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedMutexGuard, mpsc::WeakSender};

use super::receive::Message;
use crate::UploadId;

/// The uploads that somebody writes to, or waits to.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Mutex<HashMap<UploadId, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Of the one who writes, or wrote last.
    presence: Presence,
}

/// How a writer's thread and those who wait for it know of each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    stopped: Arc<AtomicBool>,
    /// Since when the thread has had nothing to do.
    idle_since: Arc<Mutex<Option<Instant>>>,
    inbox: Arc<Mutex<Option<WeakSender<Message>>>>,
}

/// The right to write to an upload, until dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    registry: Arc<Registry>,
    id: UploadId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Registry {
    /// Waits for the turn, and ends that of a writer who has fallen silent.
    pub(crate) async fn take_turn(self: &Arc<Self>, id: &UploadId) -> (Turn, Presence) {
        let mut turn = Turn { registry: self.clone(), id: id.clone(), guard: None };
        let lock = self.with_entry(id, |entry| entry.lock.clone());
        let mut waiting = std::pin::pin!(lock.lock_owned());
        let guard = loop {
            tokio::select! {
                biased;
                guard = &mut waiting => break guard,
                () = tokio::time::sleep(LOOK_EVERY) => self.with_entry(id, |entry| entry.presence.end_if_silent()),
            }
        };
        turn.guard = Some(guard);
        let presence = Presence::default();
        self.with_entry(id, |entry| entry.presence = presence.clone());
        (turn, presence)
    }

    /// Takes the turn if nobody has it or waits for it.
    pub(crate) fn try_take_turn(self: &Arc<Self>, id: &UploadId) -> Option<Turn> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.contains_key(id) {
            return None;
        }
        let entry = entries.entry(id.clone()).or_default();
        let guard = entry.lock.clone().try_lock_owned().ok();
        Some(Turn { registry: self.clone(), id: id.clone(), guard })
    }

    fn with_entry<T>(&self, id: &UploadId, with: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        with(entries.entry(id.clone()).or_default())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut entries = self.registry.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody else holds or awaits it.
        if entries.get(&self.id).is_some_and(|entry| Arc::strong_count(&entry.lock) == 1) {
            entries.remove(&self.id);
        }
    }
}

impl Presence {
    /// Where to wake the writer.
    pub(crate) fn attach(&self, inbox: WeakSender<Message>) {
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(inbox);
    }

    /// The thread has nothing to do from now on, or something again.
    pub(crate) fn set_idle(&self, idle: bool) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = idle.then(Instant::now);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn end_if_silent(&self) {
        let idle_since = *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        if idle_since.is_some_and(|since| since.elapsed() >= SILENCE) {
            self.stopped.store(true, Ordering::Release);
            let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(inbox) = inbox.as_ref().and_then(WeakSender::upgrade) {
                // A full inbox means that the thread is awake by now and will see the flag.
                let _ = inbox.try_send(Message::Look);
            }
        }
    }
}

/// How long a writer may send nothing while another one waits.
const SILENCE: Duration = Duration::from_secs(1);

const LOOK_EVERY: Duration = Duration::from_millis(100);
