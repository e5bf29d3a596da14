//! Connections that only read.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    Asker, Connection, Error,
    line::{Line, Place},
    source::Source,
    sqlite::Access,
};

/// A limited number of connections to one database, opened when they are first needed.
///
/// Tenants share most of the connections, and the calls of no tenant may hold all of these. The
/// workers on its jobs may hold as many, because they take turns of their own. The rest are left to
/// the server: verification of tokens must not wait for the queries of tenants.
///
/// A connection goes back as it is. A test of each connection would cost more than most queries
/// here. A connection that is known to be lost is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Readers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    /// Connections that tenants may hold together.
    count: u32,
    /// Admits `count` callers of tenants to the line of the connections.
    line: Line,
    /// A place for each connection. There are more of them than the line admits callers.
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

/// A connection for queries, which goes back when this value is dropped. A query sees the commits
/// from before it began.
#[derive(Debug)]
pub struct Reader {
    /// `None` only while the value is dropped.
    connection: Option<Connection>,
    of: Readers,
    places: Option<Places>,
}

/// The place of a connection, and the place of a tenant in its line. Both are given back after the
/// connection.
type Places = (OwnedSemaphorePermit, Option<Place>);

impl Readers {
    /// Opens the first connection. Tenants get at most `count`, and the server `SERVER_READERS`
    /// more.
    pub(crate) async fn open(source: Source, count: u32) -> Result<Self, Error> {
        let count = count.max(1);
        let first = Connection::new(source.open(Access::Read).await?);
        let line = Line::new(count, count.saturating_sub(1).max(1));
        let places = Arc::new(Semaphore::new(count.saturating_add(SERVER_READERS) as usize));
        Ok(Self(Arc::new(Inner { source, count, line, places, idle: Mutex::new(vec![first]) })))
    }

    /// Where the connections come from.
    pub(crate) fn source(&self) -> &Source {
        &self.0.source
    }

    /// Waits for a connection.
    pub(crate) async fn take(&self, asker: Asker<'_>) -> Result<Reader, Error> {
        let waiting = async {
            let in_line = self.0.line.enter(asker).await;
            (self.0.places.clone().acquire_owned().await, in_line)
        };
        let (place, in_line) = timeout(READER_WAIT_MAX, waiting).await.map_err(|_| Error::Busy.counted())?;
        let place = place.map_err(|_| Error::Closed)?;
        let mut connection = match self.idle() {
            Some(connection) => connection,
            None => {
                let opened = timeout(READER_WAIT_MAX, self.0.source.open(Access::Read)).await;
                Connection::new(opened.map_err(|_| Error::Busy.counted())??)
            }
        };
        connection.session().set_limit(asker.answer_timeout());
        Ok(Reader { connection: Some(connection), of: self.clone(), places: Some((place, in_line)) })
    }

    /// An open connection that nobody uses.
    fn idle(&self) -> Option<Connection> {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop())
            .find_map(|mut connection| (!connection.session().is_broken()).then_some(connection))
    }

    fn put_back(&self, connection: Connection) {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Waits until all connections are back, and closes them. Later readers fail.
    pub(crate) async fn close(&self) {
        // Fails only if the readers are closed already.
        let all = self.0.places.acquire_many(self.0.count.saturating_add(SERVER_READERS)).await;
        self.0.places.close();
        drop(all);
        let idle = std::mem::take(&mut *self.0.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for connection in idle {
            connection.into_session().close().await;
        }
    }
}

impl Deref for Reader {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect(PRESENT)
    }
}

impl DerefMut for Reader {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect(PRESENT)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let (Some(mut connection), Some(places)) = (self.connection.take(), self.places.take()) else { return };
        let readers = self.of.clone();
        if connection.session().is_broken() {
            drop(connection);
        } else if !connection.session().is_busy() {
            readers.put_back(connection);
        } else if let Ok(runtime) = Handle::try_current() {
            // A query was broken off. The next caller would wait behind it, although other
            // connections may be idle.
            runtime.spawn(async move {
                if connection.session().catch_up().await {
                    readers.put_back(connection);
                }
                drop(places);
            });
        }
    }
}

/// Number of connections that only the server itself can take.
const SERVER_READERS: u32 = 2;

/// Longest wait for a free connection.
const READER_WAIT_MAX: Duration = Duration::from_secs(30);

const PRESENT: &str = "taken only when it is dropped";
