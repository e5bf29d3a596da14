//! The single writer: batches are applied whole or not at all, and a cancelled writer leaves
//! nothing behind.

use std::time::Duration;

use cloakwork_keystore::database::{
    Batch, Database,
    Survival::{Crash, PowerFailure},
};
use sqlx::migrate::Migrator;

async fn open(directory: &tempfile::TempDir) -> Database {
    let database =
        Database::open(&directory.path().join("test.db"), &Migrator::DEFAULT, 2).await.expect("the database answers");
    let table = "CREATE TABLE pairs (name TEXT NOT NULL PRIMARY KEY, value BIGINT)";
    database
        .apply(PowerFailure, |batch| {
            batch.push(table);
        })
        .await
        .expect("the database answers");
    database
}

async fn pairs(database: &Database) -> Vec<(String, Option<i64>)> {
    sqlx::query_as("SELECT name, value FROM pairs ORDER BY name")
        .fetch_all(database.readers())
        .await
        .expect("the database answers")
}

fn insert(batch: &mut Batch, name: &str, value: Option<i64>) {
    batch.push("INSERT INTO pairs (value, name) VALUES ($2, $1)").bind(name.to_owned()).bind(value);
}

#[tokio::test]
async fn every_statement_gets_its_own_values() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(&directory).await;
    // More statements than stay prepared, and more values than one statement could number.
    let fill = |batch: &mut Batch| {
        (0..20_000).for_each(|index| insert(batch, &format!("{index:05}"), Some(index).filter(|index| index % 3 > 0)));
        batch.push("DELETE FROM pairs WHERE name = $1").bind("00007");
        batch.push("UPDATE pairs SET value = $1 WHERE name = $2").bind(-1).bind("00008");
    };
    database.apply(PowerFailure, fill).await.expect("the database answers");
    let mut expected: Vec<_> =
        (0..20_000).map(|index| (format!("{index:05}"), Some(index).filter(|index| index % 3 > 0))).collect();
    expected[8].1 = Some(-1);
    expected.remove(7);
    assert_eq!(pairs(&database).await, expected);
}

#[tokio::test]
async fn a_batch_that_fails_leaves_nothing_and_the_next_one_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(&directory).await;
    let fill = |batch: &mut Batch| ["a", "b", "a", "c"].into_iter().for_each(|name| insert(batch, name, Some(1)));
    let error = database.apply(PowerFailure, fill).await.expect_err("it fails");
    assert!(error.as_database_error().is_some_and(|error| error.is_unique_violation()), "{error}");
    assert_eq!(pairs(&database).await, []);
    database.apply(PowerFailure, |batch| insert(batch, "d", None)).await.expect("the database answers");
    assert_eq!(pairs(&database).await, [("d".to_owned(), None)]);
}

#[tokio::test]
async fn a_transaction_that_is_dropped_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(&directory).await;
    let mut write = database.write().await.expect("the database answers");
    sqlx::query("INSERT INTO pairs (name) VALUES ('lost')").execute(&mut *write).await.expect("the database answers");
    drop(write);
    let mut write = database.write().await.expect("the database answers");
    sqlx::query("INSERT INTO pairs (name) VALUES ('kept')").execute(&mut *write).await.expect("the database answers");
    write.commit().await.expect("the database answers");
    assert_eq!(pairs(&database).await, [("kept".to_owned(), None)]);
}

#[tokio::test]
async fn a_cancelled_batch_is_applied_whole_or_not_at_all() {
    const STATEMENTS: usize = 200;
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(&directory).await;
    let mut whole = 0;
    for round in 0..40 {
        let fill = |batch: &mut Batch| {
            (0..STATEMENTS).for_each(|index| insert(batch, &format!("{round} {index}"), None));
        };
        // Each round cancels the batch at a later point.
        let patience = Duration::from_micros(100 * round);
        whole += usize::from(tokio::time::timeout(patience, database.apply(PowerFailure, fill)).await.is_ok());
        let fill = |batch: &mut Batch| insert(batch, &format!("after {round}"), None);
        database.apply(PowerFailure, fill).await.expect("the database answers");
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

#[tokio::test]
async fn writes_after_close_fail() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(&directory).await;
    database.close().await;
    assert!(database.write().await.is_err());
    assert!(database.apply(PowerFailure, |batch| insert(batch, "late", None)).await.is_err());
}

/// In write-ahead mode, a commit at level 2 waits for the disk, and a commit at level 1 does not.
#[tokio::test]
async fn only_commits_that_survive_a_power_failure_wait_for_the_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(&directory).await;
    let level = "INSERT INTO pairs (name, value) SELECT $1, synchronous FROM pragma_synchronous";
    let mut expected = Vec::new();
    for (index, survival) in [Crash, PowerFailure, PowerFailure, Crash].into_iter().enumerate() {
        let name = format!("{index}");
        let fill = |batch: &mut Batch| _ = batch.push(level).bind(name.clone());
        database.apply(survival, fill).await.expect("the database answers");
        expected.push((name, Some(if survival == PowerFailure { 2 } else { 1 })));
    }
    // A transaction always waits for the disk.
    let mut write = database.write().await.expect("the database answers");
    sqlx::query(level).bind("own").execute(&mut *write).await.expect("the database answers");
    write.commit().await.expect("the database answers");
    expected.push(("own".to_owned(), Some(2)));
    assert_eq!(pairs(&database).await, expected);
}
