//! Calls whose futures are dropped before their end, as the edge drops the calls of clients that go
//! away. No such call may leave bytes that no row counts.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    path::PathBuf,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_keystore::{BlobInfo, Digest, Error, Keystore, Pin};
use cloakwork_params::KeyId;
use cloakwork_storage::Asker;
use futures_util::{FutureExt as _, future::select};
use tokio::time::timeout;

use crate::{
    home::{DAY, DEADLINE, HOUR, Home, eventually, other_tenant, tasks, tenant},
    objects::{bootstrap_key, key_switch_key, list, toy},
};

on_both_stores!(
    a_cancelled_put_leaves_nothing_uncounted,
    a_cancelled_put_removes_what_it_evicted,
    a_cancelled_put_that_is_refused_leaves_nothing,
    a_cancelled_deletion_leaves_nothing_uncounted,
    a_cancelled_purge_leaves_nothing_uncounted,
    a_cancelled_begin_removes_the_upload_that_it_gave_up,
    a_cancelled_sweep_removes_the_bytes_of_its_rows,
    a_cancelled_upload_leaves_nothing_uncounted,
);

/// Number of polls after which a call must have ended by itself.
const POLLS_MAX: usize = 500;

/// Moment after the last poll at which a call is dropped.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// At once, while the step that the poll has begun is under way.
    AtOnce,
    /// When the step has ended and the call would be polled again.
    WhenWoken,
}

/// Polls a call at most `polls` times, and then drops it. Returns the output of a call that ended
/// by itself.
async fn cancelled<T>(polls: usize, moment: Moment, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match (call.as_mut().poll(context), moment) {
            (Poll::Ready(output), _) => Poll::Ready(Some(output)),
            (Poll::Pending, Moment::AtOnce) if left == 0 => Poll::Ready(None),
            (Poll::Pending, _) => Poll::Pending,
        }
    })
    .await
}

/// Drops a call at each of its polls in turn, until the call ends by itself. Returns the outputs of
/// the calls that ended. `prepare` prepares each call, whose number it gets.
async fn at_each_poll<S, T>(
    home: &Home,
    prepare: impl AsyncFn(u64) -> S,
    call: impl AsyncFn(S) -> Result<T, Error>,
) -> Vec<Result<T, Error>> {
    let mut number = 0;
    let mut outputs = Vec::new();
    let tasks_before = tasks();
    for moment in [Moment::AtOnce, Moment::WhenWoken] {
        for polls in 0.. {
            assert!(polls < POLLS_MAX, "the call does not end");
            number += 1;
            let prepared = prepare(number).await;
            let output = cancelled(polls, moment, call(prepared)).await;
            settles(home, &format!("dropped after {polls} polls, {moment:?}")).await;
            if let Some(output) = output {
                outputs.push(output);
                break;
            }
        }
    }
    // Work that had not begun at the checks above has ended now. The client of a bucket has tasks
    // of its own, for its connections.
    if home.is_local() {
        eventually("all tasks end", || tasks() <= tasks_before).await;
    }
    settles(home, "after all calls").await;
    outputs
}

/// Waits until all bytes of the home have rows, and all rows have bytes.
async fn settles(home: &Home, when: &str) {
    let begun = Instant::now();
    while let Some(difference) = difference(home).await {
        assert!(begun.elapsed() < DEADLINE, "{when}: {difference}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A difference between the rows of a home and its bytes, if there is one.
async fn difference(home: &Home) -> Option<String> {
    let database = home.opened();
    let mut sql = database.read(Asker::Server).await.expect("a reader");
    let mut names = BTreeSet::new();
    let mut sums = (0, 0);
    for row in sql.query("SELECT tenant, digest, generation, size_bytes, is_key FROM blobs").all().await.expect("rows")
    {
        let hex = Digest { blake3: row.array("digest").expect("a hash"), size_bytes: 0 }.hex();
        let generation = row.int("generation").expect("a number");
        names.insert(format!("{}/{}/{hex}-{generation:016x}", row.text("tenant").expect("a name"), &hex[..2]));
        let size_bytes = row.int("size_bytes").expect("a size");
        sums.0 += size_bytes;
        sums.1 += if row.flag("is_key").expect("a flag") { 0 } else { size_bytes };
    }
    let counted = "SELECT CAST(SUM(blob_bytes) AS BIGINT) AS all_bytes, \
                   CAST(SUM(ciphertext_bytes) AS BIGINT) AS ciphertext_bytes FROM usage";
    let counted = sql.query(counted).one().await.expect("sums");
    let counted = ["all_bytes", "ciphertext_bytes"].map(|column| counted.int_or_null(column).expect("a sum"));
    let mut open = BTreeSet::new();
    for row in sql.query("SELECT tenant, id FROM uploads WHERE complete = 0").all().await.expect("rows") {
        open.insert(format!("{}/{}", row.text("tenant").expect("a name"), row.text("id").expect("a name")));
    }
    drop(sql);
    let files = ends(&home.blob_files(), 3);
    let staged = ends(&home.staged_files(), 2);
    let parts = if home.is_local() { Vec::new() } else { home.unfinished_parts() };
    let is_equal = files == names
        && staged.is_subset(&open)
        && parts.is_empty()
        && counted.map(Option::unwrap_or_default) == [sums.0, sums.1];
    (!is_equal).then(|| {
        format!(
            "files {files:#?}, rows {names:#?}, staged {staged:#?}, open uploads {open:#?}, parts {parts:#?}, \
             counted {counted:?}, bytes of the rows {sums:?}"
        )
    })
}

/// The last components of each path.
fn ends(paths: &[PathBuf], components: usize) -> BTreeSet<String> {
    let end = |path: &PathBuf| {
        let all: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        all[all.len() - components..].join("/")
    };
    paths.iter().map(end).collect()
}

fn all_succeeded<T: Debug>(outputs: Vec<Result<T, Error>>) {
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        output.expect("the call succeeds");
    }
}

async fn puts_at_each_poll(home: &Home, keystore: &Keystore) -> Vec<Result<BlobInfo, Error>> {
    let put = async |bytes: Bytes| keystore.put(&tenant(), bytes, None).await;
    at_each_poll(home, async |number| list(5, number), put).await
}

async fn a_cancelled_put_leaves_nothing_uncounted(home: Home) {
    let keystore = home.open().await;
    let outputs = puts_at_each_poll(&home, &keystore);
    all_succeeded(outputs.await);
    assert!(home.staged_files().is_empty());
}

/// Leaves room for one blob, which may be evicted at once. A cancelled call may store its blob
/// while the next call is being prepared.
fn make_each_blob_evict_another(home: &mut Home) {
    home.limits.unpinned_bytes = list(5, 0).len() as u64;
    home.limits.keep = Duration::ZERO;
}

async fn a_cancelled_put_removes_what_it_evicted(mut home: Home) {
    make_each_blob_evict_another(&mut home);
    let keystore = home.open().await;
    let outputs = puts_at_each_poll(&home, &keystore);
    all_succeeded(outputs.await);
    assert_eq!(home.blob_files().len(), 1);
    assert!(home.staged_files().is_empty());
}

async fn a_cancelled_put_that_is_refused_leaves_nothing(mut home: Home) {
    home.limits.tenant_bytes = 1;
    let keystore = home.open().await;
    let outputs = puts_at_each_poll(&home, &keystore);
    for output in outputs.await {
        let got = list(5, 0).len() as u64;
        assert_eq!(output, Err(Error::QuotaExceeded { what: "bytes of the tenant", limit: 1, got }));
    }
    assert!(home.blob_files().is_empty());
    assert!(home.staged_files().is_empty());
}

async fn a_cancelled_deletion_leaves_nothing_uncounted(home: Home) {
    let keystore = home.open().await;
    let outputs = at_each_poll(
        &home,
        async |number| keystore.put(&tenant(), list(5, number), None).await.expect("well formed").digest,
        async |digest: Digest| keystore.delete(&tenant(), &digest).await,
    );
    all_succeeded(outputs.await);
}

async fn a_cancelled_purge_leaves_nothing_uncounted(home: Home) {
    let keystore = home.open().await;
    let outputs = at_each_poll(
        &home,
        async |number| {
            let key_id = KeyId(u128::from(number).to_le_bytes());
            let mut parts = Vec::new();
            for part in [bootstrap_key(toy(), key_id, number), key_switch_key(toy(), key_id, number)] {
                parts.push(keystore.put(&tenant(), part, None).await.expect("well formed").digest);
            }
            keystore.register_key(&tenant(), &home.request(), &parts).await.expect("registered");
            keystore.delete_key(&tenant(), key_id).await.expect("there");
            key_id
        },
        async |key_id: KeyId| keystore.purge_key(&tenant(), key_id).await,
    );
    all_succeeded(outputs.await);
}

async fn a_cancelled_begin_removes_the_upload_that_it_gave_up(mut home: Home) {
    home.limits.uploads_per_tenant = 1;
    let keystore = home.open().await;
    let outputs = at_each_poll(
        &home,
        async |number| {
            home.wait(UPLOAD_IDLE);
            home.begin_and_pause(&keystore, &list(5, 2 * number)).await;
            home.wait(UPLOAD_IDLE);
            Digest::of(&list(5, 2 * number + 1))
        },
        async |digest: Digest| home.begin(&keystore, &digest).await,
    );
    all_succeeded(outputs.await);
    assert!(home.staged_files().is_empty());
}

async fn a_cancelled_sweep_removes_the_bytes_of_its_rows(mut home: Home) {
    home.limits.unpinned_bytes = 1;
    let keystore = home.open().await;
    let outputs = at_each_poll(
        &home,
        async |number| {
            // Leftovers of an earlier call would add polls to this one.
            keystore.sweep().await.expect("swept");
            let pin = Pin { holder: [1; 16], until_micros: Some(home.after(HOUR)) };
            for blob in [3 * number, 3 * number + 1] {
                keystore.put(&tenant(), list(5, blob), Some(pin)).await.expect("well formed");
            }
            home.begin_and_pause(&keystore, &list(5, 3 * number + 2)).await;
            home.wait(DAY);
        },
        async |()| keystore.sweep().await,
    );
    all_succeeded(outputs.await);
    assert!(home.staged_files().is_empty());
    assert!(home.blob_files().is_empty());
}

async fn a_cancelled_upload_leaves_nothing_uncounted(mut home: Home) {
    make_each_blob_evict_another(&mut home);
    let keystore = home.open().await;
    let outputs =
        at_each_poll(&home, async |number| list(5, number), async |bytes: Bytes| home.upload(&keystore, &bytes).await);
    all_succeeded(outputs.await);
}

/// Cancelled calls of one tenant wait for a bucket that does not answer. Their number is limited,
/// and another tenant's call does not wait for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clean_up_of_cancelled_calls_is_limited_for_each_tenant() {
    let home = Home::s3().await;
    let keystore = home.open().await;
    let blobs = TENANT_BLOB_CHANGES_MAX + 1;
    let mut digests = Vec::new();
    for salt in 0..blobs {
        digests.push(keystore.put(&tenant(), list(1, salt as u64), None).await.expect("well formed").digest);
    }
    let theirs = keystore.put(&other_tenant(), list(1, 0), None).await.expect("well formed").digest;
    home.gate().close(&["DeleteObjects"]);
    let owner = tenant();
    for (before, digest) in digests.iter().enumerate().take(TENANT_BLOB_CHANGES_MAX) {
        let deleting = pin!(keystore.delete(&owner, digest));
        let reached = pin!(home.gate().reached("DeleteObjects", before + 1));
        timeout(DEADLINE, select(deleting, reached)).await.expect("the call reaches the bucket");
    }
    let last = &digests[TENANT_BLOB_CHANGES_MAX];
    let mut waiting = pin!(keystore.delete(&owner, last));
    assert!((&mut waiting).now_or_never().is_none());
    let other = other_tenant();
    let deleting = pin!(keystore.delete(&other, &theirs));
    let reached = pin!(home.gate().reached("DeleteObjects", TENANT_BLOB_CHANGES_MAX + 1));
    timeout(DEADLINE, select(deleting, reached)).await.expect("the other tenant's call reaches the bucket");
    assert!((&mut waiting).now_or_never().is_none(), "the last call waits for a place");
    keystore.blob(&owner, last).await.expect("nothing of the last call was committed");
    home.gate().open();
    timeout(DEADLINE, waiting).await.expect("a place is free").expect("deleted");
    settles(&home, "after all calls").await;
    assert!(home.blob_files().is_empty());
}

/// Idle time after which an upload gives way to another (`UPLOAD_IDLE_MIN`).
const UPLOAD_IDLE: Duration = Duration::from_secs(600);

/// Puts and deletions of one tenant at the same time (`TENANT_BLOB_CHANGES_MAX`).
const TENANT_BLOB_CHANGES_MAX: usize = 16;
