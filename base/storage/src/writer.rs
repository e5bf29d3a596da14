//! A connection that writes, and what a caller may leave on it.

use std::{any::Any, fmt, time::Duration};

use crate::{
    Batch, Connection, Error, session::Session, source::Source, sqlite::Access, terms::Terms, version::Version,
};

/// A connection that writes, and whether a caller left a transaction on it.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// `None` before the first turn, and after the connection is lost.
    connection: Option<Connection>,
    unfinished: Option<Unfinished>,
    /// Values that live as long as the unfinished transaction.
    held: Held,
}

/// A transaction whose end is not known.
#[derive(Debug)]
struct Unfinished {
    /// The version that the transaction began to change.
    version: Version,
    /// The shard whose lock the transaction holds.
    shard: i32,
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
    pub(crate) fn new(session: Session) -> Self {
        Self { connection: Some(Connection::new(session)), ..Self::default() }
    }

    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    pub(crate) async fn close(self) {
        if let Some(connection) = self.connection {
            connection.into_session().close().await;
        }
    }

    /// Ends an unfinished transaction, and replaces a connection that is lost.
    ///
    /// The commit of a lost connection may still be on its way. The new connection therefore waits
    /// until no other transaction of the shard runs: from then on, reads see whether the commit
    /// arrived.
    pub(crate) async fn ready(&mut self, source: &Source, answer_timeout: Duration) -> Result<(), Error> {
        if let Some(connection) = &mut self.connection {
            let session = connection.session();
            session.set_limit(answer_timeout);
            if self.unfinished.is_some() {
                session.roll_back().await;
            }
            if !session.is_broken() {
                self.finish();
                return Ok(());
            }
        }
        self.connection = None;
        let mut session = source.open(Access::Write).await?;
        session.set_limit(answer_timeout);
        if let Some(unfinished) = &self.unfinished {
            session.wait_for_others(unfinished.shard).await?;
            self.finish();
        }
        self.connection = Some(Connection::new(session));
        Ok(())
    }

    /// Commits all of a batch, or nothing of it.
    pub(crate) async fn apply(&mut self, terms: Terms<'_>, batch: Batch, version: &Version) -> Result<(), Error> {
        self.start(terms, version);
        let session = self.connection()?.session();
        let applied = session.apply(terms, batch).await;
        if applied.is_err() {
            session.roll_back().await;
            if session.is_broken() {
                return applied;
            }
        }
        self.finish();
        applied
    }

    /// The connection of a writer that is ready.
    pub(crate) fn open(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Error> {
        self.connection.as_mut().ok_or(Error::Closed)
    }

    /// Keeps a value until the transaction has ended.
    pub(crate) fn hold(&mut self, value: Box<dyn Any + Send>) {
        self.held.0.push(value);
    }

    /// Marks the start of a transaction.
    pub(crate) fn start(&mut self, terms: Terms<'_>, version: &Version) {
        version.begin();
        self.unfinished = Some(Unfinished { version: version.clone(), shard: terms.shard });
    }

    /// Marks the end of the transaction.
    pub(crate) fn finish(&mut self) {
        if let Some(unfinished) = self.unfinished.take() {
            unfinished.version.end();
        }
        self.held.0.clear();
    }
}
