//! A worker process.

use std::{path::Path, process::Command};

use crate::{Process, Server, binary};

/// A worker that tests can kill, stop and start again.
pub struct Worker {
    process: Process,
}

impl Worker {
    /// Starts a worker for this server.
    pub fn start(server: &Server, name: &str, token: &str) -> Self {
        Self::start_with(server, name, token, &[])
    }

    /// Starts a worker for this server with further options.
    pub fn start_with(server: &Server, name: &str, token: &str, options: &[&str]) -> Self {
        let directory = server.directory();
        let token_file = directory.join(format!("{name}.token"));
        std::fs::write(&token_file, token).expect("a token file");
        let mut command = Command::new(binary("tested-worker"));
        command.args(["--server", &server.url(), "--name", name, "--token-file"]).arg(token_file).args(options);
        if !options.contains(&"--threads") {
            command.args(["--threads", "1"]);
        }
        Self { process: Process::start(command, &directory.join(format!("{name}.log"))) }
    }

    /// Starts a worker that shows a certificate instead of a token. The directory holds
    /// `worker.pem` and the authority.
    pub fn start_certified(server: &Server, name: &str, certificates: &Path) -> Self {
        let mut command = Command::new(binary("tested-worker"));
        command.args(["--server", &server.url(), "--name", name, "--threads", "1"]);
        for (option, file) in [("--ca", "ca.pem"), ("--cert", "worker.pem"), ("--key", "worker.key")] {
            command.arg(option).arg(certificates.join(file));
        }
        Self { process: Process::start(command, &server.directory().join(format!("{name}.log"))) }
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
