//! Certificates for tests.

use std::process::Command;

use tempfile::TempDir;

use crate::binary;

/// A directory with the output of the server's command `dev-certs`: an authority, and certificates
/// for a server at `localhost` and for a worker.
pub fn dev_certificates() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let output = Command::new(binary("tested-server")).arg("dev-certs").arg("--out").arg(directory.path()).output();
    let output = output.expect("the command runs");
    assert!(output.status.success(), "{output:?}");
    directory
}
