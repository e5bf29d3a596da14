//! The turn to write, and transactions.

use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
};

use tokio::{runtime::Handle, sync::OwnedMutexGuard};

use crate::{Batch, Connection, Error, Survival, line::Place, version::Version};

/// The only connection that writes, and whether a caller left a transaction on it.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` after the connection is closed.
    connection: Option<Connection>,
    /// The version that an unfinished transaction began to change.
    unfinished: Option<Version>,
    /// Values that live as long as the unfinished transaction.
    held: Held,
}

/// Values that a transaction holds.
#[derive(Default)]
struct Held(Vec<Box<dyn Any + Send>>);

impl fmt::Debug for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} values", self.0.len())
    }
}

impl Writer {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection: Some(connection), unfinished: None, held: Held::default() }
    }

    pub(crate) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.into_session().close().await;
        }
    }

    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Error> {
        self.connection.as_mut().ok_or(Error::Closed)
    }

    async fn roll_back(&mut self) {
        let Ok(connection) = self.connection() else { return };
        connection.session().roll_back().await;
        self.finish();
    }

    fn start(&mut self, version: &Version) {
        version.begin();
        self.unfinished = Some(version.clone());
    }

    fn finish(&mut self) {
        if let Some(version) = self.unfinished.take() {
            version.end();
        }
        self.held.0.clear();
    }
}

/// A transaction that may write. Dropping the transaction without a commit rolls it back.
#[derive(Debug)]
pub struct Write(Turn);

impl Write {
    /// Begins a transaction whose commit survives what `survival` says.
    pub(crate) async fn begin(mut turn: Turn, survival: Survival, version: &Version) -> Result<Self, Error> {
        let writer = turn.writer();
        writer.start(version);
        writer.connection()?.session().begin(survival).await?;
        Ok(Self(turn))
    }

    /// Keeps a value, such as a lock, until the transaction has ended. A value on the stack of the
    /// caller would go too early: a call that is cancelled during its commit ends before the commit
    /// does.
    pub fn hold(&mut self, value: impl Any + Send) {
        self.0.writer().held.0.push(Box::new(value));
    }

    /// Commits the transaction.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.session().commit().await?;
        self.0.writer().finish();
        Ok(())
    }
}

impl Deref for Write {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0.writer.as_ref().and_then(|writer| writer.connection.as_ref()).expect(OPEN)
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut Connection {
        self.0.writer().connection.as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a transaction has begun on it, and only its holder could close it";

/// The turn to write. If its holder fails or is cancelled, a transaction stays behind, which is
/// rolled back before the next turn.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` only while the turn is dropped.
    writer: Option<OwnedMutexGuard<Writer>>,
    /// The place of a tenant. Its field follows the writer's, and is dropped after it. The next
    /// tenant then enters the line of the writer behind the server.
    place: Option<Place>,
}

impl Turn {
    pub(crate) async fn of(writer: OwnedMutexGuard<Writer>, place: Option<Place>) -> Self {
        let mut turn = Self { writer: Some(writer), place };
        // The previous holder had no runtime on which to roll back.
        if turn.writer().unfinished.is_some() {
            turn.writer().roll_back().await;
        }
        turn
    }

    pub(crate) async fn apply(mut self, survival: Survival, batch: Batch, version: &Version) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let writer = self.writer();
        writer.start(version);
        let applied = match writer.connection() {
            Ok(connection) => connection.session().apply(survival, batch).await,
            Err(closed) => Err(closed),
        };
        match applied {
            Ok(()) => self.writer().finish(),
            Err(_) => self.writer().roll_back().await,
        }
        applied
    }

    pub(crate) fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("taken only when it is dropped")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take().filter(|writer| writer.unfinished.is_some()) else { return };
        let place = self.place.take();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                writer.roll_back().await;
                drop(writer);
                drop(place);
            });
        }
    }
}
