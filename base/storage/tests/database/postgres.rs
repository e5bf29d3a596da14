//! Promises of PostgreSQL alone.

use std::time::Duration;

use cloakwork_storage::{
    Asker, Batch, Database, Error, Migration, OpenError, Rows, Schema, Server, ServerError,
    Survival::{Crash, PowerFailure},
};
use cloakwork_tests_postgres::{Postgres, shared};
use tokio::time::timeout;

use crate::{
    home::{A, B, Home, SCHEMA, server},
    suite::{insert, pairs},
};

/// Timeout for steps that need almost no time.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn a_url_that_cannot_be_used_is_refused_with_the_reason() {
    let refused = |url: &str| Server::new(url, None, None).map(drop).expect_err("refused");
    assert!(matches!(refused("postgres://user:secret@host/name"), ServerError::Password));
    for url in ["", "host=localhost", "mysql://host/name", "postgres://host:port/name", "postgres://host/?nonsense=1"] {
        let error = refused(url);
        assert!(matches!(error, ServerError::Url(_)), "{url}: {error}");
    }
    let missing = Server::new("postgres://host/name", None, Some("/missing".into())).map(drop).expect_err("refused");
    assert!(matches!(missing, ServerError::File { .. }), "{missing}");
    let shown = format!("{:?}", Server::new("postgres://user@localhost/name", None, None).expect("a URL"));
    assert!(!shown.contains("user"), "{shown}");
}

/// PostgreSQL refuses a prepared statement whose columns have changed, each time that it runs.
#[tokio::test]
async fn a_new_column_fails_one_call_of_a_connection_at_most() {
    let Some(postgres) = shared() else { return };
    let url = postgres.database();
    let step = |version, postgres| Migration { version, name: "step", sqlite: "", postgres, compatible_from: 1 };
    let steps = [
        step(1, Some("CREATE TABLE a (b BIGINT); INSERT INTO a VALUES (7)")),
        step(2, Some("ALTER TABLE a ADD COLUMN c BIGINT NOT NULL DEFAULT 0")),
    ];
    let newer = Schema { ledger: "_steps", migrations: Box::leak(Box::new(steps)) };
    let older = Database::connect(server(&url), &[newer.at(1)], 1).await.expect("it opens");
    let find = async || -> Result<i64, Error> {
        older.read(Asker::Server).await?.query("SELECT * FROM a").one().await?.int("b")
    };
    assert_eq!(find().await.expect("a row"), 7);
    Database::connect(server(&url), &[newer], 1).await.expect("the tables are upgraded").close().await;
    let _ = find().await;
    assert_eq!(find().await.expect("a row over a new connection"), 7);
}

#[tokio::test]
async fn a_later_or_another_schema_is_refused() {
    let Some(postgres) = shared() else { return };
    let url = postgres.database();
    let step = |version, postgres| Migration { version, name: "step", sqlite: "", postgres, compatible_from: 3 };
    let steps = [step(1, None), step(2, Some("CREATE TABLE a (b BIGINT)")), step(3, Some("CREATE TABLE c (d BIGINT)"))];
    let steps: &'static [Migration] = Box::leak(Box::new(steps));
    let schema = Schema { ledger: "_steps", migrations: steps };
    // Two servers that start at the same time take turns.
    let (newer, older) = ([schema], [schema.at(2)]);
    let (one, other) =
        tokio::join!(Database::connect(server(&url), &newer, 1), Database::connect(server(&url), &older, 1));
    one.expect("it opens").close().await;
    if let Ok(other) = other {
        other.close().await;
    }
    Database::connect(server(&url), &[schema], 1).await.expect("it opens again").close().await;
    let error = Database::connect(server(&url), &[schema.at(2)], 1).await.expect_err("a later schema");
    assert!(matches!(error, OpenError::Newer { got: 3, known: 2 }), "{error}");
    let changed = [steps[0], step(2, Some("CREATE TABLE a (b TEXT)")), steps[2]];
    let changed = Schema { migrations: Box::leak(Box::new(changed)), ..schema };
    let error = Database::connect(server(&url), &[changed], 1).await.expect_err("another schema");
    assert!(matches!(error, OpenError::Changed { version: 2 }), "{error}");
    // A migration that fails leaves nothing.
    let failing = [steps[0], steps[1], steps[2], step(4, Some("CREATE TABLE e (f BIGINT); SELECT nonsense"))];
    let failing = Schema { migrations: Box::leak(Box::new(failing)), ..schema };
    Database::connect(server(&url), &[failing], 1).await.expect_err("a failure");
    Database::connect(server(&url), &[schema], 1).await.expect("it opens").close().await;
}

/// While an installation is upgraded, servers of two versions use one database.
#[tokio::test]
async fn a_later_schema_that_earlier_programs_can_use_opens() {
    let Some(postgres) = shared() else { return };
    let url = postgres.database();
    let step = |version, postgres, compatible_from| Migration {
        version,
        name: "step",
        sqlite: "",
        postgres: Some(postgres),
        compatible_from,
    };
    let steps = [
        step(1, "CREATE TABLE a (b BIGINT)", 1),
        step(2, "CREATE TABLE c (d BIGINT)", 1),
        step(3, "ALTER TABLE a RENAME TO e", 3),
        step(4, "CREATE TABLE g (h BIGINT)", 3),
    ];
    let schema = Schema { ledger: "_steps", migrations: Box::leak(Box::new(steps)) };
    let open = async |version| match Database::connect(server(&url), &[schema.at(version)], 1).await {
        Ok(database) => {
            database.close().await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    open(2).await.expect("it opens");
    open(1).await.expect("the second step changes nothing for it");
    open(4).await.expect("it opens");
    for version in [1, 2] {
        let error = open(version).await.expect_err("the third step renames a table");
        assert!(matches!(error, OpenError::Newer { got: 4, .. }), "{error}");
    }
    open(3).await.expect("the fourth step changes nothing for it");
    // A role that may not create tables can open a database that has them all.
    let name = url.rsplit('/').next().expect("a name");
    postgres.sql(
        name,
        &format!("CREATE ROLE user_of_{name} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO user_of_{name}"),
    );
    let as_user = url.replace("postgres@", &format!("user_of_{name}@"));
    Database::connect(server(&as_user), &[schema], 1).await.expect("it opens").close().await;
}

/// A guard decides about each transaction once its locks are held.
#[tokio::test]
async fn a_guard_that_fails_fails_the_transaction() {
    let Some(home) = Home::postgres() else { return };
    let database = home.open().await;
    let raise = "DO $$ BEGIN IF EXISTS (SELECT FROM pairs WHERE name = 'stop') THEN \
                 RAISE EXCEPTION 'stopped' USING ERRCODE = 'CW001'; END IF; END $$";
    let guarded = database.guarded(raise);
    let fill = |name: &'static str| move |batch: &mut Batch| insert(batch, name, None);
    guarded.apply(A, Rows::All, Crash, fill("a")).await.expect("it is not stopped");
    // The guard sees what a transaction commits for which it waited.
    let held = database.write(A, Rows::All).await.expect("a turn");
    let waiting = tokio::spawn({
        let guarded = guarded.clone();
        async move { guarded.apply(A, Rows::Tenant("a"), Crash, fill("b")).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut held = held;
    held.query("INSERT INTO pairs (name) VALUES ('stop')").execute().await.expect("a row");
    held.commit().await.expect("committed");
    assert_eq!(waiting.await.expect("no panic"), Err(Error::Fenced));
    for rows in [Rows::All, Rows::Tenant("a"), Rows::Apart] {
        assert_eq!(guarded.apply(A, rows, PowerFailure, fill("c")).await, Err(Error::Fenced), "{rows:?}");
        assert_eq!(guarded.write(A, rows).await.map(drop), Err(Error::Fenced), "{rows:?}");
    }
    let names: Vec<String> = pairs(&database).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "stop"]);
}

/// PostgreSQL keeps no plan that it made while the table was small. With that plan, each lookup
/// would read all rows of a group.
#[tokio::test]
async fn lookups_in_a_table_that_has_grown_read_few_rows() {
    let Some(postgres) = shared() else { return };
    let url = postgres.database();
    // The rows are so wide that the second index seems to be cheaper while the table is small.
    let table = "CREATE TABLE rows (id BIGINT PRIMARY KEY, team TEXT NOT NULL, request BYTEA NOT NULL,
                     state INTEGER NOT NULL, a BYTEA, b BYTEA, c BYTEA, d TEXT, e TEXT, f BIGINT, g BIGINT, h BIGINT);
                 CREATE UNIQUE INDEX rows_by_request ON rows (team, request);
                 CREATE INDEX rows_by_state ON rows (team, state, id)";
    let step = Migration { version: 1, name: "rows", sqlite: "", postgres: Some(table), compatible_from: 1 };
    let schema = Schema { ledger: "_steps", migrations: Box::leak(Box::new([step])) };
    let database = Database::connect(server(&url), &[schema], 1).await.expect("it opens");
    let look_up = async |times: u32| {
        for number in 0..times {
            let mut reader = database.read(A).await.expect("a reader");
            let request = request_of(number);
            let query = reader.query("SELECT id FROM rows WHERE team = $1 AND request = $2");
            query.bind("team").bind(&request[..]).optional().await.expect("an answer");
        }
    };
    let name = url.rsplit('/').next().expect("a name");
    let sql = |sql: &str| postgres.sql(name, sql);
    sql("ALTER TABLE rows SET (autovacuum_enabled = off)");
    look_up(20).await;
    sql("INSERT INTO rows (id, team, request, state) \
         SELECT number, 'team', decode(md5(number::text), 'hex'), 1 FROM generate_series(1, 20000) AS number");
    look_up(100).await;
    // A connection reports its counts at its end.
    database.close().await;
    let read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'rows'";
    let indexes = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'rows'";
    timeout(STEP_TIMEOUT, async {
        while sql("SELECT idx_scan >= 120 FROM pg_stat_user_tables WHERE relname = 'rows'") != "t" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the lookups are counted");
    for count in [sql(read), sql(indexes)] {
        assert!(count.parse::<u64>().expect("a number") < 1000, "{count} rows read by 120 lookups");
    }
}

/// Some bytes that belong to a number.
fn request_of(number: u32) -> [u8; 16] {
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
}

/// Nothing delays these changes that holds the locks of all rows.
#[tokio::test]
async fn changes_of_rows_apart_wait_for_no_other_transaction() {
    let Some(home) = Home::postgres() else { return };
    let database = home.open().await;
    let held = database.write(A, Rows::All).await.expect("a turn");
    let apart = database.apply(A, Rows::Apart, Crash, |batch| insert(batch, "a", None));
    timeout(STEP_TIMEOUT, apart).await.expect("in time").expect("committed");
    held.commit().await.expect("committed");
    assert_eq!(pairs(&database).await.len(), 1);
}

/// Transactions of two processes exclude each other as those of one process do.
#[tokio::test]
async fn transactions_exclude_those_of_other_processes_whose_rows_overlap() {
    let Some(home) = Home::postgres() else { return };
    let (one, other) = (home.open().await, home.open().await);
    let held = one.write(A, Rows::Tenant("a")).await.expect("a turn");
    // Another tenant's rows are free.
    let free = timeout(STEP_TIMEOUT, other.write(B, Rows::Tenant("b"))).await.expect("in time").expect("a turn");
    free.commit().await.expect("committed");
    for rows in [Rows::Tenant("a"), Rows::All] {
        let mut waiting = Box::pin(other.write(A, rows));
        assert!(timeout(Duration::from_millis(200), waiting.as_mut()).await.is_err(), "{rows:?} are held");
    }
    held.commit().await.expect("committed");
    let all = one.write(A, Rows::All).await.expect("a turn");
    let mut waiting = Box::pin(other.apply(B, Rows::Tenant("b"), Crash, |batch| insert(batch, "b", None)));
    assert!(timeout(Duration::from_millis(200), waiting.as_mut()).await.is_err(), "all rows are held");
    all.commit().await.expect("committed");
    timeout(STEP_TIMEOUT, waiting).await.expect("in time").expect("committed");
    assert_eq!(pairs(&one).await, [("b".to_owned(), None)]);
}

/// A statement that gets no answer in time holds its locks, and later changes would wait for them.
#[tokio::test]
async fn the_server_ends_a_statement_whose_caller_has_given_up() {
    let Some(home) = Home::postgres() else { return };
    let database = home.open().await;
    let mut slow = database.write(A, Rows::All).await.expect("a turn");
    let given_up = slow.query("SELECT CAST(pg_sleep(60) AS TEXT) AS slept").optional().await;
    assert!(matches!(given_up, Err(Error::Failed(_))), "{given_up:?}");
    drop(slow);
    let begun = std::time::Instant::now();
    while database.apply(B, Rows::All, Crash, |batch| insert(batch, "b", None)).await.is_err() {
        assert!(begun.elapsed() < STEP_TIMEOUT, "the locks stay");
    }
    assert_eq!(pairs(&database).await, [("b".to_owned(), None)]);
}

/// A backup reads a table for long, and a migration wants to change the table meanwhile. Statements
/// of running servers must not wait behind the migration.
#[tokio::test]
async fn a_migration_that_waits_for_a_table_lets_others_use_it() {
    let Some(home) = Home::postgres() else { return };
    let database = home.open().await;
    let mut backup = database.write(A, Rows::Apart).await.expect("a turn");
    backup.query("SELECT name FROM pairs").all().await.expect("it reads");
    let step = Migration {
        version: 1,
        name: "step",
        sqlite: "",
        postgres: Some("ALTER TABLE pairs ADD COLUMN later BIGINT"),
        compatible_from: 1,
    };
    let schema = Schema { ledger: "_later", migrations: Box::leak(Box::new([step])) };
    let Home::Postgres(url) = &home else { unreachable!("a database on a server") };
    let server = server(url);
    let migrating = tokio::spawn(async move { Database::connect(server, &[schema], 1).await.map(drop) });
    let begun = std::time::Instant::now();
    let change = |batch: &mut Batch| _ = batch.push("UPDATE pairs SET value = 1 WHERE name = $1").bind("b");
    while begun.elapsed() < Duration::from_secs(3) {
        database.apply(B, Rows::Tenant("b"), Crash, change).await.expect("the table is free");
        pairs(&database).await;
    }
    assert!(!migrating.is_finished());
    backup.commit().await.expect("the backup ends");
    timeout(STEP_TIMEOUT, migrating).await.expect("in time").expect("no panic").expect("migrated");
}

/// One holds the lock for longer than another may wait.
#[tokio::test]
async fn a_wait_for_other_transactions_ends() {
    let Some(home) = Home::postgres() else { return };
    let (one, other) = (home.open().await, home.open().await);
    let held = one.write(A, Rows::All).await.expect("a turn");
    let refused = timeout(STEP_TIMEOUT, other.write(A, Rows::All)).await.expect("the wait ends");
    assert_eq!(refused.map(drop), Err(Error::Locked));
    held.commit().await.expect("committed");
    other.write(A, Rows::All).await.expect("a turn").commit().await.expect("committed");
}

/// Commits of the second kind may be lost by the server, and those of the first kind must not.
#[tokio::test]
async fn a_server_that_waits_for_no_disk_waits_for_commits_that_survive_a_power_failure() {
    let Some(postgres) = Postgres::start(&["synchronous_commit=off"]) else { return };
    let home = Home::Postgres(postgres.database());
    let database = home.open().await;
    let level = "INSERT INTO pairs (name, value) SELECT $1, CASE current_setting('synchronous_commit') \
                 WHEN 'on' THEN 2 WHEN 'off' THEN 1 END";
    for (name, survival) in [("crash", Crash), ("power", PowerFailure)] {
        let fill = |batch: &mut Batch| _ = batch.push(level).bind(name);
        database.apply(A, Rows::All, survival, fill).await.expect("the database answers");
    }
    assert_eq!(pairs(&database).await, [("crash".to_owned(), Some(1)), ("power".to_owned(), Some(2))]);
}

/// The connections break in the middle of transactions and queries.
#[tokio::test]
async fn lost_connections_are_replaced() {
    let Some(postgres) = shared() else { return };
    let url = postgres.database();
    let name = url.rsplit('/').next().expect("a name").to_owned();
    let database = Home::Postgres(url).open().await;
    let kill = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    for round in 0..5 {
        let mut write = database.write(A, Rows::Tenant("a")).await.expect("a turn");
        write.query("INSERT INTO pairs (name) VALUES ('lost')").execute().await.expect("a row");
        let mut reader = database.read(A).await.expect("a reader");
        postgres.sql("postgres", &kill);
        write.commit().await.expect_err("the connection is gone");
        reader.query("SELECT 1 AS one").all().await.expect_err("the connection is gone");
        drop(reader);
        // A connection that nobody used meanwhile is found lost by its next use.
        while try_all(&database, round).await.is_err() {}
    }
    let names: Vec<String> = pairs(&database).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, (0..5).map(|round| format!("kept {round}")).collect::<Vec<_>>());
}

/// Uses a connection of each kind.
async fn try_all(database: &Database, round: u32) -> Result<(), Error> {
    database.read(Asker::Server).await?.query("SELECT name FROM pairs").all().await?;
    database.write(A, Rows::Tenant("a")).await?.commit().await?;
    database.settle().await?;
    let fill = |batch: &mut Batch| insert(batch, &format!("kept {round}"), None);
    database.apply(A, Rows::All, PowerFailure, fill).await
}

/// The version counts a write from before its first change until after its last one.
#[tokio::test]
async fn a_version_is_unknown_while_any_of_several_writes_runs() {
    let Some(home) = Home::postgres() else { return };
    let database = home.open().await;
    let before = database.version().expect("no write");
    let one = database.write(A, Rows::Tenant("a")).await.expect("a turn");
    let other = database.write(B, Rows::Tenant("b")).await.expect("a turn");
    one.commit().await.expect("committed");
    assert_eq!(database.version(), None);
    other.commit().await.expect("committed");
    assert_eq!(database.version(), Some(before + 2));
}

#[tokio::test]
async fn a_server_that_is_away_is_an_error_and_not_a_wait() {
    // Nothing listens on the port of a closed listener.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let url = format!("postgres://postgres@127.0.0.1:{port}/name");
    let refused = timeout(STEP_TIMEOUT, Database::connect(server(&url), &[SCHEMA], 1)).await.expect("in time");
    assert!(matches!(refused, Err(OpenError::Database(Error::Failed(_)))));
    // This server accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://postgres@{}/name", silent.local_addr().expect("an address"));
    let begun = std::time::Instant::now();
    let refused = timeout(STEP_TIMEOUT, Database::connect(server(&url), &[SCHEMA], 1)).await.expect("in time");
    assert!(matches!(refused, Err(OpenError::Database(Error::Failed(_)))));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
