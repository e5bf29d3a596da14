//! The turn to write to an upload: one writer at a time.
//!
//! A second writer waits. The first writer completes the blob for both, or falls silent and loses
//! its turn. A client that reconnects is therefore not locked out by its own broken connection. Two
//! clients that send the same blob do not take the upload from each other. An abort ends the turns
//! of the writer and of all waiting writers. Aborts of one upload wait together: one of them does
//! the work.

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

/// Uploads that have a writer, or writers that wait.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Mutex<HashMap<UploadId, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Presence of the current writer, or of the last writer.
    presence: Presence,
    /// Ends the current and the waiting writers. An abort that gets its turn installs a new signal.
    abort: Abort,
    /// Outcome of the abort that waits for its turn, if there is one.
    aborting: Option<watch::Receiver<AbortEnd>>,
}

/// Outcome of an abort; `None` before its end.
pub(crate) type AbortEnd = Option<Result<(), Error>>;

/// The single abort of an upload that waits for its turn.
pub(crate) struct Aborting {
    // Dropped before `turn`, whose drop counts the handles of the lock.
    lock: Arc<tokio::sync::Mutex<()>>,
    turn: Turn,
    end: watch::Sender<AbortEnd>,
}

/// State that a writer's thread and the writers behind it share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    taken_over: Arc<AtomicBool>,
    abort: Abort,
    /// Start of the thread's idle time; `None` while it works.
    idle_since: Arc<Mutex<Option<Instant>>>,
    inbox: Arc<Mutex<Option<WeakSender<Message>>>>,
    /// Whether the writer of a result waits for its place to receive.
    queued: Arc<AtomicBool>,
}

/// The right to write to an upload, until dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    registry: Arc<Registry>,
    id: UploadId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Registry {
    /// Waits for the turn, and ends the turn of a silent writer. An abort of the upload ends the
    /// wait of a client, but not that of a result's writer, because no client may abort a result.
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
                () = tokio::time::sleep(CHECK_INTERVAL) => self.with_entry(id, |entry| {
                    entry.presence.end_if_silent();
                    // Results do not end each other's waits. Equal results would do so in turns,
                    // and none would reach its place.
                    if purpose == Purpose::Upload {
                        entry.presence.end_if_queued();
                    }
                }),
            }
        };
        turn.guard = Some(guard);
        let presence = Presence { abort, ..Presence::default() };
        self.with_entry(id, |entry| entry.presence = presence.clone());
        Ok((turn, presence))
    }

    /// Ends the client that writes, the clients that wait, and those that arrive before the abort
    /// gets its turn. Also returns the channel that reports the abort's outcome.
    ///
    /// If an abort of the upload already waits for its turn, that abort serves this caller too,
    /// because it will remove all that this caller could. Repeated calls therefore do not pile up
    /// behind a writer that takes long to end.
    pub(crate) fn begin_abort(self: &Arc<Self>, id: &UploadId) -> (Option<Aborting>, watch::Receiver<AbortEnd>) {
        self.with_entry(id, |entry| {
            // An abort that panicked has closed its channel, and serves no caller.
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

    /// Takes the turn if no caller has it or waits for it.
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
    /// Waits for the turn. Later aborts wait for a turn of their own, because a client may begin
    /// the upload again as soon as this abort has removed it.
    pub(crate) async fn take_turn(self) -> (Turn, watch::Sender<AbortEnd>) {
        let Self { lock, mut turn, end } = self;
        let (registry, id) = (turn.registry.clone(), turn.id.clone());
        let mut waiting = std::pin::pin!(lock.lock_owned());
        let guard = loop {
            // The wake is repeated, because a writer that has got its turn a moment ago has no
            // inbox yet.
            registry.with_entry(&id, |entry| entry.presence.wake_if_aborted());
            tokio::select! {
                biased;
                guard = &mut waiting => break guard,
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
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
        // No other caller holds or awaits the turn.
        if entries.get(&self.id).is_some_and(|entry| Arc::strong_count(&entry.lock) == 1) {
            entries.remove(&self.id);
        }
    }
}

impl Presence {
    /// Sets the inbox that wakes the writer.
    pub(crate) fn attach(&self, inbox: WeakSender<Message>) {
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(inbox);
    }

    /// Records that the thread is idle from now on, or works again.
    pub(crate) fn set_idle(&self, idle: bool) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = idle.then(Instant::now);
    }

    /// Returns the reason as an error if the writer of this upload must stop.
    pub(crate) fn check(&self, id: &UploadId) -> Result<(), Error> {
        if self.abort.has_fired() {
            return Err(Error::UploadNotFound { id: id.clone() });
        }
        if self.taken_over.load(Ordering::Acquire) { Err(Error::UploadTakenOver) } else { Ok(()) }
    }

    /// The signal that an abort of the upload sends.
    pub(crate) fn abort(&self) -> &Abort {
        &self.abort
    }

    /// Waits for the place of a result to receive. A client that wants the upload ends the wait,
    /// and would otherwise wait as long.
    ///
    /// The writer keeps its turn meanwhile. If a writer waited for its turn with a place, slow
    /// clients of one tenant could keep the places of all tenants.
    pub(super) async fn queue<T>(&self, id: &UploadId, place: impl Future<Output = T>) -> Result<T, Error> {
        let mut place = std::pin::pin!(place);
        self.queued.store(true, Ordering::Release);
        let place = loop {
            tokio::select! {
                biased;
                place = &mut place => break place,
                () = tokio::time::sleep(CHECK_INTERVAL) => self.check(id)?,
            }
        };
        self.queued.store(false, Ordering::Release);
        self.check(id)?;
        Ok(place)
    }

    fn end_if_queued(&self) {
        if self.queued.load(Ordering::Acquire) {
            self.taken_over.store(true, Ordering::Release);
        }
    }

    fn end_if_silent(&self) {
        let idle_since = *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        if idle_since.is_some_and(|since| since.elapsed() >= WRITER_SILENCE_TIMEOUT) {
            self.taken_over.store(true, Ordering::Release);
            self.wake();
        }
    }

    /// Spares the writer of a result: no abort ends it, and a wake would count as a sign of life.
    fn wake_if_aborted(&self) {
        if self.abort.has_fired() {
            self.wake();
        }
    }

    /// Makes the writer's thread check whether it must stop.
    fn wake(&self) {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = inbox.as_ref().and_then(WeakSender::upgrade) {
            // With a full inbox, the thread is awake and checks without this message.
            let _ = inbox.try_send(Message::Wake);
        }
    }
}

/// Time for which a writer may send nothing while another writer waits.
const WRITER_SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which waiting callers check for a silent or aborted writer.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
