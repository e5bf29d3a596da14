//! The programs under test.

use std::path::PathBuf;

/// The path of a program of this crate: `tested-server`, `tested-worker` or `tested-client`. Cargo builds them before
/// it runs a test.
///
/// They are the shipped programs' own main functions. The shipped programs themselves would have to be built by a second
/// run of Cargo, with other features of other crates, and so from the ground up.
pub fn binary(name: &str) -> PathBuf {
    // A test lies in {target}/{profile}/deps, and so does not what it starts.
    let test = std::env::current_exe().expect("a test has a path");
    let path = test.parent().and_then(|deps| deps.parent()).expect("tests lie in a target directory").join(name);
    assert!(path.exists(), "{} is missing: run the tests with cargo test", path.display());
    path
}
