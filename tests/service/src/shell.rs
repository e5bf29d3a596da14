//! The command line, as somebody uses it.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::{Server, binary};

/// The command line in a directory, with a server, and keys in the directory `numbers`.
pub struct Shell<'a> {
    server: String,
    home: &'a Path,
}

impl<'a> Shell<'a> {
    /// In a directory of one's own.
    pub fn new(server: &Server, home: &'a Path) -> Self {
        Self { server: server.url(), home }
    }

    /// A command, not begun.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary("tested-client"));
        command.current_dir(self.home).args(["--server", &self.server, "--keys", "numbers"]).args(args);
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// What a command prints that succeeds.
    pub fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The same as a document.
    pub fn document(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[&["--json"], args].concat())).expect("a document")
    }

    /// Exit code and message of a command that fails.
    pub fn refusal(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.run(args);
        assert!(!output.status.success(), "{args:?}");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }
}
