use std::sync::atomic::Ordering::Relaxed;

use cloakwork_attestation::{Anchor, PublicKey};
use cloakwork_clock::Clock;
use cloakwork_proto::v1::LatencyRecord;
use cloakwork_scheduler::{JobId, placement::Load};
use cloakwork_storage::{Rows, Server, Survival};
use cloakwork_tests_postgres::{Postgres, shared};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    database::SCHEMAS,
    moving,
    shards::{self, PoolLoad, SILENCE},
    store::{
        Store, Write,
        tests::{job, new_job},
    },
    tenant::Tenant,
};

/// Timeout of steps that should take no noticeable time.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// URL of each server, which no test calls.
pub(crate) const URL: &str = "http://127.0.0.1:1";

/// An anchor of keys with these numbers.
pub(crate) fn anchor(numbers: &[u8]) -> Anchor {
    Anchor::new(numbers.iter().map(|number| PublicKey([*number; 32]))).unwrap()
}

/// A database that several servers of a test use.
struct Shared {
    postgres: &'static Postgres,
    url: String,
}

/// A server that owns the database.
struct Owner {
    ownership: Ownership,
    /// The handle with the check of the owner.
    database: Database,
    /// The handle without it.
    unguarded: Database,
}

impl Shared {
    /// An empty database, or `None` if PostgreSQL is not installed.
    fn new() -> Option<Self> {
        let postgres = shared()?;
        Some(Self { postgres, url: postgres.database() })
    }

    fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap()
    }

    /// Starts to take the database over.
    async fn take(&self) -> JoinHandle<Owner> {
        self.take_as(&anchor(&[1])).await
    }

    /// Starts to take the database over, as a server of this installation. Panics if the database
    /// belongs to another one.
    async fn take_as(&self, anchor: &Anchor) -> JoinHandle<Owner> {
        let replica = Replica::new().unwrap();
        let server = Server::new(&self.url, None, None).unwrap().named(&replica.name());
        let [own, catalogue] = SCHEMAS;
        let unguarded = Database::connect(server, &[own, catalogue, SCHEMA], 2).await.unwrap();
        let anchor = anchor.clone();
        tokio::spawn(async move {
            let candidate = Candidate { replica, url: URL, anchor: &anchor, database: &unguarded };
            let (ownership, database) = candidate.take(&Clock::system()).await.unwrap();
            Owner { ownership, database, unguarded }
        })
    }

    /// Takes the database over, which nobody owns.
    async fn taken(&self) -> Owner {
        ended(self.take().await).await
    }

    /// Lets connections to the database fail, or succeed again.
    fn admit(&self, admit: bool) {
        let name = self.name();
        self.postgres.sql("postgres", &format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {admit}"));
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
        self.postgres.sql("postgres", &end);
    }
}

impl Owner {
    fn keep(&self) -> JoinHandle<()> {
        tokio::spawn(keep(self.ownership.clone(), self.unguarded.clone()))
    }

    fn store(&self) -> Store {
        Store::owned(self.database.clone(), self.ownership.clone())
    }

    fn owned(&self) -> &Owned {
        self.ownership.0.as_ref().unwrap()
    }
}

impl Ownership {
    /// Makes it uncertain whether this server still is the owner.
    pub(crate) fn expire(&self) {
        self.0.as_ref().unwrap().certain_until_micros.store(0, Relaxed);
    }
}

async fn ended<T>(task: JoinHandle<T>) -> T {
    timeout(STEP_TIMEOUT, task).await.expect("in time").unwrap()
}

/// Repeats a call whose connection was lost until it fails for another reason.
async fn refusal(mut call: impl AsyncFnMut() -> Result<(), Error>) -> Error {
    loop {
        match call().await {
            Err(Error::Failed(_)) => sleep(Duration::from_millis(10)).await,
            other => return other.expect_err("refused"),
        }
    }
}

#[tokio::test]
async fn a_server_waits_until_the_owner_leaves() {
    let Some(shared) = Shared::new() else { return };
    let first = shared.taken().await;
    let beats = first.keep();
    let second = shared.take().await;
    // Longer than a silent owner keeps the database.
    sleep(SILENCE + Duration::from_secs(1)).await;
    assert!(!second.is_finished() && first.ownership.is_certain());
    first.store().apply(Survival::Crash, &[job("a", 1, 1)]).await.expect("the owner writes");
    release(&first.ownership, &first.database).await;
    let second = ended(second).await;
    assert_eq!((first.owned().epoch, second.owned().epoch), (1, 2));
    assert_eq!(second.owned().seq.load(Relaxed), 1);
    ended(beats).await;
    timeout(STEP_TIMEOUT, first.ownership.lost()).await.expect("the first learns that it is no owner any more");
    let found = second.store().job("a", JobId(1), false).await.unwrap();
    assert!(found.is_some(), "the second server sees what the first has committed");
}

/// Clients would refuse the results of a server of another installation.
#[tokio::test]
async fn a_server_of_another_installation_does_not_take_the_database_over() {
    let Some(shared) = Shared::new() else { return };
    let first = shared.taken().await;
    let other = timeout(STEP_TIMEOUT, shared.take_as(&anchor(&[2])).await).await.expect("in time");
    let message = other.map(drop).unwrap_err().into_panic().downcast::<String>().unwrap();
    assert!(message.contains("OtherInstallation"), "{message}");
    release(&first.ownership, &first.database).await;
    // The operator announces the next key, and rotates then.
    for keys in [&[1, 3][..], &[3, 1], &[3]] {
        let owner = ended(shared.take_as(&anchor(keys)).await).await;
        let recorded = shared.postgres.sql(shared.name(), "SELECT anchor FROM installation");
        assert_eq!(recorded, anchor(keys).to_string());
        release(&owner.ownership, &owner.database).await;
    }
    let other = timeout(STEP_TIMEOUT, shared.take_as(&anchor(&[1])).await).await.expect("in time");
    assert!(other.is_err(), "its key is not in the anchor any more");
    record_anchor(&first.unguarded, &anchor(&[1])).await.unwrap();
    ended(shared.take_as(&anchor(&[1])).await).await;
}

/// The first server is suspended: it neither beats nor ends its transaction, and continues later.
#[tokio::test]
async fn a_silent_owner_is_replaced_and_changes_nothing_any_more() {
    let Some(shared) = Shared::new() else { return };
    let first = shared.taken().await;
    let begun = Instant::now();
    let held = first.database.write(Asker::Server, Rows::All).await.unwrap();
    let second = ended(shared.take().await).await;
    let took = begun.elapsed();
    assert!(took < SILENCE + Duration::from_secs(5), "{took:?}");
    assert!(!first.ownership.is_certain() && second.ownership.is_certain());
    assert!(held.commit().await.is_err(), "its connection was ended");
    let store = first.store();
    assert_eq!(refusal(async || store.apply(Survival::Crash, &[job("a", 1, 1)]).await).await, Error::Fenced);
    let of_tenant = |batch: &mut Batch| _ = batch.push("DELETE FROM tenants");
    for rows in [Rows::Tenant("a"), Rows::All] {
        let apply = || first.database.apply(Asker::Server, rows, Survival::Crash, of_tenant);
        assert_eq!(refusal(async || apply().await).await, Error::Fenced, "{rows:?}");
        assert_eq!(refusal(async || first.database.write(Asker::Server, rows).await.map(drop)).await, Error::Fenced);
    }
    assert_eq!(refusal(async || store.settle().await).await, Error::Fenced);
    timeout(STEP_TIMEOUT, first.ownership.lost()).await.expect("known");
    ended(first.keep()).await;
    second.store().apply(Survival::Crash, &[job("a", 1, 1)]).await.expect("the new owner writes");
}

/// PostgreSQL may lose the last commits that did not wait for the disk.
#[tokio::test]
async fn an_owner_finds_out_that_the_database_lost_batches() {
    let Some(shared) = Shared::new() else { return };
    let owner = shared.taken().await;
    let store = owner.store();
    for number in 1..=3 {
        store.apply(Survival::Crash, &[job("a", number, 1)]).await.unwrap();
    }
    shared.postgres.sql(shared.name(), "UPDATE shards SET seq = seq - 1");
    let end = Write::Closed(JobId(1), LatencyRecord::default());
    assert_eq!(store.apply(Survival::Crash, std::slice::from_ref(&end)).await, Err(Error::Fenced));
    store.settle().await.expect("it is still the owner");
    store.apply(Survival::Crash, &[end, Write::Submitted(new_job("a", 4))]).await.expect("it knows the number again");
    assert_eq!(owner.owned().seq.load(Relaxed), 3);
}

/// The owner publishes nothing early while another server could own the database, and continues
/// once it reaches the database again.
#[tokio::test]
async fn an_owner_without_its_database_is_not_certain_and_stays_the_owner() {
    let Some(shared) = Shared::new() else { return };
    let owner = shared.taken().await;
    let _beats = owner.keep();
    let waiting = shared.take().await;
    shared.admit(false);
    let begun = Instant::now();
    while owner.ownership.is_certain() {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(begun.elapsed() <= CERTAIN + Duration::from_secs(1), "{:?}", begun.elapsed());
    sleep(SILENCE).await;
    shared.admit(true);
    timeout(STEP_TIMEOUT, async {
        while !owner.ownership.is_certain() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it beats again");
    assert!(!waiting.is_finished());
    owner.store().settle().await.expect("it is still the owner");
}

/// Each shard has its own tenants, epochs and numbers of batches.
#[tokio::test]
async fn servers_own_a_shard_each_and_see_only_its_jobs() {
    let Some(shared) = Shared::new() else { return };
    let first = shared.taken().await;
    let beats = first.keep();
    shards::grow(&first.unguarded, 2).await.unwrap().unwrap();
    assert!(shards::grow(&first.unguarded, 1).await.unwrap().is_err(), "their number cannot fall");
    let second = shared.taken().await;
    assert_eq!((first.ownership.shard(), second.ownership.shard()), (0, 1));
    let waiting = shared.take().await;
    let place = "INSERT INTO tenant_shards (tenant, shard, moved_micros) VALUES ('b', 1, 0)";
    shared.postgres.sql(shared.name(), place);
    first.store().apply(Survival::Crash, &[job("a", 1, 1)]).await.unwrap();
    second.store().apply(Survival::Crash, &[job("b", 2, 1), job("b", 3, 1)]).await.unwrap();
    let live = async |owner: &Owner| {
        let jobs = owner.store().live_jobs().await.unwrap();
        jobs.iter().map(|job| job.meta.id.0).collect::<Vec<_>>()
    };
    assert_eq!((live(&first).await, live(&second).await), (vec![1], vec![2, 3]));
    // A long transaction on one shard does not delay the other one.
    let held = first.database.write(Asker::Server, Rows::All).await.unwrap();
    let close = Write::Closed(JobId(2), LatencyRecord::default());
    timeout(Duration::from_secs(1), second.store().apply(Survival::Crash, &[close])).await.expect("at once").unwrap();
    drop(held);
    release(&second.ownership, &second.database).await;
    let third = ended(waiting).await;
    assert_eq!((third.ownership.shard(), third.owned().epoch, third.owned().seq.load(Relaxed)), (1, 2, 2));
    assert!(!beats.is_finished() && first.ownership.is_certain(), "the other owner goes on");
    let listed = shards::list(&first.unguarded).await.unwrap();
    let owners: Vec<_> = listed.iter().map(|shard| (shard.shard, shard.owner.as_deref())).collect();
    assert_eq!(owners, [(0, Some(URL)), (1, Some(URL))]);
    beats.abort();
}

/// The clock of the database was set back after the last beat of an owner.
#[tokio::test]
async fn an_owner_whose_beat_lies_in_the_future_is_silent() {
    let Some(shared) = Shared::new() else { return };
    for beat in ["beat_micros + 3600000000", "9223372036854775807"] {
        let owner = shared.taken().await;
        let waiting = shared.take().await;
        shared.postgres.sql(shared.name(), &format!("UPDATE replicas SET beat_micros = {beat}"));
        assert_eq!(ended(waiting).await.owned().epoch, owner.owned().epoch + 1);
    }
}

/// A server may find out only later whether the commit of a move succeeded.
#[tokio::test]
async fn the_database_says_whether_a_tenant_has_left_its_shard() {
    let Some(shared) = Shared::new() else { return };
    let first = shared.taken().await;
    let beats = first.keep();
    shards::grow(&first.unguarded, 2).await.unwrap().unwrap();
    let second = shared.taken().await;
    let tenant = Tenant::new("a").unwrap();
    assert_eq!(shards::departure(&first.database, "a").await.unwrap(), None);
    shards::want(&first.unguarded, &tenant, 1).await.unwrap();
    assert_eq!(shards::departure(&first.database, "a").await.unwrap(), None, "it is only wanted");
    let moved = shards::hand_over(&first.database, "a", 1).await.unwrap();
    assert!(moved.is_some_and(|moved| moved.shard == 1));
    assert_eq!(shards::departure(&first.database, "a").await.unwrap(), moved);
    assert_eq!(shards::departure(&second.database, "a").await.unwrap(), None, "it is here");
    shared.admit(false);
    let database = first.database.clone();
    let outcome = tokio::spawn(async move { moving::outcome(&database, "a").await });
    sleep(Duration::from_millis(1500)).await;
    assert!(!outcome.is_finished(), "nobody knows while the database is away");
    shared.admit(true);
    assert_eq!(timeout(STEP_TIMEOUT, outcome).await.expect("it asks again").unwrap(), moved);
    beats.abort();
}

#[tokio::test]
async fn a_shard_publishes_the_loads_of_all_its_pools() {
    let Some(shared) = Shared::new() else { return };
    let owner = shared.taken().await;
    let load = |pool: &str, workers| {
        let load = Load { workers, backlog_millis: 7, term_millis: 9 };
        PoolLoad { pool: pool.to_owned(), shard: 0, load }
    };
    for loads in [vec![load("cpu", 2)], vec![load("cpu", 2), load("gpu", 1)], vec![load("gpu", 3)]] {
        shards::publish(&owner.database, &loads).await.unwrap();
        let mut reader = owner.unguarded.read(Asker::Server).await.unwrap();
        let rows = reader.query("SELECT pool, workers FROM shard_pools ORDER BY pool").all().await.unwrap();
        let rows = rows.iter().map(|row| (row.text("pool").unwrap(), row.small("workers").unwrap()));
        assert!(rows.eq(loads.iter().map(|load| (load.pool.as_str(), load.load.workers))), "{loads:?}");
    }
}

/// A shard that no server can open has the most owners. The others must not wait for it.
#[tokio::test]
async fn the_shard_with_the_fewest_owners_gets_one_first() {
    let Some(shared) = Shared::new() else { return };
    let first = shared.taken().await;
    shards::grow(&first.unguarded, 2).await.unwrap().unwrap();
    release(&first.ownership, &first.unguarded).await;
    shared.postgres.sql(shared.name(), "UPDATE shards SET epoch = epoch + 3 WHERE shard = 0");
    assert_eq!(shared.taken().await.ownership.shard(), 1);
    assert_eq!(shared.taken().await.ownership.shard(), 0);
}

/// Otherwise the jobs of another server would expire early or never.
#[tokio::test]
async fn a_server_goes_by_the_clock_of_the_database() {
    let Some(shared) = Shared::new() else { return };
    let owner = shared.taken().await;
    let mut reader = owner.unguarded.read(Asker::Server).await.unwrap();
    let hour_micros = 3_600_000_000;
    for ahead_micros in [hour_micros, -hour_micros] {
        let now_micros = Clock::system().unix_micros();
        let clock = cloakwork_clock::ManualClock::at(now_micros + ahead_micros).clock();
        shards::follow_clock(&clock, &mut reader).await.unwrap();
        let difference = clock.unix_micros() - now_micros;
        assert!((0..10_000_000).contains(&difference), "{difference}");
    }
    let right = Clock::system();
    shards::follow_clock(&right, &mut reader).await.unwrap();
    assert_eq!(right.moved_micros(), 0, "a clock that is right stays as it is");
}

/// A standby that takes over may lack the takeover of this owner. The next server then repeats its
/// epoch, and may come to the same number of batches.
#[tokio::test]
async fn another_owner_of_the_same_epoch_is_noticed() {
    let Some(shared) = Shared::new() else { return };
    let owner = shared.taken().await;
    let store = owner.store();
    store.apply(Survival::Crash, &[job("a", 1, 1)]).await.unwrap();
    shared.postgres.sql(shared.name(), "UPDATE shards SET owner = decode(repeat('77', 16), 'hex')");
    assert_eq!(store.apply(Survival::Crash, &[job("a", 2, 1)]).await, Err(Error::Fenced));
    let write = owner.database.write(Asker::Server, Rows::All).await;
    assert_eq!(write.map(drop), Err(Error::Fenced));
}

/// Otherwise an owner without work would never learn that jobs came back to life.
#[tokio::test]
async fn an_idle_owner_finds_out_that_the_database_lost_batches() {
    let Some(shared) = Shared::new() else { return };
    let owner = shared.taken().await;
    owner.store().apply(Survival::Crash, &[job("a", 1, 1)]).await.unwrap();
    let beats = owner.keep();
    let early = timeout(Duration::from_millis(1500), owner.ownership.fell_behind()).await;
    assert!(early.is_err(), "nothing is lost");
    shared.postgres.sql(shared.name(), "UPDATE shards SET seq = seq - 1");
    timeout(STEP_TIMEOUT, owner.ownership.fell_behind()).await.expect("known");
    beats.abort();
}

/// The answer to the takeover was lost, and the process was suspended before its next look.
#[tokio::test]
async fn a_takeover_without_an_answer_makes_no_server_certain() {
    let Some(shared) = Shared::new() else { return };
    let first = shared.taken().await;
    let replica = first.owned().replica;
    let (anchor, clock) = (anchor(&[1]), Clock::system());
    let candidate = Candidate { replica, url: URL, anchor: &anchor, database: &first.unguarded };
    let (ownership, _) = candidate.take(&clock).await.unwrap();
    assert!(!ownership.is_certain(), "its last beat may be old");
    let beats = tokio::spawn(keep(ownership.clone(), first.unguarded.clone()));
    timeout(STEP_TIMEOUT, async {
        while !ownership.is_certain() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the first beat comes at once");
    beats.abort();
}
