//! A database the way a service needs it: transactions that exclude each other, and readers.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    Asker, Batch, Error, OpenError, Reader, Rows, Schema, Server, Standbys, Survival, postgres,
    readers::Readers,
    session::Session,
    source::Source,
    sqlite,
    terms::Terms,
    version::Version,
    write::Write,
    writers::{Turn, Writers},
};

/// A handle to an open database. Cheap to clone: clones share the connections and the version.
#[derive(Clone, Debug)]
pub struct Database {
    /// The one connection for changes of any rows.
    whole: Writers,
    /// Connections for changes of one tenant's rows. SQLite has one writer, so they are the same.
    tenants: Writers,
    /// The connection for changes of rows that only this process changes.
    apart: Writers,
    readers: Readers,
    version: Version,
    waiting: Arc<AtomicUsize>,
    /// The user of this handle, which decides about the asker of its calls.
    user: User,
    guard: Option<Arc<str>>,
    shard: i32,
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

impl Database {
    /// Opens the file and migrates its schemas to their newest versions. Creates a missing file,
    /// for this user alone. Leaves a schema of a later version unchanged. Tenants have `readers`
    /// connections for queries, and the server has some of its own.
    pub async fn open(path: &Path, schemas: &[Schema], readers: u32) -> Result<Self, OpenError> {
        let session = Session::Sqlite(Box::new(sqlite::open(path, schemas).await?));
        let source = Source::file(path.to_owned());
        let writers = Writers::new(source.clone(), Some(session), 1);
        Ok(Self::new([(); 3].map(|()| writers.clone()), Readers::open(source, readers).await?))
    }

    /// Connects to a server, and migrates the schemas to their newest versions. A schema of a later
    /// version stays as it is, and can be used if its migrations permit that. Tenants have
    /// `readers` connections for queries, and the server has some of its own.
    pub async fn connect(server: Server, schemas: &[Schema], readers: u32) -> Result<Self, OpenError> {
        let mut session = server.connect().await?;
        for schema in schemas {
            postgres::migrate(&mut session, schema).await?;
        }
        let source = Source::server(server);
        let whole = Writers::new(source.clone(), Some(Session::Postgres(Box::new(session))), 1);
        let [tenants, apart] = [TENANT_WRITERS, 1].map(|count| Writers::new(source.clone(), None, count));
        Ok(Self::new([whole, tenants, apart], Readers::open(source, readers).await?))
    }

    fn new([whole, tenants, apart]: [Writers; 3], readers: Readers) -> Self {
        let (version, waiting) = (Version::default(), Arc::default());
        Self { whole, tenants, apart, readers, version, waiting, user: User::Callers, guard: None, shard: 0 }
    }

    /// Whether the database is on a server, which other processes may use too.
    pub fn is_on_server(&self) -> bool {
        self.readers.source().is_server()
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
        let mut turn = self.turn(Asker::Server, Rows::All).await?;
        match turn.writer().connection()?.session() {
            Session::Sqlite(session) => sqlite::absorb(session, file, schema, tables).await,
            Session::Postgres(_) => Err(Error::Failed("only a file takes the rows of another file".to_owned()).into()),
        }
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

    /// A handle for the rows of one shard. A database is one shard, number 0, unless its user
    /// divides the rows. Transactions on rows of different shards do not wait for each other.
    pub fn of_shard(&self, shard: i32) -> Self {
        Self { shard, ..self.clone() }
    }

    /// The shard of this handle.
    pub fn shard(&self) -> i32 {
        self.shard
    }

    /// A handle whose transactions run the statement `guard` before their own ones. The guard
    /// raises an error with the code `CW001` if this process may not write any more, and the
    /// transaction then fails with [`Error::Fenced`]. Nothing in its text is escaped.
    pub fn guarded(&self, guard: &str) -> Self {
        Self { guard: Some(guard.into()), ..self.clone() }
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
    /// waits for transactions on the same rows, so a transaction never fails half-way because
    /// another one holds the lock. On a server, the wait for locks is limited.
    pub async fn write(&self, asker: Asker<'_>, rows: Rows<'_>) -> Result<Write, Error> {
        let turn = self.turn(asker, rows).await?;
        Write::begin(turn, self.terms(Survival::PowerFailure, rows), &self.version).await
    }

    /// Commits all of a batch, or nothing of it. `fill` fills the batch when its turn has come. If
    /// the batch may change all rows, no other batch on all rows is filled from then until the
    /// commit.
    pub async fn apply(
        &self,
        asker: Asker<'_>,
        rows: Rows<'_>,
        survival: Survival,
        fill: impl FnOnce(&mut Batch),
    ) -> Result<(), Error> {
        let turn = self.turn(asker, rows).await?;
        let mut batch = Batch::default();
        fill(&mut batch);
        turn.apply(self.terms(survival, rows), batch, &self.version).await
    }

    /// Waits until it is certain whether the last batch on all rows was committed. A batch fails
    /// with an unknown result if the connection to a server is lost during its commit.
    pub async fn settle(&self) -> Result<(), Error> {
        self.turn(Asker::Server, Rows::All).await.map(drop)
    }

    /// The standbys of the database's server. Returns `None` for a file.
    pub async fn standbys(&self) -> Result<Option<Standbys>, Error> {
        if !self.is_on_server() {
            return Ok(None);
        }
        let mut reader = self.read(Asker::Upkeep).await?;
        let row = reader.query(postgres::STANDBYS).one().await?;
        Standbys::of(&row).map(Some)
    }

    /// Number of tasks that wait for their turn to write.
    pub fn waiting_writers(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for a connection that may change the rows.
    async fn turn(&self, asker: Asker<'_>, rows: Rows<'_>) -> Result<Turn, Error> {
        let writers = match rows {
            Rows::All => &self.whole,
            Rows::Tenant(_) => &self.tenants,
            Rows::Apart => &self.apart,
        };
        let asker = self.asker(asker);
        let waiting = Waiting::begin(&self.waiting);
        let mut turn = writers.wait(asker).await?;
        drop(waiting);
        turn.ready(asker).await?;
        Ok(turn)
    }

    fn terms<'t>(&'t self, survival: Survival, rows: Rows<'t>) -> Terms<'t> {
        Terms { survival, rows, shard: self.shard, guard: self.guard.as_deref() }
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
        self.apart.close().await;
        self.tenants.close().await;
        self.whole.close().await;
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

/// Connections to a server for changes of one tenant's rows.
const TENANT_WRITERS: u32 = 4;
