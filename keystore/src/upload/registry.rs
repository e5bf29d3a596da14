//! Who writes to which upload: one at a time.
//!
//! A writer that comes while another one writes waits. The other one completes the blob for both, or falls silent
//! and loses its turn. So a client that reconnects is not locked out by its own broken connection, and two clients
//! that send the same blob do not chase each other away. An abort ends the turn of the writer and of all who wait for
//! it. Aborts of one upload wait together: one of them does the work.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedMutexGuard, mpsc::WeakSender, watch};

use super::{Purpose, receive::Message};
use crate::{Error, UploadId, abort::Abort};

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
    /// Ends those who write now or wait to. An abort that has its turn leaves a new one.
    abort: Abort,
    /// The end of the abort that waits for its turn, if there is one.
    aborting: Option<watch::Receiver<AbortEnd>>,
}

/// How an abort ended, once it has.
pub(crate) type AbortEnd = Option<Result<(), Error>>;

/// The one abort of an upload that waits for its turn.
pub(crate) struct Aborting {
    // Before the turn, which counts the handles of the lock when it is dropped.
    lock: Arc<tokio::sync::Mutex<()>>,
    turn: Turn,
    end: watch::Sender<AbortEnd>,
}

/// How a writer's thread and those who wait for it know of each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    taken_over: Arc<AtomicBool>,
    abort: Abort,
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
    /// Waits for the turn, and ends that of a writer who has fallen silent. An abort of the upload ends
    /// the wait of a client. It does not end the writer of a result, which no client may abort.
    pub(super) async fn take_turn(
        self: &Arc<Self>,
        id: &UploadId,
        purpose: Purpose,
    ) -> Result<(Turn, Presence), Error> {
        let mut turn = Turn { registry: self.clone(), id: id.clone(), guard: None };
        let (lock, abort) = self.with_entry(id, |entry| (entry.lock.clone(), entry.abort.clone()));
        let abort = match purpose {
            Purpose::Upload => abort,
            Purpose::Result => Abort::default(),
        };
        let mut waiting = std::pin::pin!(lock.lock_owned());
        let guard = loop {
            tokio::select! {
                biased;
                () = abort.fired() => return Err(Error::UploadNotFound { id: id.clone() }),
                guard = &mut waiting => break guard,
                () = tokio::time::sleep(LOOK_EVERY) => self.with_entry(id, |entry| entry.presence.end_if_silent()),
            }
        };
        turn.guard = Some(guard);
        let presence = Presence { abort, ..Presence::default() };
        self.with_entry(id, |entry| entry.presence = presence.clone());
        Ok((turn, presence))
    }

    /// Ends the client that writes, those that wait to, and those that come before the abort has its
    /// turn. Also returns where the abort's end is told.
    ///
    /// Where an abort of the upload waits for its turn already, that one serves this caller too: what it
    /// will remove is all that this caller could. So repeated calls do not pile up behind a writer that
    /// takes long to end.
    pub(crate) fn begin_abort(self: &Arc<Self>, id: &UploadId) -> (Option<Aborting>, watch::Receiver<AbortEnd>) {
        self.with_entry(id, |entry| {
            // An abort that panicked has closed its channel, and serves nobody.
            if let Some(end) = entry.aborting.as_ref().filter(|end| end.has_changed().is_ok()) {
                return (None, end.clone());
            }
            entry.abort.fire();
            let (sender, end) = watch::channel(None);
            entry.aborting = Some(end.clone());
            let turn = Turn { registry: self.clone(), id: id.clone(), guard: None };
            (Some(Aborting { lock: entry.lock.clone(), turn, end: sender }), end)
        })
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

impl Aborting {
    /// Waits for the turn. Whoever aborts from then on waits for a turn of its own, because a client may
    /// begin the upload again as soon as this one has removed it.
    pub(crate) async fn take_turn(self) -> (Turn, watch::Sender<AbortEnd>) {
        let Self { lock, mut turn, end } = self;
        let (registry, id) = (turn.registry.clone(), turn.id.clone());
        let mut waiting = std::pin::pin!(lock.lock_owned());
        let guard = loop {
            // Again and again: a writer that has only just got its turn has no inbox yet.
            registry.with_entry(&id, |entry| entry.presence.wake_if_aborted());
            tokio::select! {
                biased;
                guard = &mut waiting => break guard,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        };
        turn.guard = Some(guard);
        registry.with_entry(&id, |entry| {
            entry.presence = Presence::default();
            entry.abort = Abort::default();
            entry.aborting = None;
        });
        (turn, end)
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

    /// Fails if the writer of this upload is to stop, and says why.
    pub(crate) fn check(&self, id: &UploadId) -> Result<(), Error> {
        if self.abort.has_fired() {
            return Err(Error::UploadNotFound { id: id.clone() });
        }
        if self.taken_over.load(Ordering::Acquire) { Err(Error::UploadTakenOver) } else { Ok(()) }
    }

    /// What an abort of the upload fires.
    pub(crate) fn abort(&self) -> &Abort {
        &self.abort
    }

    fn end_if_silent(&self) {
        let idle_since = *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        if idle_since.is_some_and(|since| since.elapsed() >= SILENCE) {
            self.taken_over.store(true, Ordering::Release);
            self.wake();
        }
    }

    /// Does nothing to the writer of a result: no abort ends it, and a wake would count as a sign of life.
    fn wake_if_aborted(&self) {
        if self.abort.has_fired() {
            self.wake();
        }
    }

    /// Has the writer's thread look whether it is to stop.
    fn wake(&self) {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = inbox.as_ref().and_then(WeakSender::upgrade) {
            // A full inbox means that the thread is awake by now and will look by itself.
            let _ = inbox.try_send(Message::Look);
        }
    }
}

/// How long a writer may send nothing while another one waits.
const SILENCE: Duration = Duration::from_secs(1);

const LOOK_EVERY: Duration = Duration::from_millis(100);
