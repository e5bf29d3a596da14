//! The programs under test.

use std::path::PathBuf;

/// The path of a program of this crate: `tested-server`, `tested-worker` or `tested-client`. Cargo builds them before
/// it runs a test.
///
/// They are the shipped programs' own main functions. The shipped programs themselves would have to be built by a second
/// run of Cargo, with other features of other crates, and so from the ground up.
pub fn binary(name: &str) -> PathBuf {
    // Programs lie in {target}/{profile}, tests in {target}/{profile}/deps.
    let caller = std::env::current_exe().expect("a program has a path");
    let directory = caller.parent().expect("programs lie in a directory");
    let directory = if directory.ends_with("deps") { directory.parent() } else { Some(directory) };
    let path = directory.expect("tests lie in a target directory").join(name);
    assert!(path.exists(), "{} is missing: run cargo test, or build this crate's programs", path.display());
    path
}
