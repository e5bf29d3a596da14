//! A database the way a service needs it: one writer, several readers.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Mutex;

use crate::{
    Asker, Batch, Connection, Error, OpenError, Reader, Schema, Survival,
    line::Line,
    readers::Readers,
    sqlite,
    version::Version,
    write::{Turn, Write, Writer},
};

/// A handle to an open database. Cheap to clone: clones share the connections and the version.
#[derive(Clone, Debug)]
pub struct Database {
    writer: Arc<Mutex<Writer>>,
    /// Admits one tenant at a time to the line of the writer.
    writing: Line,
    readers: Readers,
    version: Version,
    waiting: Arc<AtomicUsize>,
    /// The user of this handle, which decides about the asker of its calls.
    user: User,
}

/// The user of a handle.
#[derive(Clone, Copy, Debug)]
enum User {
    /// Each call counts as a call of the asker that it names.
    Callers,
    /// Calls of tenants count as calls of workers for these tenants.
    Workers,
    /// All calls count as calls of one asker.
    One(Asker<'static>),
}

/// Rows that a transaction may change. Transactions whose rows overlap exclude each other.
///
/// SQLite has one writer, so there every transaction excludes all others. A database with
/// concurrent writers locks the rows that the transaction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows<'t> {
    /// Rows of this tenant.
    Tenant(&'t str),
    /// Rows of several tenants, or of none.
    All,
}

impl Database {
    /// Opens the file and migrates its schemas to their newest versions. Creates a missing file,
    /// for this user alone. Leaves a schema of a later version unchanged. Tenants have `readers`
    /// connections for queries, and the server has some of its own.
    pub async fn open(path: &Path, schemas: &[Schema], readers: u32) -> Result<Self, OpenError> {
        let session = sqlite::open(path, schemas).await?;
        Ok(Self {
            writer: Arc::new(Mutex::new(Writer::new(Connection::new(session)))),
            writing: Line::new(1, 1),
            readers: Readers::open(path.to_owned(), readers).await?,
            version: Version::default(),
            waiting: Arc::default(),
            user: User::Callers,
        })
    }

    /// The version of a schema in a database file that is not open. Returns `None` if there is no
    /// such file, or no such schema in it.
    pub async fn version_of(path: &Path, schema: &Schema) -> Result<Option<i64>, OpenError> {
        sqlite::version(path, schema).await
    }

    /// Moves the rows of `tables` from another database file into this one, and gives that file the
    /// extension `moved`. Returns false if there is no such file.
    ///
    /// Versions of this program that kept several databases left such files. `schema` describes the
    /// tables of that file with the ledger that it has. The rows move in one transaction, which
    /// also records the move: after a crash the next call only renames the file. No other process
    /// may use the file.
    pub async fn absorb(&self, file: &Path, schema: &Schema, tables: &[&str]) -> Result<bool, OpenError> {
        let mut turn = self.turn(Asker::Server).await;
        sqlite::absorb(turn.writer().connection()?.session(), file, schema, tables).await
    }

    /// A handle with a version of its own, which counts only the writes through this handle and its
    /// clones.
    pub fn versioned(&self) -> Self {
        Self { version: Version::default(), ..self.clone() }
    }

    /// A handle whose calls all count as calls of `asker`, whichever asker they name. Code that
    /// serves tenants then serves the server too.
    pub fn always_as(&self, asker: Asker<'static>) -> Self {
        Self { user: User::One(asker), ..self.clone() }
    }

    /// A handle for calls of workers. A call that names a tenant does not wait behind the tenant's
    /// own calls.
    pub fn for_workers(&self) -> Self {
        Self { user: User::Workers, ..self.clone() }
    }

    /// Number of the state that queries see, or `None` during a write. Data that was read between
    /// two equal answers is current for as long as the answer does not change.
    pub fn version(&self) -> Option<u64> {
        self.version.get()
    }

    /// A connection for queries. The wait for one is limited.
    pub async fn read(&self, asker: Asker<'_>) -> Result<Reader, Error> {
        self.readers.take(self.asker(asker)).await
    }

    /// Begins a transaction that may write, and whose commit survives a power failure. The call
    /// waits for the transaction before it, so a transaction never fails half-way because another
    /// one holds the lock.
    pub async fn write(&self, asker: Asker<'_>, _rows: Rows<'_>) -> Result<Write, Error> {
        Write::begin(self.turn(asker).await, Survival::PowerFailure, &self.version).await
    }

    /// Commits all of a batch, or nothing of it. `fill` fills the batch when its turn has come, and
    /// no other writer runs from then until the commit.
    pub async fn apply(
        &self,
        asker: Asker<'_>,
        survival: Survival,
        fill: impl FnOnce(&mut Batch),
    ) -> Result<(), Error> {
        let turn = self.turn(asker).await;
        let mut batch = Batch::default();
        fill(&mut batch);
        turn.apply(survival, batch, &self.version).await
    }

    /// Number of tasks that wait for their turn to write.
    pub fn waiting_writers(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for the writer. A tenant waits for the other tenants first, so at most one tenant
    /// stands in the line of the writer, in front of the server.
    async fn turn(&self, asker: Asker<'_>) -> Turn {
        let waiting = Waiting::begin(&self.waiting);
        let place = self.writing.enter(self.asker(asker)).await;
        let writer = self.writer.clone().lock_owned().await;
        drop(waiting);
        Turn::of(writer, place).await
    }

    fn asker<'t>(&self, asker: Asker<'t>) -> Asker<'t> {
        match self.user {
            User::Callers => asker,
            User::Workers => asker.of_worker(),
            User::One(one) => one,
        }
    }

    /// Closes all connections, and waits until they are closed.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.lock().await.close().await;
    }
}

/// Counts a waiting task until this guard is dropped. Cancelling the wait drops the guard, too.
struct Waiting<'w>(&'w AtomicUsize);

impl<'w> Waiting<'w> {
    fn begin(count: &'w AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
