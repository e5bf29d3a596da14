//! Who writes to which upload. One at a time, and the last to come.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{OwnedMutexGuard, mpsc::WeakSender};

use super::receive::Message;
use crate::{Error, UploadId};

/// The uploads that somebody writes to, or waits to.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Mutex<HashMap<UploadId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Of whoever came last, writing or still waiting.
    stop: Stop,
}

/// Ends a writer, now or when it gets its turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    stopped: Arc<AtomicBool>,
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
    /// Stops whoever writes, waits until it has, and is next, unless somebody comes later still.
    pub(crate) async fn take_over(self: &Arc<Self>, id: &UploadId) -> Result<(Turn, Stop), Error> {
        let stop = Stop::default();
        let lock = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = || Entry { lock: Arc::default(), stop: stop.clone() };
            let entry = entries.entry(id.clone()).or_insert_with(fresh);
            if !Arc::ptr_eq(&entry.stop.stopped, &stop.stopped) {
                std::mem::replace(&mut entry.stop, stop.clone()).now();
            }
            entry.lock.clone()
        };
        let mut turn = Turn { registry: self.clone(), id: id.clone(), guard: None };
        turn.guard = Some(lock.lock_owned().await);
        if stop.is_stopped() { Err(Error::UploadTakenOver) } else { Ok((turn, stop)) }
    }

    /// Takes the turn if nobody writes.
    pub(crate) fn try_take(self: &Arc<Self>, id: &UploadId) -> Option<Turn> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.contains_key(id) {
            return None;
        }
        let lock = Arc::<tokio::sync::Mutex<()>>::default();
        let guard = lock.clone().try_lock_owned().ok();
        entries.insert(id.clone(), Entry { lock, stop: Stop::default() });
        Some(Turn { registry: self.clone(), id: id.clone(), guard })
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

impl Stop {
    /// Where to wake the writer.
    pub(crate) fn attach(&self, inbox: WeakSender<Message>) {
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(inbox);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn now(&self) {
        self.stopped.store(true, Ordering::Release);
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = inbox.as_ref().and_then(WeakSender::upgrade) {
            // A full inbox means that the writer is awake and will look at the flag.
            let _ = inbox.try_send(Message::Look);
        }
    }
}
