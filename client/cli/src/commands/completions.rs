//! `cloakwork completions`.

use clap_complete::Shell;

use crate::{failure::Failure, output::print};

/// Print a completion script for a shell
///
/// Example, for bash:
///   cloakwork completions bash > ~/.local/share/bash-completion/completions/cloakwork
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Name of the shell.
    shell: Shell,
}

/// Prints the script for `command`, the whole program.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "cloakwork", &mut script);
    print(&String::from_utf8_lossy(&script))
}
