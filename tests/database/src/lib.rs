//! Databases of tests: files, or databases of a PostgreSQL server.
//!
//! A suite runs on files, and on PostgreSQL if the environment has
//! `CLOAKWORK_TEST_DATABASE=postgres`. One of its tests runs the suite a second time this way.

#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use cloakwork_storage::{Database, Schema, Server};

/// Opens the database for which `path` stands: the file of this path, or a database of a server.
/// The database of a server is the same one whenever this process opens this path. A child process
/// opens it too if it has the variable of [`for_child`].
///
/// # Panics
///
/// If the database cannot be opened.
pub async fn open(path: &Path, schemas: &[Schema], readers: u32) -> Database {
    let opened = match on_postgres() {
        false => Database::open(path, schemas, readers).await,
        true => {
            let server = Server::new(&url_of(path), None, None).expect("a URL");
            Database::connect(server, schemas, readers).await
        }
    };
    opened.expect("the database opens")
}

/// The environment variable through which a child process opens the same database as this process,
/// or `None` if the path alone suffices. The child opens this database whatever path it asks for.
pub fn for_child(path: &Path) -> Option<(&'static str, String)> {
    on_postgres().then(|| (URL, url_of(path)))
}

/// Whether [`open`] opens databases of a server.
pub fn on_postgres() -> bool {
    match std::env::var("CLOAKWORK_TEST_DATABASE").as_deref() {
        Err(_) | Ok("sqlite") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("CLOAKWORK_TEST_DATABASE is sqlite or postgres, not {other}"),
    }
}

/// Runs the tests of this program again, on PostgreSQL. The test that calls this is named
/// `all_tests_pass_on_postgres`. The second run leaves out that test, and tests whose names contain
/// one of `skipped`.
///
/// # Panics
///
/// If a test fails.
pub fn run_again_on_postgres(skipped: &[&str]) {
    if on_postgres() || cloakwork_tests_postgres::shared().is_none() {
        return;
    }
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    let skipped = skipped.iter().chain(&["all_tests_pass_on_postgres"]);
    command.args(skipped.flat_map(|name| ["--skip", name])).env("CLOAKWORK_TEST_DATABASE", "postgres");
    let output = command.output().expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let failures = text.find("\nfailures:\n").map_or(&text[..], |start| &text[start..]);
    assert!(output.status.success(), "{failures}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn url_of(path: &Path) -> String {
    if let Ok(url) = std::env::var(URL) {
        return url;
    }
    static URLS: Mutex<Option<HashMap<PathBuf, String>>> = Mutex::new(None);
    let mut urls = URLS.lock().expect("no panic");
    let new = || cloakwork_tests_postgres::shared().expect("PostgreSQL is installed").database();
    urls.get_or_insert_default().entry(path.to_owned()).or_insert_with(new).clone()
}

/// Variable with the URL of the database that a child process opens.
const URL: &str = "CLOAKWORK_TEST_DATABASE_URL";
