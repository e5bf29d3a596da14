//! Paths of the programs under test.

use std::path::PathBuf;

/// The path of a program of this crate: `tested-server`, `tested-worker` or `tested-client`. Cargo
/// builds them before it runs a test.
///
/// The programs call the main functions of the shipped programs. The shipped programs themselves
/// would need a second run of Cargo. That run would build everything again, because features of
/// other crates differ.
pub fn binary(name: &str) -> PathBuf {
    // Programs lie in {target}/{profile}, tests in {target}/{profile}/deps.
    let caller = std::env::current_exe().expect("a program has a path");
    let directory = caller.parent().expect("programs lie in a directory");
    let directory = if directory.ends_with("deps") { directory.parent() } else { Some(directory) };
    let path = directory.expect("tests lie in a target directory").join(name);
    assert!(path.exists(), "{} is missing: run cargo test, or build this crate's programs", path.display());
    path
}
