//! The keystore's handle, and the commit of a blob.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use cloakwork_clock::{Clock, unix_day, unix_micros_after};
use cloakwork_params::{
    AnySet, KeyId, Layout, ObjectKind,
    ckks::{
        CKKS_SETS,
        layout::{CiphertextShape, KeyShape, Purpose},
    },
    envelope::{self, Dimensions},
    set::Standing,
    table,
};
use cloakwork_share::FairShare;
use cloakwork_storage::{Asker, Database, Reader, Rows, Write};
use tokio::sync::Semaphore;

use crate::{
    Digest, Error, Limits, OwnLimits, Pin, StoreOptions, TenantId, UploadId,
    abort::Abort,
    catalogue::{Connection, blobs, blobs::BlobRow, pins, received, uploads, uploads::UploadRow},
    changing::{Change, Changing},
    detached::to_the_end,
    known_keys::KnownKeys,
    reserve::Reserved,
    staging::Staging,
    store::{Object, Store, StoreWatch},
    sweep,
    upload::{CLEARING, RESULT_COMMITS_MAX, RESULTS_MAX, Registry, TENANT_RESULT_COMMITS_MAX, WORKER_RESULTS_MAX},
    verify::{self, Content, Policy, Verifier},
};

/// Locations, policy, limits and clock of a keystore.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory for the files of uploads in progress. Always on local disk.
    pub staging: PathBuf,
    /// Store of committed blobs.
    pub store: StoreOptions,
    /// Whether blobs of weak and toy parameter sets are accepted.
    pub allow_weak_sets: bool,
    /// Limits of the keystore.
    pub limits: Limits,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits of single tenants.
    pub own_limits: Option<Arc<dyn OwnLimits>>,
    /// Takes note of operations on the store.
    pub watch: Option<Arc<dyn StoreWatch>>,
}

/// Metadata of a committed blob.
#[derive(Clone, Debug, PartialEq)]
pub struct BlobInfo {
    /// Digest, which is the blob's name.
    pub digest: Digest,
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Parameter set of the object.
    pub set: AnySet,
    /// Client key under which the object was made.
    pub key_id: KeyId,
    /// Numeric dimensions from the object's header.
    pub dimensions: Dimensions,
    /// Number of ciphertexts in a list, or of outputs of a lookup table; 1 for CKKS ciphertexts, 0
    /// for keys.
    pub count: u64,
    /// Largest degree in a list.
    pub degree_max: u32,
    /// Largest noise level in a list.
    pub noise_level_max: u32,
    /// Unix time of the commit, in microseconds.
    pub created_micros: i64,
}

/// Blobs and keys of all tenants of a shard. The handle is cheap to clone: clones share all state.
#[derive(Clone, Debug)]
pub struct Keystore {
    database: Database,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    staging: Staging,
    store: Store,
    limits: Limits,
    own_limits: Option<Arc<dyn OwnLimits>>,
    policy: Policy,
    clock: Clock,
    registry: Arc<Registry>,
    reserved: Reserved,
    /// Uploads of clients that receive at the same time.
    receiving: Arc<FairShare<TenantId>>,
    /// Results that receive at the same time, by worker.
    results: Arc<FairShare<u128>>,
    /// Received results that are committed at the same time.
    result_commits: Arc<FairShare<TenantId>>,
    /// Puts and deletions at the same time.
    changes: Arc<FairShare<TenantId>>,
    /// Bounds the number of aborted commits that are cleared away at once.
    clearing: Arc<Semaphore>,
    /// Locks that are held while a blob's bytes and its row change together.
    changing: Changing,
    largest_blob: u64,
    puts: AtomicU64,
    known_keys: KnownKeys,
}

impl Keystore {
    /// Opens the keystore, and removes the leftovers of an interrupted process. The database has
    /// the tables of [`SCHEMA`](crate::SCHEMA).
    pub async fn open(options: Options, database: &Database) -> Result<Self, Error> {
        let limits = options.limits;
        let inner = Inner {
            staging: Staging::open(options.staging, limits.staged_bytes).await?,
            store: Store::open(&options.store).await?.watched(options.watch),
            policy: Policy { allow_weak_sets: options.allow_weak_sets, list_bytes: limits.list_bytes },
            clock: options.clock,
            registry: Arc::default(),
            reserved: Reserved::default(),
            receiving: FairShare::new(limits.writers_total.into(), limits.writers_per_tenant.into()),
            results: FairShare::new(RESULTS_MAX, WORKER_RESULTS_MAX),
            result_commits: FairShare::new(RESULT_COMMITS_MAX, TENANT_RESULT_COMMITS_MAX),
            changes: FairShare::new(BLOB_CHANGES_MAX, TENANT_BLOB_CHANGES_MAX),
            clearing: Arc::new(Semaphore::new(CLEARING)),
            changing: Changing::default(),
            // A larger blob would never have room, and its client would try for ever.
            largest_blob: limits.list_bytes.max(largest_key(options.allow_weak_sets)).min(limits.staged_bytes),
            puts: AtomicU64::new(0),
            known_keys: KnownKeys::default(),
            own_limits: options.own_limits,
            limits,
        };
        let keystore = Self { database: database.versioned(), inner: Arc::new(inner) };
        sweep::recover(&keystore).await?;
        Ok(keystore)
    }

    /// A handle whose calls use the database as `asker`, instead of as the tenant that they name.
    pub fn always_as(&self, asker: Asker<'static>) -> Self {
        Self { database: self.database.always_as(asker), ..self.clone() }
    }

    /// A handle for calls of workers, which do not wait behind the calls of the tenants.
    pub fn for_workers(&self) -> Self {
        Self { database: self.database.for_workers(), ..self.clone() }
    }

    /// Whether a call changes the blob of this hash.
    pub(crate) fn is_changing(&self, tenant: &TenantId, blake3: &[u8; 32]) -> bool {
        self.inner.changing.has(tenant, blake3)
    }

    /// Whether no call changes a blob of the tenant, in the background or otherwise.
    pub fn is_quiet(&self, tenant: &TenantId) -> bool {
        self.inner.changing.is_free(tenant)
    }

    /// Forgets what is known about keys. Call this before another process may change the keys of a
    /// tenant.
    pub fn forget_known_keys(&self) {
        self.inner.known_keys.forget();
    }

    /// Stores a blob from memory after the usual verification. With `pin`, the transaction that
    /// writes the row also pins the blob.
    pub async fn put(&self, tenant: &TenantId, bytes: Bytes, pin: Option<Pin>) -> Result<BlobInfo, Error> {
        let place = self.changes().take(tenant, 1).await;
        let (keystore, tenant) = (self.clone(), tenant.clone());
        to_the_end(async move {
            let _place = place;
            keystore.stage_and_commit(&tenant, bytes, pin).await
        })
        .await
    }

    /// Stores a blob from memory. The caller ensures that this ends: the staged file lies outside
    /// every quota.
    async fn stage_and_commit(&self, tenant: &TenantId, bytes: Bytes, pin: Option<Pin>) -> Result<BlobInfo, Error> {
        let number = self.inner.puts.fetch_add(1, Ordering::Relaxed);
        let staged = self.staging().unnamed_path(tenant, number);
        let growth = self.staging().grow(staged.clone(), 0, bytes.len() as u64)?;
        let (policy, path) = (self.policy(), staged.clone());
        let checked = tokio::task::spawn_blocking(move || {
            let _growth = growth;
            let digest = Digest::of(&bytes);
            let mut verifier = Verifier::new(digest, policy);
            verifier.push(&bytes)?;
            let content = verifier.finish()?;
            crate::staging::write_whole(&path, &bytes)?;
            Ok::<_, Error>((digest, content))
        });
        let stored = match checked.await.unwrap_or_else(|error| Err(error.into())) {
            Ok((digest, content)) => self.commit(tenant, &digest, &staged, &content, pin.as_ref(), None).await,
            Err(error) => Err(error),
        };
        self.staging().remove(&staged).await;
        stored
    }

    /// Commits a staged, verified and fsynced file as a blob of the tenant: first the bytes, then
    /// the row. A crash between the two leaves an orphan object, which is removed later, and
    /// the staged file for a retry. An abort of the upload ends the commit too, until the row is
    /// written.
    ///
    /// The caller ensures that this ends, in a task of its own. Otherwise bytes without a row, and
    /// bytes of evicted blobs, would stay.
    pub(crate) async fn commit(
        &self,
        tenant: &TenantId,
        digest: &Digest,
        staged: &Path,
        content: &Content,
        pin: Option<&Pin>,
        upload: Option<(&UploadRow, &Abort)>,
    ) -> Result<BlobInfo, Error> {
        let object = Object::fresh(tenant, digest)?;
        let never = Abort::default();
        let (upload, abort) = upload.map_or((None, &never), |(upload, abort)| (Some(upload), abort));
        let aborted = || Error::UploadNotFound { id: UploadId::of(tenant, digest) };
        let changing = tokio::select! {
            biased;
            () = abort.fired() => return Err(aborted()),
            changing = self.changing(tenant, digest) => changing,
        };
        let (left, recorded) = match self.store().commit(staged, &object.name(), abort).await {
            Ok(left) if abort.has_fired() => (left, Err(aborted())),
            Ok(left) => (left, self.record(&object, digest, content, pin, upload).await),
            // The object may be in place nevertheless.
            Err(error) => (None, Err(error)),
        };
        match recorded {
            Ok((row, unused)) => {
                drop(changing);
                // The blob is stored, whatever happens to the unused bytes.
                let _ = self.remove_bytes(&unused).await;
                Ok(row.info())
            }
            Err(error) if abort.has_fired() => {
                drop(changing);
                self.clear_away(object, left).await;
                Err(error)
            }
            Err(error) => {
                // The caller needs the first error, which is the reason of the refusal.
                let _ = self.remove_if_unlisted(&object).await;
                Err(error)
            }
        }
    }

    /// Writes the row of a blob whose bytes are in place, and makes room for the blob. Also returns
    /// the objects that are unused after that.
    async fn record(
        &self,
        object: &Object,
        digest: &Digest,
        content: &Content,
        pin: Option<&Pin>,
        upload: Option<&UploadRow>,
    ) -> Result<(BlobRow, Vec<Object>), Error> {
        let (tenant, generation) = (&object.tenant, object.generation);
        let now_micros = self.now_micros();
        let keep_until_micros = unix_micros_after(now_micros, self.limits().keep);
        let mut unused = Vec::new();
        let mut tx = self.write_all(tenant.asker()).await?;
        if let Some(before) = blobs::find(&mut tx, tenant, digest).await? {
            unused.push(before.object(tenant));
            blobs::replace(&mut tx, tenant, digest, generation, now_micros, keep_until_micros).await?;
        } else {
            if upload.is_none() {
                self.check_tenant_bytes(&mut tx, tenant, digest.size_bytes).await?;
            }
            if pin.is_none() && !verify::is_key(content.kind) {
                unused = self.make_room(&mut tx, now_micros, Some((tenant, digest.size_bytes))).await?.enough()?;
            }
            blobs::insert(&mut tx, object, digest.size_bytes, content, now_micros, keep_until_micros).await?;
        }
        if let Some(Pin { holder, until_micros }) = pin {
            pins::put(&mut tx, tenant, digest, holder, *until_micros).await?;
        }
        if let Some(upload) = upload {
            let expires_micros = unix_micros_after(now_micros, self.limits().upload_expiry);
            uploads::put(&mut tx, &UploadRow { complete: true, expires_micros, ..upload.clone() }).await?;
            if !upload.result {
                received::add(&mut tx, tenant, unix_day(now_micros), digest.size_bytes).await?;
            }
        }
        let row = blobs::find(&mut tx, tenant, digest).await?.ok_or(Error::BlobNotFound { digest: *digest })?;
        tx.commit().await?;
        Ok((row, unused))
    }

    /// Maximum number of bytes of the tenant.
    fn tenant_bytes_max(&self, tenant: &TenantId) -> u64 {
        let of_all = self.limits().tenant_bytes;
        self.inner.own_limits.as_ref().map_or(of_all, |own| own.bytes(tenant.as_str(), of_all))
    }

    /// Maximum number of keys of the tenant.
    pub(crate) fn keys_max(&self, tenant: &TenantId) -> u64 {
        let of_all = self.limits().keys_per_tenant.into();
        self.inner.own_limits.as_ref().map_or(of_all, |own| own.keys(tenant.as_str(), of_all))
    }

    /// Checks that `more` bytes fit the tenant's quota. Open uploads count with their announced
    /// size.
    pub(crate) async fn check_tenant_bytes(
        &self,
        sql: &mut Connection,
        tenant: &TenantId,
        more: u64,
    ) -> Result<(), Error> {
        let (_, _, announced) = uploads::open(sql, self.shard(), tenant).await?;
        let got = blobs::tenant_bytes(sql, tenant).await?.saturating_add(announced).saturating_add(more);
        let limit = self.tenant_bytes_max(tenant);
        if got > limit { Err(Error::QuotaExceeded { what: "bytes of the tenant", limit, got }) } else { Ok(()) }
    }

    /// Removes objects that no row names any more. A failure does not spare the other objects,
    /// because no later call removes them. The first failure is returned.
    pub(crate) async fn remove_bytes(&self, objects: &[Object]) -> Result<(), Error> {
        let mut all_removed = Ok(());
        for object in objects {
            let removed = self.store().remove(&object.name()).await;
            all_removed = all_removed.and(noted(object, removed));
        }
        all_removed
    }

    /// Removes the object of a commit that failed, unless a row names the object: the failure may
    /// have hidden a success.
    pub(crate) async fn remove_if_unlisted(&self, object: &Object) -> Result<(), Error> {
        let removed = async {
            // A transaction that lost its connection may still be about to commit. This one has the
            // same lock, and sees its outcome.
            let mut tx = self.write(&object.tenant).await?;
            let listed = blobs::lists(&mut tx, object).await?;
            // A bucket may take minutes for the removal.
            drop(tx);
            if listed { Ok(()) } else { self.store().remove(&object.name()).await }
        };
        noted(object, removed.await)
    }

    /// Locks the blob against concurrent changes of its bytes and its row.
    pub(crate) async fn changing(&self, tenant: &TenantId, digest: &Digest) -> Change<'_> {
        self.inner.changing.lock(tenant, digest).await
    }

    pub(crate) fn known_keys(&self) -> &KnownKeys {
        &self.inner.known_keys
    }

    /// A connection for queries.
    pub(crate) async fn reader(&self, asker: Asker<'_>) -> Result<Reader, Error> {
        Ok(self.database.read(asker).await?)
    }

    /// Begins a transaction that changes rows of one tenant.
    pub(crate) async fn write(&self, tenant: &TenantId) -> Result<Write, Error> {
        Ok(self.database.write(tenant.asker(), Rows::Tenant(tenant.as_str())).await?)
    }

    /// Begins a transaction that may change rows of several tenants.
    pub(crate) async fn write_all(&self, asker: Asker<'_>) -> Result<Write, Error> {
        Ok(self.database.write(asker, Rows::All).await?)
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// The shard whose tenants this keystore serves.
    pub(crate) fn shard(&self) -> i32 {
        self.database.shard()
    }

    pub(crate) fn staging(&self) -> &Staging {
        &self.inner.staging
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Number of entries on a page of a list: `asked`, capped at the limit. 0 asks for the limit.
    pub(crate) fn page_entries(&self, asked: u32) -> u32 {
        let most = self.limits().page_entries.max(1);
        if asked == 0 { most } else { asked.min(most) }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.inner.policy
    }

    pub(crate) fn reserved(&self) -> &Reserved {
        &self.inner.reserved
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    pub(crate) fn receiving(&self) -> &Arc<FairShare<TenantId>> {
        &self.inner.receiving
    }

    pub(crate) fn results(&self) -> &Arc<FairShare<u128>> {
        &self.inner.results
    }

    pub(crate) fn result_commits(&self) -> &Arc<FairShare<TenantId>> {
        &self.inner.result_commits
    }

    pub(crate) fn changes(&self) -> &Arc<FairShare<TenantId>> {
        &self.inner.changes
    }

    pub(crate) fn clearing(&self) -> &Arc<Semaphore> {
        &self.inner.clearing
    }

    pub(crate) fn largest_blob(&self) -> u64 {
        self.inner.largest_blob
    }

    pub(crate) fn now_micros(&self) -> i64 {
        self.inner.clock.unix_micros()
    }
}

impl BlobInfo {
    pub(crate) fn of(digest: &Digest, content: &Content, created_micros: i64) -> Self {
        let Content { kind, set, key_id, dimensions, count, degree_max, noise_level_max } = *content;
        let digest = *digest;
        Self { digest, kind, set, key_id, dimensions, count, degree_max, noise_level_max, created_micros }
    }

    /// Level, slots and scale of a CKKS ciphertext; `None` for any other object.
    pub fn ckks_ciphertext(&self) -> Option<CiphertextShape> {
        let is_ciphertext = matches!(self.kind, ObjectKind::CkksCiphertext | ObjectKind::SeededCkksCiphertext);
        let set = self.set.ckks().filter(|_| is_ciphertext)?;
        CiphertextShape::of(set, &self.dimensions).ok()
    }
}

impl BlobRow {
    pub(crate) fn info(&self) -> BlobInfo {
        BlobInfo::of(&self.digest, &self.content, self.created_micros)
    }
}

/// Logs a failed removal, because the bytes then stay until the next start, and no quota counts
/// them.
fn noted(object: &Object, removed: Result<(), Error>) -> Result<(), Error> {
    if let Err(error) = &removed {
        let Object { tenant, .. } = object;
        tracing::warn!(%tenant, object = object.name(), %error, "an object without a row stays until the next start");
    }
    removed
}

/// Maximum number of puts and deletions at the same time, of all tenants and of each tenant. These
/// calls end even if their callers are gone. Without the limits, a client that cancels its calls
/// could leave any number behind, each with a blob in memory, in the staging directory or in a slow
/// bucket.
const BLOB_CHANGES_MAX: u64 = 64;
const TENANT_BLOB_CHANGES_MAX: u64 = 16;

/// Size in bytes of the largest key of all accepted parameter sets.
fn largest_key(allow_weak_sets: bool) -> u64 {
    let none = [0; envelope::DIMENSIONS];
    let mut largest = 0;
    let taken = |standing: Standing| standing.takes_keys(allow_weak_sets);
    for set in CKKS_SETS.iter().filter(|set| taken(set.standing)) {
        let shape = KeyShape { purpose: Purpose::Relinearization, level: set.level_max() };
        largest = largest.max(shape.bodies(set) as u64 * set.packed_bytes(shape.level, shape.special(set)));
    }
    for set in table::SETS.iter().filter(|set| taken(set.standing)) {
        for kind in ObjectKind::all().filter(|kind| verify::is_key(*kind)) {
            // Some sets do not define all kinds.
            largest = Layout::of(kind, set, &none).map_or(largest, |layout| largest.max(layout.payload_len));
        }
    }
    largest + (envelope::HEADER_BYTES + envelope::TRAILER_BYTES) as u64
}
