//! Transactions.

use std::{
    any::Any,
    ops::{Deref, DerefMut},
};

use crate::{Connection, Error, terms::Terms, version::Version, writers::Turn};

/// A transaction that may write. Dropping the transaction without a commit rolls it back.
#[derive(Debug)]
pub struct Write(Turn);

impl Write {
    /// Begins a transaction.
    pub(crate) async fn begin(mut turn: Turn, terms: Terms<'_>, version: &Version) -> Result<Self, Error> {
        let writer = turn.writer();
        writer.start(terms, version);
        writer.connection()?.session().begin(terms).await?;
        Ok(Self(turn))
    }

    /// Keeps a value, such as a lock, until the transaction has ended. A value on the stack of the
    /// caller would go too early: a call that is cancelled during its commit ends before the commit
    /// does.
    pub fn hold(&mut self, value: impl Any + Send) {
        self.0.writer().hold(Box::new(value));
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
        self.0.writer_ref().open().expect(OPEN)
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut Connection {
        self.0.writer().connection().expect(OPEN)
    }
}

const OPEN: &str = "a transaction has begun on it, and only its holder could close it";
