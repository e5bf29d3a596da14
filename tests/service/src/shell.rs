//! The command line, run as a user runs it.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::{Server, binary};

/// The command line in a directory, with a server, and with keys in the subdirectory `numbers`.
pub struct Shell<'a> {
    server: String,
    home: &'a Path,
}

impl<'a> Shell<'a> {
    /// Makes a shell for a server, with `home` as its working directory.
    pub fn new(server: &Server, home: &'a Path) -> Self {
        Self { server: server.url(), home }
    }

    /// Builds a command without starting it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary("tested-client"));
        command.current_dir(self.home).args(["--server", &self.server, "--keys", "numbers"]).args(args);
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// Runs a command that must succeed. Returns its output.
    pub fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command that must succeed, with `--json`. Returns the parsed document.
    pub fn document(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[&["--json"], args].concat())).expect("a document")
    }

    /// Runs a command that must fail. Returns its exit code and message.
    pub fn refusal(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.run(args);
        assert!(!output.status.success(), "{args:?}");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }
}
