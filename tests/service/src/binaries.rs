//! The programs under test, built as they are.

use std::{path::PathBuf, process::Command, sync::OnceLock};

/// The path of a program of this workspace. The first call builds all of them.
pub fn binary(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let packages = ["-p", "cloakwork-server", "-p", "cloakwork-worker", "-p", "cloakwork"];
        let status = Command::new(cargo).args(["build", "--bins"]).args(packages).status().expect("cargo runs");
        assert!(status.success(), "the programs under test do not build");
        // This test lies in {target}/{profile}/deps.
        let test = std::env::current_exe().expect("a test has a path");
        test.parent().and_then(|deps| deps.parent()).expect("tests lie in a target directory").to_owned()
    });
    directory.join(name)
}
