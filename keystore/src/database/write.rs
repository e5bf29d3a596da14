//! The one connection that writes.

use std::ops::{Deref, DerefMut};

use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::OwnedMutexGuard;

use super::{Batch, Survival};

/// The connection, and whether somebody left a transaction on it.
#[derive(Debug)]
pub(super) struct Writer {
    /// None once it has been closed.
    connection: Option<SqliteConnection>,
    /// Set while a transaction runs. Whoever is interrupted in one leaves it so, and the next one rolls back.
    unfinished: bool,
    /// What commits survive as it is set; not known after an interruption.
    survival: Option<Survival>,
}

/// A transaction that may write. It comes to nothing unless it is committed.
#[derive(Debug)]
pub struct Write {
    writer: OwnedMutexGuard<Writer>,
}

impl Writer {
    pub(super) fn new(connection: SqliteConnection) -> Self {
        Self { connection: Some(connection), unfinished: false, survival: None }
    }

    pub(super) async fn apply(&mut self, survival: Survival, batch: Batch) -> Result<(), sqlx::Error> {
        self.tidy().await?;
        self.unfinished = true;
        let setting = (self.survival.take() != Some(survival)).then(|| setting(survival));
        let done = batch.execute(setting, self.connection()?).await;
        match done {
            Ok(()) => (self.unfinished, self.survival) = (false, Some(survival)),
            Err(_) => self.tidy().await?,
        }
        done
    }

    /// Begins a transaction that survives everything once it is committed. `IMMEDIATE` takes the lock at the start.
    async fn begin(&mut self) -> Result<(), sqlx::Error> {
        self.tidy().await?;
        if self.survival.take() != Some(Survival::PowerFailure) {
            sqlx::query(setting(Survival::PowerFailure)).execute(self.connection()?).await?;
        }
        self.survival = Some(Survival::PowerFailure);
        self.unfinished = true;
        sqlx::query("BEGIN IMMEDIATE").execute(self.connection()?).await?;
        Ok(())
    }

    pub(super) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Nothing is lost if it fails: what was committed is on the disk.
            let _ = connection.close().await;
        }
    }

    /// Rolls back what was left.
    async fn tidy(&mut self) -> Result<(), sqlx::Error> {
        if self.unfinished {
            // It fails where SQLite has rolled back by itself, as it does on a full disk.
            let _ = sqlx::query("ROLLBACK").execute(self.connection()?).await;
            self.unfinished = false;
        }
        Ok(())
    }

    fn connection(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)
    }
}

impl Write {
    pub(super) async fn begin(mut writer: OwnedMutexGuard<Writer>) -> Result<Self, sqlx::Error> {
        writer.begin().await?;
        Ok(Self { writer })
    }

    /// Makes it durable.
    pub async fn commit(mut self) -> Result<(), sqlx::Error> {
        sqlx::query("COMMIT").execute(&mut *self).await?;
        self.writer.unfinished = false;
        Ok(())
    }
}

/// Has no effect inside a transaction, and lasts until it is changed.
fn setting(survival: Survival) -> &'static str {
    match survival {
        Survival::Crash => "PRAGMA synchronous = NORMAL",
        Survival::PowerFailure => "PRAGMA synchronous = FULL",
    }
}

impl Deref for Write {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.writer.connection.as_ref().expect("a transaction has begun on it, and only its holder could close it")
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.writer.connection.as_mut().expect("a transaction has begun on it, and only its holder could close it")
    }
}
