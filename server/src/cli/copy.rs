//! The command `copy`.

use std::process::ExitCode;

use clap::Args;

use super::{
    failed,
    place::{Place, run},
};
use crate::data;

/// Move an installation from its database file to PostgreSQL.
///
/// The settings name both: `server.db` in storage.directory, and `database.url`, whose database
/// must be empty. Stop the server first. All rows are copied in one transaction and compared before
/// its commit, and `server.db` is renamed to `server.db.copied`. Keys and ciphertexts stay where
/// they are.
#[derive(Debug, Args)]
pub(super) struct Copy {
    #[command(flatten)]
    place: Place,
}

impl Copy {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let config = self.place.config()?;
        run(async {
            let moved = data::move_to_server(&config).await.map_err(failed)?;
            Ok(format!("Copied and compared {} rows. The file is now {}.\n", moved.rows, moved.file.display()))
        })
    }
}
