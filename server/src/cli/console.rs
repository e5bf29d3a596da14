//! The command `console`.

use std::process::ExitCode;

use clap::Args;

use super::{failed, place::Place, print};
use crate::console;

/// Print the link with which an operator at this machine logs in to the console.
///
/// The link works once; the next call prints another. A server whose admin port is beyond loopback
/// has no link. Log in with a token there.
#[derive(Debug, Args)]
pub(super) struct Console {
    #[command(flatten)]
    place: Place,
}

impl Console {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let config = self.place.config()?;
        let link = console::stored_link(&config.storage.directory).map_err(|error| {
            failed(format!(
                "no server with a console on a loopback address runs on {}: {error}",
                config.storage.directory.display()
            ))
        })?;
        // The file may be of someone else, if the directory is the wrong one.
        let is_link = link.starts_with("http") && link.contains("/console/#/login?link=");
        if !is_link || !link.trim_end().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(failed("the file console-link of the data directory has no link"));
        }
        print(&link)
    }
}
