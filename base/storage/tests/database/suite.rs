//! Promises of every database.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cloakwork_storage::{
    Asker, Batch, Database, Error, Rows,
    Survival::{Crash, PowerFailure},
};
use tokio::{
    task::{JoinHandle, yield_now},
    time::timeout,
};

use crate::home::{A, B, Home};

/// Timeout for steps that need almost no time.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn pairs(database: &Database) -> Vec<(String, Option<i64>)> {
    let mut reader = database.read(A).await.expect("the database answers");
    let rows = reader.query("SELECT name, value FROM pairs ORDER BY name").all().await.expect("the database answers");
    rows.iter()
        .map(|row| (row.text("name").expect("text").to_owned(), row.int_or_null("value").expect("an integer")))
        .collect()
}

pub(crate) fn insert(batch: &mut Batch, name: &str, value: Option<i64>) {
    batch.push("INSERT INTO pairs (value, name) VALUES ($2, $1)").bind(name.to_owned()).bind(value);
}

pub(crate) async fn every_statement_gets_its_own_values(home: &Home) {
    let database = home.open().await;
    // More statements than stay prepared, and more values than one statement could number.
    let fill = |batch: &mut Batch| {
        (0..20_000).for_each(|index| insert(batch, &format!("{index:05}"), Some(index).filter(|index| index % 3 > 0)));
        batch.push("DELETE FROM pairs WHERE name = $1").bind("00007");
        batch.push("UPDATE pairs SET value = $1 WHERE name = $2").bind(-1).bind("00008");
    };
    database.apply(A, Rows::All, PowerFailure, fill).await.expect("the database answers");
    let mut expected: Vec<_> =
        (0..20_000).map(|index| (format!("{index:05}"), Some(index).filter(|index| index % 3 > 0))).collect();
    expected[8].1 = Some(-1);
    expected.remove(7);
    assert_eq!(pairs(&database).await, expected);
}

pub(crate) async fn a_batch_that_fails_leaves_nothing_and_the_next_one_works(home: &Home) {
    let database = home.open().await;
    let fill = |batch: &mut Batch| ["a", "b", "a", "c"].into_iter().for_each(|name| insert(batch, name, Some(1)));
    let error = database.apply(A, Rows::All, PowerFailure, fill).await.expect_err("it fails");
    assert!(matches!(error, Error::Exists(_)), "{error}");
    assert_eq!(pairs(&database).await, []);
    database.apply(A, Rows::All, PowerFailure, |batch| insert(batch, "d", None)).await.expect("the database answers");
    assert_eq!(pairs(&database).await, [("d".to_owned(), None)]);
}

pub(crate) async fn a_transaction_that_is_dropped_leaves_nothing(home: &Home) {
    let database = home.open().await;
    let mut write = database.write(A, Rows::All).await.expect("the database answers");
    write.query("INSERT INTO pairs (name) VALUES ('lost')").execute().await.expect("the database answers");
    drop(write);
    let mut write = database.write(A, Rows::All).await.expect("the database answers");
    write.query("INSERT INTO pairs (name) VALUES ('kept')").execute().await.expect("the database answers");
    write.commit().await.expect("the database answers");
    assert_eq!(pairs(&database).await, [("kept".to_owned(), None)]);
}

pub(crate) async fn a_cancelled_batch_is_applied_whole_or_not_at_all(home: &Home) {
    const STATEMENTS: usize = 200;
    let database = home.open().await;
    let mut whole = 0;
    for round in 0..40 {
        let fill = |batch: &mut Batch| {
            (0..STATEMENTS).for_each(|index| insert(batch, &format!("{round} {index}"), None));
        };
        // Each round cancels the batch at a later point.
        let time_limit = Duration::from_micros(100 * round);
        whole += usize::from(timeout(time_limit, database.apply(A, Rows::All, PowerFailure, fill)).await.is_ok());
        let fill = |batch: &mut Batch| insert(batch, &format!("after {round}"), None);
        database.apply(A, Rows::All, PowerFailure, fill).await.expect("the database answers");
    }
    let names: Vec<String> = pairs(&database).await.into_iter().map(|(name, _)| name).collect();
    let mut durable = 0;
    for round in 0..40 {
        let prefix = format!("{round} ");
        let count = names.iter().filter(|name| name.starts_with(&prefix)).count();
        assert!(count == 0 || count == STATEMENTS, "{count} of {STATEMENTS} statements of round {round}");
        durable += usize::from(count == STATEMENTS);
    }
    // A cancelled batch may have become durable. A batch that was reported must be durable.
    assert!(durable >= whole, "{durable} durable, {whole} reported");
    assert_eq!(names.iter().filter(|name| name.starts_with("after")).count(), 40);
}

pub(crate) async fn reads_and_writes_after_close_fail(home: &Home) {
    let database = home.open().await;
    database.close().await;
    assert_eq!(database.write(A, Rows::All).await.expect_err("closed"), Error::Closed);
    assert_eq!(database.read(A).await.expect_err("closed"), Error::Closed);
    let late = database.apply(A, Rows::All, PowerFailure, |batch| insert(batch, "late", None)).await;
    assert_eq!(late, Err(Error::Closed));
}

/// A transaction that waits in a task. When its turn comes, it notes its name, and ends.
struct Lined {
    database: Database,
    order: Arc<Mutex<Vec<&'static str>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Lined {
    /// Returns after the transaction has entered its line.
    async fn enter(&mut self, name: &'static str, asker: Asker<'static>) {
        let (database, order) = (self.database.clone(), self.order.clone());
        let before = database.waiting_writers();
        self.tasks.push(tokio::spawn(async move {
            let write = database.write(asker, Rows::All).await.expect("a turn");
            order.lock().expect("no panic").push(name);
            write.commit().await.expect("committed");
        }));
        while self.database.waiting_writers() == before {
            yield_now().await;
        }
    }

    /// The names in the order of their turns.
    async fn order(self) -> Vec<&'static str> {
        for task in self.tasks {
            timeout(STEP_TIMEOUT, task).await.expect("a turn in time").expect("no panic");
        }
        let order = self.order.lock().expect("no panic");
        order.clone()
    }
}

/// With one line for all, a tenant with many waiting calls would delay all others by all of them.
pub(crate) async fn tenants_take_turns_to_write_and_the_server_is_next(home: &Home) {
    let database = home.open().await;
    let mut lined = Lined { database: database.clone(), order: Arc::default(), tasks: Vec::new() };
    let first = database.write(A, Rows::All).await.expect("a turn");
    for (name, asker) in [("a 1", A), ("a 2", A), ("a 3", A), ("b 1", B), ("upkeep", Asker::Upkeep)] {
        lined.enter(name, asker).await;
    }
    lined.enter("server", Asker::Server).await;
    // A handle of the server names the tenant for which it works.
    lined.database = database.always_as(Asker::Server);
    lined.enter("server for a", A).await;
    first.commit().await.expect("committed");
    assert_eq!(lined.order().await, ["server", "server for a", "a 1", "b 1", "upkeep", "a 2", "a 3"]);
}

/// A worker's call holds places that all tenants share, so its tenant must not delay it.
pub(crate) async fn calls_of_workers_do_not_wait_behind_the_calls_of_their_tenant(home: &Home) {
    let database = home.open().await;
    let mut lined = Lined { database: database.clone(), order: Arc::default(), tasks: Vec::new() };
    let first = database.write(A, Rows::All).await.expect("a turn");
    for name in ["a 1", "a 2", "a 3"] {
        lined.enter(name, A).await;
    }
    lined.database = database.for_workers();
    for (name, asker) in [("work for a 1", A), ("work for a 2", A), ("work for b", B), ("upkeep", Asker::Upkeep)] {
        lined.enter(name, asker).await;
    }
    first.commit().await.expect("committed");
    let order = ["a 1", "work for a 1", "work for b", "upkeep", "a 2", "work for a 2", "a 3"];
    assert_eq!(lined.order().await, order);
    // The readers have the same line. The tenant may hold one of the two.
    let held = database.read(A).await.expect("a reader");
    let waiting = database.read(A);
    let mut waiting = std::pin::pin!(waiting);
    let work = database.for_workers();
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("a tenant may not hold the last reader"),
        work = timeout(STEP_TIMEOUT, work.read(A)) => drop(work.expect("one is left").expect("a reader")),
    }
    drop(held);
    timeout(STEP_TIMEOUT, waiting).await.expect("a turn in time").expect("a reader");
}

/// The holder of the turn goes away in the middle of its transaction.
pub(crate) async fn a_turn_that_is_dropped_admits_the_next_tenant(home: &Home) {
    let database = home.open().await;
    let mut lined = Lined { database: database.clone(), order: Arc::default(), tasks: Vec::new() };
    let mut first = database.write(A, Rows::All).await.expect("a turn");
    first.query("INSERT INTO pairs (name) VALUES ('lost')").execute().await.expect("a row");
    for (name, asker) in [("a", A), ("cancelled", A), ("b", B)] {
        lined.enter(name, asker).await;
    }
    lined.tasks.remove(1).abort();
    drop(first);
    assert_eq!(lined.order().await, ["a", "b"]);
    assert_eq!(pairs(&database).await, []);
}

/// Queries of one tenant must delay neither the queries of others nor the server's own.
pub(crate) async fn a_tenant_leaves_readers_to_others_and_to_the_server(home: &Home) {
    let database = home.open().await;
    let held = database.read(A).await.expect("a reader");
    let waiting: Vec<JoinHandle<()>> = (0..100)
        .map(|_| {
            let database = database.clone();
            tokio::spawn(async move { drop(database.read(A).await.expect("a reader")) })
        })
        .collect();
    yield_now().await;
    let other = timeout(STEP_TIMEOUT, database.read(B)).await.expect("one is left").expect("a reader");
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "a tenant may not hold the last reader");
    // All readers of tenants are in use. Those of the server are not.
    let server = database.always_as(Asker::Server);
    let own = [server.read(A).await.expect("the first"), database.read(Asker::Server).await.expect("the second")];
    let third = timeout(Duration::from_millis(50), database.read(Asker::Server)).await;
    assert!(third.is_err(), "the server has two");
    drop((held, other, own));
    for waiting in waiting {
        timeout(STEP_TIMEOUT, waiting).await.expect("a turn in time").expect("no panic");
    }
}

/// A reader that is dropped goes back, also in the middle of a query.
pub(crate) async fn readers_are_limited_and_come_back(home: &Home) {
    let database = home.open().await;
    let fill = |batch: &mut Batch| (0..1000).for_each(|index| insert(batch, &format!("{index}"), Some(index)));
    database.apply(A, Rows::All, Crash, fill).await.expect("the database answers");
    for round in 0..200 {
        let mut reader = database.read(A).await.expect("a reader");
        let query = reader.query("SELECT a.name FROM pairs a, pairs b").all();
        let broken_off = timeout(Duration::from_micros(50 * round), query).await;
        assert!(broken_off.is_err(), "a million rows take longer");
    }
    let held = [database.read(A).await.expect("the first"), database.read(B).await.expect("the second")];
    let third = timeout(Duration::from_millis(50), database.read(Asker::Upkeep)).await;
    assert!(third.is_err(), "there are two");
    drop(held);
    assert_eq!(pairs(&database).await.len(), 1000);
}

/// A version counts the writes through its own handle, and is unknown while one of them runs.
pub(crate) async fn a_version_changes_with_each_write_through_its_handle(home: &Home) {
    let database = home.open().await;
    let other = database.versioned();
    let before = (database.version().expect("no write"), other.version().expect("no write"));
    let write = database.write(A, Rows::All).await.expect("a turn");
    assert_eq!((database.version(), other.version()), (None, Some(before.1)));
    write.commit().await.expect("committed");
    let after = database.version().expect("no write");
    assert!(after > before.0);
    other.apply(A, Rows::All, Crash, |batch| insert(batch, "a", None)).await.expect("the database answers");
    assert_eq!(database.version(), Some(after));
    assert!(other.version().expect("no write") > before.1);
    drop(database.write(A, Rows::All).await.expect("a turn"));
    // The next turn begins after the rollback of the last.
    drop(other.write(A, Rows::All).await.expect("a turn"));
    assert!(database.version().expect("no write") > after);
}

/// A value that a transaction holds goes with the end of the transaction, also if the caller is
/// cancelled at any point of the commit.
pub(crate) async fn a_held_value_lives_until_the_transaction_has_ended(home: &Home) {
    let database = home.open().await;
    for round in 0..40 {
        let held = std::sync::Arc::new(());
        let mut write = database.write(A, Rows::All).await.expect("a turn");
        let name = format!("{round}");
        write.query("INSERT INTO pairs (name) VALUES ($1)").bind(&*name).execute().await.expect("a row");
        write.hold(held.clone());
        // Each round cancels the commit at a later point.
        let committed = timeout(Duration::from_micros(20 * round), write.commit()).await.is_ok();
        while std::sync::Arc::strong_count(&held) > 1 {
            assert!(!committed, "a commit that was reported has ended");
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        let before = pairs(&database).await.iter().any(|(found, _)| *found == name);
        drop(database.write(A, Rows::All).await.expect("a turn"));
        let after = pairs(&database).await.iter().any(|(found, _)| *found == name);
        assert_eq!(before, after, "the transaction of round {round} had not ended");
        assert!(after || !committed);
    }
}

/// Rows of values that are added to one statement are stored as if each had its own.
pub(crate) async fn a_statement_runs_for_each_row_of_values(home: &Home) {
    let database = home.open().await;
    let fill = |batch: &mut Batch| {
        let mut rows = batch.each("INSERT INTO pairs (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        for index in 0..1000 {
            rows.row().bind(format!("{index:03}")).bind(Some(index).filter(|index| index % 3 > 0));
        }
        drop(rows);
        drop(batch.each("DELETE FROM pairs WHERE name = $1"));
        let mut rows = batch.each("UPDATE pairs SET value = CASE WHEN $2 = 1 THEN NULL ELSE value END WHERE name = $1");
        for index in 0..100 {
            rows.row().bind(format!("{index:03}")).bind(index % 2 == 0);
        }
        drop(rows);
        let mut rows = batch.each("DELETE FROM pairs WHERE name = $1 AND value = $2");
        for index in 0..10 {
            rows.row().bind(format!("{index:03}")).bind(if index == 9 { 0 } else { index });
        }
        drop(rows);
        let mut rows = batch.each(
            "INSERT INTO pairs (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        );
        rows.row().bind("500").bind(-5);
        rows.row().bind("new").bind(None::<i64>);
    };
    database.apply(A, Rows::All, PowerFailure, fill).await.expect("the database answers");
    let value = |index: i64| match index {
        500 => Some(-5),
        0..100 if index % 2 == 0 => None,
        _ => Some(index).filter(|index| index % 3 > 0),
    };
    // Values of 1, 5 and 7 are odd, and no multiples of 3.
    let kept = (0..1000).filter(|index| ![1, 5, 7].contains(index));
    let mut expected: Vec<_> = kept.map(|index| (format!("{index:03}"), value(index))).collect();
    expected.push(("new".to_owned(), None));
    assert_eq!(pairs(&database).await, expected);
}

/// A connection works on after a query that finds any number of rows.
pub(crate) async fn the_first_of_any_number_of_rows_is_found(home: &Home) {
    let database = home.open().await;
    let fill = |batch: &mut Batch| (0..3).for_each(|index| insert(batch, &format!("{index}"), Some(index)));
    database.apply(A, Rows::All, Crash, fill).await.expect("the database answers");
    let mut reader = database.read(A).await.expect("a reader");
    for (below, expected) in [(0, None), (1, Some(0)), (3, Some(0)), (0, None)] {
        let query = reader.query("SELECT value FROM pairs WHERE value < $1 ORDER BY value").bind(below);
        let row = query.optional().await.expect("an answer");
        assert_eq!(row.map(|row| row.int("value").expect("an integer")), expected);
    }
}

/// Text of callers may hold any character.
pub(crate) async fn text_with_any_character_is_stored(home: &Home) {
    let database = home.open().await;
    let text = "zero \0, quote ' and \u{1f512}";
    let fill = |batch: &mut Batch| insert(batch, text, Some(1));
    database.apply(A, Rows::All, PowerFailure, fill).await.expect("the database answers");
    let stored = pairs(&database).await.remove(0).0;
    // PostgreSQL stores no NUL.
    assert_eq!(stored.replace('\u{fffd}', "\0"), text);
}

pub(crate) async fn a_value_of_another_type_or_size_is_an_error(home: &Home) {
    let database = home.open().await;
    let mut reader = database.read(A).await.expect("a reader");
    let row = reader.query(home.values()).one().await.expect("a row");
    assert_eq!((row.text("text"), row.int("large"), row.bytes("bytes")), (Ok("text"), Ok(70_000), Ok(&[1, 2][..])));
    assert_eq!((row.array("bytes"), row.array_or_null::<2>("no_bytes")), (Ok([1, 2]), Ok(None)));
    assert_eq!((row.text_or_null("no_text"), row.int_or_null("no_int")), (Ok(None), Ok(None)));
    for error in [
        row.int("text").expect_err("text"),
        row.text("no_text").map(str::len).expect_err("none"),
        row.int("no_int").expect_err("none"),
        row.small::<u16>("large").expect_err("too large"),
        row.unsigned("negative").expect_err("negative"),
        row.array::<3>("bytes").expect_err("two bytes"),
    ] {
        assert!(matches!(error, Error::Damaged(_)), "{error:?}");
    }
    assert!(matches!(row.int("missing"), Err(Error::Failed(_))));
    assert!(reader.query("SELECT 1 AS one WHERE 1 = 0").one().await.is_err());
}
