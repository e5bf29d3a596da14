//! Promises of SQLite alone.

use std::time::Duration;

use cloakwork_storage::{
    Asker, Batch, Error, Rows,
    Survival::{Crash, PowerFailure},
};
use tokio::time::timeout;

use crate::{
    home::{A, B, Home},
    suite::pairs,
};

/// In write-ahead mode, a commit at level 2 waits for the disk, and a commit at level 1 does not.
#[tokio::test]
async fn only_commits_that_survive_a_power_failure_wait_for_the_disk() {
    let home = Home::sqlite();
    let database = home.open().await;
    let level = "INSERT INTO pairs (name, value) SELECT $1, synchronous FROM pragma_synchronous";
    let mut expected = Vec::new();
    for (index, survival) in [Crash, PowerFailure, PowerFailure, Crash].into_iter().enumerate() {
        let name = format!("{index}");
        let fill = |batch: &mut Batch| _ = batch.push(level).bind(name.clone());
        database.apply(A, Rows::All, survival, fill).await.expect("the database answers");
        expected.push((name, Some(if survival == PowerFailure { 2 } else { 1 })));
    }
    // A transaction always waits for the disk.
    let mut write = database.write(A, Rows::All).await.expect("the database answers");
    write.query(level).bind("own").execute().await.expect("the database answers");
    write.commit().await.expect("the database answers");
    expected.push(("own".to_owned(), Some(2)));
    assert_eq!(pairs(&database).await, expected);
}

/// Without this limit, a caller would wait until a holder gives its reader back.
#[tokio::test]
async fn a_wait_for_a_reader_ends_after_half_a_minute() {
    let home = Home::sqlite();
    let database = home.open().await;
    let held = [database.read(A).await.expect("the first"), database.read(B).await.expect("the second")];
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let third = timeout(Duration::from_secs(3600), database.read(Asker::Upkeep)).await.expect("the wait ends");
    assert_eq!(third.expect_err("there are two"), Error::Busy);
    assert_eq!(begun.elapsed().as_secs(), 30);
    drop(held);
    database.read(A).await.expect("a reader is free again");
}
