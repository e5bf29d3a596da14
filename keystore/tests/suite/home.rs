//! A separate keystore for each test, and helpers that many tests use.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use cloakwork_clock::{Clock, ManualClock, unix_micros_after};
use cloakwork_keystore::{
    BlobInfo, Digest, Error, Keystore, Limits, Options, OwnLimits, RequestId, S3Options, SCHEMA, StoreOptions,
    TenantId, UploadInfo,
};
use cloakwork_storage::{Database, Schema};
use cloakwork_tests_bucket::Bucket;
use futures_util::TryStreamExt;
use s3s::{
    S3Result,
    access::{S3Access, S3AccessContext},
};
use tokio::sync::watch;

/// Directories, clock and options of a keystore. Opening the keystore a second time is a restart.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    store: StoreOptions,
    bytes_at: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) own_limits: Option<Arc<dyn OwnLimits>>,
    pub(crate) allow_weak_sets: bool,
    time: ManualClock,
    requests: AtomicU64,
    gate: Gate,
    /// The database of the keystore that was opened last.
    opened: Mutex<Option<Database>>,
}

/// Holds back calls of some kinds in the S3 server of a home.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    closed: Arc<watch::Sender<&'static [&'static str]>>,
    /// Kinds of the calls that have arrived since the gate was closed.
    come: Arc<watch::Sender<Vec<String>>>,
}

impl Gate {
    /// Holds back all calls of these kinds from now on.
    pub(crate) fn close(&self, calls: &'static [&'static str]) {
        self.closed.send_replace(calls);
        self.come.send_replace(Vec::new());
    }

    /// Lets through the held calls and all later calls.
    pub(crate) fn open(&self) {
        self.closed.send_replace(&[]);
    }

    /// Returns after `times` calls of a kind have arrived since the gate was closed.
    pub(crate) async fn reached(&self, call: &str, times: usize) {
        let mut come = self.come.subscribe();
        let enough = |come: &Vec<String>| come.iter().filter(|come| *come == call).count() >= times;
        come.wait_for(enough).await.expect("the gate is there");
    }
}

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let call = context.s3_op().name();
        self.come.send_modify(|come| come.push(call.to_owned()));
        self.closed.subscribe().wait_for(|closed| !closed.contains(&call)).await.expect("the gate is there");
        Ok(())
    }
}

/// The environment variable through which a child process opens the database of the home at `root`.
pub(crate) fn database_for_child(root: &Path) -> Option<(&'static str, String)> {
    cloakwork_tests_database::for_child(&root.join(DATABASE))
}

/// Opens the database of a home at `root`.
pub(crate) async fn database(root: &Path) -> Database {
    cloakwork_tests_database::open(&root.join(DATABASE), &[SCHEMA], 4).await
}

impl Home {
    pub(crate) fn local() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let bytes_at = directory.path().join("blobs");
        Self::new(directory, StoreOptions::Local(bytes_at.clone()), bytes_at)
    }

    /// A home with an S3 server of its own on loopback, whose buckets lie in this home.
    pub(crate) async fn s3() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let gate = Gate::default();
        let bucket = Bucket::start_behind(&directory.path().join("s3"), gate.clone()).await;
        let credentials_file = directory.path().join("credentials");
        let (id, secret) = (Bucket::ACCESS_KEY_ID, Bucket::SECRET_ACCESS_KEY);
        let credentials = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
        std::fs::write(&credentials_file, credentials).expect("a file");
        let options = S3Options {
            endpoint: Some(bucket.endpoint),
            bucket: Bucket::NAME.to_owned(),
            region: "us-east-1".to_owned(),
            prefix: "cloakwork/blobs".to_owned(),
            credentials_file: Some(credentials_file),
            allow_http: true,
            clock: Clock::system(),
        };
        let bytes_at = bucket.directory.join("cloakwork/blobs");
        let mut home = Self::new(directory, StoreOptions::S3(options), bytes_at);
        home.limits.orphan_age = DAY - HOUR;
        home.gate = gate;
        home
    }

    /// A home in a directory that the test made itself.
    pub(crate) fn at(directory: tempfile::TempDir) -> Self {
        let bytes_at = directory.path().join("blobs");
        Self::new(directory, StoreOptions::Local(bytes_at.clone()), bytes_at)
    }

    fn new(directory: tempfile::TempDir, store: StoreOptions, bytes_at: PathBuf) -> Self {
        let limits = limits();
        // A day later than the S3 server, whose objects are therefore a day old.
        let time = ManualClock::at(unix_micros_after(Clock::system().unix_micros(), DAY));
        let (requests, gate, opened) = (AtomicU64::new(1), Gate::default(), Mutex::default());
        Self {
            directory,
            store,
            bytes_at,
            limits,
            own_limits: None,
            allow_weak_sets: true,
            time,
            requests,
            gate,
            opened,
        }
    }

    pub(crate) async fn open(&self) -> Keystore {
        self.open_on(&self.database().await).await
    }

    /// Opens a keystore on an open database.
    pub(crate) async fn open_on(&self, database: &Database) -> Keystore {
        *self.opened.lock().expect("no panic") = Some(database.clone());
        Keystore::open(self.options(self.directory.path()), database).await.expect("it opens")
    }

    /// Opens the home's database.
    pub(crate) async fn database(&self) -> Database {
        database(self.directory.path()).await
    }

    /// Opens the home's database as a program that has this schema.
    pub(crate) async fn database_of(&self, schema: Schema) -> Database {
        Database::open(&self.database_path(), &[schema], 4).await.expect("it opens")
    }

    pub(crate) fn database_path(&self) -> PathBuf {
        self.directory.path().join(DATABASE)
    }

    /// The database of the keystore that was opened last.
    pub(crate) fn opened(&self) -> Database {
        self.opened.lock().expect("no panic").clone().expect("an open database")
    }

    /// Closes the database of the keystore that was opened last.
    pub(crate) async fn close(&self) {
        self.opened().close().await;
    }

    pub(crate) fn options(&self, root: &Path) -> Options {
        Options {
            staging: root.join("staging"),
            store: self.store.clone(),
            allow_weak_sets: self.allow_weak_sets,
            limits: self.limits.clone(),
            clock: self.time.clock(),
            own_limits: self.own_limits.clone(),
            watch: None,
        }
    }

    /// Lets this time pass on the clock of the keystore, which otherwise stands still.
    pub(crate) fn wait(&self, time: Duration) {
        self.time.advance(time);
    }

    /// The Unix time after this span from now, in microseconds.
    pub(crate) fn after(&self, span: Duration) -> i64 {
        unix_micros_after(self.time.clock().unix_micros(), span)
    }

    /// A fresh request id.
    pub(crate) fn request(&self) -> RequestId {
        u128::from(self.requests.fetch_add(1, Ordering::SeqCst)).to_le_bytes()
    }

    pub(crate) async fn begin(&self, keystore: &Keystore, digest: &Digest) -> Result<UploadInfo, Error> {
        keystore.begin_upload(&tenant(), &self.request(), digest).await
    }

    /// Performs a whole upload in pieces of 64 KiB.
    pub(crate) async fn upload(&self, keystore: &Keystore, bytes: &Bytes) -> Result<BlobInfo, Error> {
        let upload = self.begin(keystore, &Digest::of(bytes)).await?;
        let offset = upload.committed_bytes.min(bytes.len() as u64);
        let mut writer = keystore.append(&tenant(), &upload.id, offset).await?;
        for piece in bytes[offset as usize..].chunks(1 << 16) {
            writer.write(Bytes::copy_from_slice(piece)).await?;
        }
        writer.finish().await
    }

    /// Begins an upload, and sends the first bytes.
    pub(crate) async fn begin_and_pause(&self, keystore: &Keystore, bytes: &Bytes) {
        let upload = self.begin(keystore, &Digest::of(bytes)).await.expect("opened");
        let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("a seat");
        writer.write(bytes.slice(..5000)).await.expect("well formed");
        assert_eq!(writer.pause().await.expect("kept"), 5000);
    }

    /// Files of uploads in progress.
    pub(crate) fn staged_files(&self) -> Vec<PathBuf> {
        files_below(&self.directory.path().join("staging"))
    }

    /// The gate that holds back calls to the bucket.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Files of unfinished multi-part uploads, which the S3 server keeps in its root.
    pub(crate) fn unfinished_parts(&self) -> Vec<PathBuf> {
        let root = std::fs::read_dir(self.directory.path().join("s3")).expect("a home of S3");
        // The server also keeps notes on stored objects there, and never removes the notes. The
        // name of a note contains no upload.
        let is_note =
            |path: &PathBuf| path.extension() == Some("json".as_ref()) && !path.to_string_lossy().contains(".upload-");
        root.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file() && !is_note(path)).collect()
    }

    /// Whether committed blobs lie in a directory, and not in a bucket.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.store, StoreOptions::Local(_))
    }

    /// Directory of the committed blobs.
    pub(crate) fn bytes_at(&self) -> &Path {
        &self.bytes_at
    }

    /// Files of committed blobs.
    pub(crate) fn blob_files(&self) -> Vec<PathBuf> {
        files_below(&self.bytes_at)
    }

    /// The file of a blob of [`tenant`], or a path that a file of the blob could have.
    pub(crate) fn blob_file(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let path = self.bytes_at.join("alice").join(&hex[..2]).join(&hex);
        let found =
            self.blob_files().into_iter().find(|file| file.to_string_lossy().starts_with(&*path.to_string_lossy()));
        found.unwrap_or(path)
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("alice").expect("a name")
}

pub(crate) fn other_tenant() -> TenantId {
    TenantId::new("bob").expect("a name")
}

pub(crate) async fn read(keystore: &Keystore, digest: &Digest, offset: u64) -> Result<Bytes, Error> {
    let stream = keystore.read(&tenant(), digest, offset).await?;
    collect(stream).await
}

pub(crate) async fn collect(stream: cloakwork_keystore::ByteStream) -> Result<Bytes, Error> {
    let all = stream.try_fold(BytesMut::new(), |mut all, piece| async move {
        all.extend_from_slice(&piece);
        Ok(all)
    });
    Ok(all.await?.freeze())
}

/// Limits that suffice for all tests that do not set their own.
fn limits() -> Limits {
    Limits {
        window_bytes: 8 << 20,
        uploads_per_tenant: 64,
        uploads_total: 1024,
        writers_total: 128,
        writers_per_tenant: 32,
        list_bytes: 1 << 30,
        tenant_bytes: 64 << 30,
        unpinned_bytes: 32 << 30,
        keys_per_tenant: 256,
        parts_per_key: 64,
        page_entries: 100,
        digests_per_call: 4096,
        staged_bytes: 1 << 40,
        upload_expiry: DAY,
        keep: Duration::from_secs(3600),
        request_memory: DAY,
        request_ids_per_tenant: 1000,
        orphan_age: DAY,
    }
}

/// Names the variant of an error, for tests that ignore its content.
pub(crate) trait Kind {
    fn kind(&self) -> String;
}

impl Kind for Error {
    fn kind(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '(']).next().expect("a name").to_owned()
    }
}

/// Waits for a condition.
pub(crate) async fn eventually(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < DEADLINE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Number of tasks of this test that have not ended.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.path() {
            directory if directory.is_dir() => found.extend(files_below(&directory)),
            file => found.push(file),
        }
    }
    found
}

/// Upper bound for every wait that must succeed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
const DATABASE: &str = "catalogue.db";
