use std::sync::atomic::Ordering::Relaxed;

use cloakwork_attestation::{Anchor, PublicKey};
use cloakwork_clock::Clock;
use cloakwork_proto::v1::LatencyRecord;
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Rows, Server, Survival};
use cloakwork_tests_postgres::{Postgres, shared};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    database::SCHEMAS,
    store::{
        Store, Write,
        tests::{job, new_job},
    },
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
        self.take_as(&anchor(&[1]), |_| ()).await
    }

    /// Starts to take the database over, as a server of this installation. Panics if the database
    /// belongs to another one.
    async fn take_as(&self, anchor: &Anchor, found: impl FnMut(&str) + Send + 'static) -> JoinHandle<Owner> {
        let replica = Replica::new().unwrap();
        let server = Server::new(&self.url, None, None).unwrap().named(&replica.name());
        let [own, catalogue] = SCHEMAS;
        let unguarded = Database::connect(server, &[own, catalogue, SCHEMA], 2).await.unwrap();
        let anchor = anchor.clone();
        tokio::spawn(async move {
            let candidate = Candidate { replica, url: URL, anchor: &anchor, database: &unguarded };
            let (ownership, database) = candidate.take(&Clock::system(), found).await.unwrap();
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
    let (urls, mut found) = mpsc::unbounded_channel();
    let second = shared.take_as(&anchor(&[1]), move |url| _ = urls.send(url.to_owned())).await;
    assert_eq!(timeout(STEP_TIMEOUT, found.recv()).await.expect("in time").as_deref(), Some(URL));
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
    let other = timeout(STEP_TIMEOUT, shared.take_as(&anchor(&[2]), |_| ()).await).await.expect("in time");
    let message = other.map(drop).unwrap_err().into_panic().downcast::<String>().unwrap();
    assert!(message.contains("OtherInstallation"), "{message}");
    release(&first.ownership, &first.database).await;
    // The operator announces the next key, and rotates then.
    for keys in [&[1, 3][..], &[3, 1], &[3]] {
        let owner = ended(shared.take_as(&anchor(keys), |_| ()).await).await;
        let recorded = shared.postgres.sql(shared.name(), "SELECT anchor FROM installation");
        assert_eq!(recorded, anchor(keys).to_string());
        release(&owner.ownership, &owner.database).await;
    }
    let other = timeout(STEP_TIMEOUT, shared.take_as(&anchor(&[1]), |_| ()).await).await.expect("in time");
    assert!(other.is_err(), "its key is not in the anchor any more");
    record_anchor(&first.unguarded, &anchor(&[1])).await.unwrap();
    ended(shared.take_as(&anchor(&[1]), |_| ()).await).await;
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
