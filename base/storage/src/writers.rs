//! Connections that write, and the turns to use one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    Asker, Batch, Error,
    line::{Line, Place},
    session::Session,
    source::Source,
    terms::Terms,
    version::Version,
    writer::Writer,
};

/// A limited number of connections that write, opened when they are first needed.
#[derive(Clone, Debug)]
pub(crate) struct Writers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    count: u32,
    /// Admits `count` callers of tenants to the line of the connections, so that the server stands
    /// behind few of them.
    line: Line,
    /// A place for each connection.
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Writer>>,
}

impl Writers {
    /// At most `count` connections.
    pub(crate) fn new(source: Source, first: Option<Session>, count: u32) -> Self {
        let idle = Mutex::new(first.into_iter().map(Writer::new).collect());
        let line = Line::new(count, count.saturating_sub(1).max(1));
        Self(Arc::new(Inner { source, count, line, places: Arc::new(Semaphore::new(count as usize)), idle }))
    }

    /// Waits for a connection. A tenant waits for the other tenants first.
    pub(crate) async fn wait(&self, asker: Asker<'_>) -> Result<Turn, Error> {
        let place = self.0.line.enter(asker).await;
        let permit = self.0.places.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let writer = self.idle().pop().unwrap_or_default();
        Ok(Turn { writer: Some(writer), of: self.clone(), permit: Some(permit), place })
    }

    /// Waits until all connections are back, and closes them. Later turns fail.
    pub(crate) async fn close(&self) {
        // Fails only if the writers are closed already.
        let all = self.0.places.acquire_many(self.0.count).await;
        self.0.places.close();
        drop(all);
        let idle = std::mem::take(&mut *self.idle());
        for writer in idle {
            writer.close().await;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Writer>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn to write. If its holder fails or is cancelled, a transaction stays behind, which is
/// rolled back before the next turn.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` only while the turn is dropped.
    writer: Option<Writer>,
    of: Writers,
    permit: Option<OwnedSemaphorePermit>,
    /// The place of a tenant. Its field follows the permit's, and is dropped after it. The next
    /// tenant then enters the line of the connections behind the server.
    place: Option<Place>,
}

impl Turn {
    /// Makes the connection ready: it works, and no earlier transaction is left on it.
    pub(crate) async fn ready(&mut self, asker: Asker<'_>) -> Result<(), Error> {
        let source = self.of.0.source.clone();
        self.writer().ready(&source, asker.answer_timeout()).await
    }

    /// Commits all of a batch, or nothing of it.
    pub(crate) async fn apply(mut self, terms: Terms<'_>, batch: Batch, version: &Version) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        self.writer().apply(terms, batch, version).await
    }

    pub(crate) fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("taken only when it is dropped")
    }

    pub(crate) fn writer_ref(&self) -> &Writer {
        self.writer.as_ref().expect("taken only when it is dropped")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        let of = self.of.clone();
        match Handle::try_current() {
            Ok(runtime) if writer.is_unfinished() => {
                let (permit, place) = (self.permit.take(), self.place.take());
                runtime.spawn(async move {
                    // If this fails, the next turn tries again.
                    let _ = writer.ready(&of.0.source, Asker::Server.answer_timeout()).await;
                    of.idle().push(writer);
                    drop(permit);
                    drop(place);
                });
            }
            _ => of.idle().push(writer),
        }
    }
}
