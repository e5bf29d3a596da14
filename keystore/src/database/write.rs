//! The only connection that writes.

use std::ops::{Deref, DerefMut};

use sqlx::{Connection as _, SqliteConnection};
use tokio::{runtime::Handle, sync::OwnedMutexGuard};

use super::{Batch, Survival, version::Version};

/// The connection, and whether a caller left a transaction on it.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` after the connection is closed.
    connection: Option<SqliteConnection>,
    /// Set while a transaction runs.
    unfinished: bool,
    /// Durability of commits under the current setting; `None` if unknown after a failure.
    survival: Option<Survival>,
    version: Version,
}

impl Writer {
    pub(super) fn new(connection: SqliteConnection, version: Version) -> Self {
        Self { connection: Some(connection), unfinished: false, survival: None, version }
    }

    pub(super) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            // A failed close loses nothing: committed data is on the disk.
            let _ = connection.close().await;
        }
    }

    async fn apply(&mut self, survival: Survival, batch: Batch) -> Result<(), sqlx::Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let setting = (self.survival.take() != Some(survival)).then(|| setting(survival));
        self.start();
        batch.execute(setting, self.connection()?).await?;
        self.survival = Some(survival);
        self.finish();
        Ok(())
    }

    /// Begins a transaction whose commit survives a power failure. `IMMEDIATE` takes the lock at
    /// the start.
    async fn begin(&mut self) -> Result<(), sqlx::Error> {
        if self.survival.take() != Some(Survival::PowerFailure) {
            sqlx::query(setting(Survival::PowerFailure)).execute(self.connection()?).await?;
        }
        self.survival = Some(Survival::PowerFailure);
        self.start();
        sqlx::query("BEGIN IMMEDIATE").execute(self.connection()?).await?;
        Ok(())
    }

    async fn roll_back(&mut self) {
        let Ok(connection) = self.connection() else { return };
        // The rollback fails if SQLite has already rolled back, as it does on a full disk.
        let _ = sqlx::query("ROLLBACK").execute(connection).await;
        self.finish();
    }

    fn start(&mut self) {
        self.unfinished = true;
        self.version.begin();
    }

    fn finish(&mut self) {
        self.unfinished = false;
        self.version.end();
    }

    fn connection(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)
    }
}

/// A transaction that may write. Dropping the transaction without a commit rolls it back.
#[derive(Debug)]
pub struct Write(Turn);

impl Write {
    pub(super) async fn begin(mut turn: Turn) -> Result<Self, sqlx::Error> {
        turn.writer().begin().await?;
        Ok(Self(turn))
    }

    /// Commits the transaction durably.
    pub async fn commit(mut self) -> Result<(), sqlx::Error> {
        sqlx::query("COMMIT").execute(&mut *self).await?;
        self.0.writer().finish();
        Ok(())
    }
}

impl Deref for Write {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.0.0.as_ref().and_then(|writer| writer.connection.as_ref()).expect(OPEN)
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.0.writer().connection.as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a transaction has begun on it, and only its holder could close it";

/// The turn to write. If its holder fails or is cancelled, a transaction stays behind, which is
/// rolled back before the next turn.
#[derive(Debug)]
pub(super) struct Turn(Option<OwnedMutexGuard<Writer>>);

impl Turn {
    pub(super) async fn of(writer: OwnedMutexGuard<Writer>) -> Self {
        let mut turn = Self(Some(writer));
        // The previous holder had no runtime on which to roll back.
        if turn.writer().unfinished {
            turn.writer().roll_back().await;
        }
        turn
    }

    pub(super) async fn apply(mut self, survival: Survival, batch: Batch) -> Result<(), sqlx::Error> {
        let done = self.writer().apply(survival, batch).await;
        if self.writer().unfinished {
            self.writer().roll_back().await;
        }
        done
    }

    fn writer(&mut self) -> &mut Writer {
        self.0.as_mut().expect("taken only when it is dropped")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut writer) = self.0.take().filter(|writer| writer.unfinished) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { writer.roll_back().await });
        }
    }
}

/// The setting for a durability. `PRAGMA synchronous` has no effect inside a transaction, and lasts
/// until it is changed.
fn setting(survival: Survival) -> &'static str {
    match survival {
        Survival::Crash => "PRAGMA synchronous = NORMAL",
        Survival::PowerFailure => "PRAGMA synchronous = FULL",
    }
}
