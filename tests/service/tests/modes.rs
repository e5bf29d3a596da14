//! Files that the server writes are accessible only to its user.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use cloakwork_tests_service::{Server, Setup, Tenant, eventually};

/// A setup with umask 0: without explicit modes, all users could access the server's files.
fn with_open_umask() -> Setup {
    Setup::default().within(&["sh", "-c", "umask 0 && exec \"$@\"", "sh"].map(str::to_owned))
}

/// Collects every directory and file below `root`, with its mode.
fn modes(root: &Path, found: &mut Vec<(PathBuf, u32)>) {
    let metadata = fs::metadata(root).expect("it is there");
    found.push((root.to_owned(), metadata.mode() & 0o777));
    if metadata.is_dir() {
        fs::read_dir(root).expect("a directory").for_each(|entry| modes(&entry.expect("an entry").path(), found));
    }
}

/// Checks that nothing is open to others. Returns the names of all files and directories.
fn check_closed(data: &Path) -> Vec<String> {
    let mut found = Vec::new();
    modes(data, &mut found);
    let open = found.iter().filter(|(_, mode)| mode & 0o077 != 0);
    let open: Vec<String> = open.map(|(path, mode)| format!("{} {mode:o}", path.display())).collect();
    assert!(open.is_empty(), "open to others: {open:?}");
    found.iter().filter_map(|(path, _)| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_server_are_closed_to_other_users_from_the_first_start() {
    let mut server = Server::start(with_open_umask()).await;
    let tenant = Tenant::new(server.client().await).await;
    tenant.check_squares(&[1, 2, 3]).await;
    let data = server.directory().join("data");
    let names = check_closed(&data);
    for name in ["server.db", "server.db-wal", "server.db-shm", "lock", "staging", "blobs"] {
        assert!(names.iter().any(|found| found == name), "{name} is not among {names:?}");
    }
    let is_of_blob = |name: &String| name.split_once('-').is_some_and(|(hash, _)| hash.len() == 64);
    assert!(names.iter().any(is_of_blob), "no blob is among {names:?}");
    // Earlier versions wrote files that all users could read. A killed process also leaves its
    // transaction logs.
    server.kill();
    let mut found = Vec::new();
    modes(&data, &mut found);
    for (path, _) in &found {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    server.restart().await;
    check_closed(&data);
    tenant.check_squares(&[4, 5]).await;
    check_closed(&data);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_others_may_write_to_is_refused_and_the_error_names_the_remedy() {
    let mut server = Server::start(Setup::default().without_worker()).await;
    server.stop();
    let data = server.directory().join("data");
    for (open, below) in [(data.clone(), 0o700), (data.join("blobs"), 0o755)] {
        fs::set_permissions(&data, fs::Permissions::from_mode(below)).expect("a mode");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("a mode");
        server.launch();
        let process = std::cell::RefCell::new(server.process());
        eventually("the server ends", || async { !process.borrow_mut().is_running() }).await;
        let remedy = format!("run `chmod 700 {}`", open.display());
        assert!(server.log().contains(&remedy), "{}", server.log());
        let output = server.command().args(["tenant", "list"]).output().expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(&remedy), "{said}");
        // The remedy in the message works.
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).expect("a mode");
        server.restart().await;
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_behind_a_link_is_refused() {
    let mut server = Server::start(Setup::default().without_worker()).await;
    server.stop();
    let (file, elsewhere) = (server.directory().join("data/server.db"), server.directory().join("server.db"));
    fs::rename(&file, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("a link");
    server.launch();
    let process = std::cell::RefCell::new(server.process());
    eventually("the server ends", || async { !process.borrow_mut().is_running() }).await;
    let problem = format!("{}: it is not a regular file", file.display());
    assert!(server.log().contains(&problem), "{}", server.log());
    fs::rename(&elsewhere, &file).expect("put back");
    server.restart().await;
}
