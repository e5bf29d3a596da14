//! The programs under test, built as they are.

use std::{path::PathBuf, process::Command, sync::OnceLock};

/// The path of a program of this workspace, built like the caller. The first call builds all of them.
pub fn binary(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let packages = ["-p", "cloakwork-server", "-p", "cloakwork-worker", "-p", "cloakwork"];
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        let mut build = Command::new(cargo);
        build.args(["build", "--bins", "--profile", profile]).args(packages);
        assert!(build.status().expect("cargo runs").success(), "the programs under test do not build");
        // A program lies in {target}/{profile}, a test in {target}/{profile}/deps.
        let caller = std::env::current_exe().expect("a program has a path");
        let directory = caller.parent().expect("programs lie in a directory");
        let directory = if directory.ends_with("deps") { directory.parent() } else { Some(directory) };
        directory.expect("tests lie in a target directory").to_owned()
    });
    directory.join(name)
}
