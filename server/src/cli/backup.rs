//! The command `backup`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{
    failed,
    place::{Missing, Place},
};
use crate::data;

/// Copy the database file while the server runs.
///
/// The copy has everything that was committed before the command began. Copy `blobs/` (or the
/// bucket) and `installation/` afterwards. To restore, put the copy in place of `server.db`. A
/// database on PostgreSQL has tools of its own for this.
#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The new file. Existing files are not overwritten.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Backup {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let out = std::path::absolute(&self.out).map_err(failed)?;
        self.place.with_database(Missing::Refused, async |database| {
            data::back_up(&database, &out).await?;
            Ok::<_, data::DataError>(format!("{}\n", out.display()))
        })
    }
}
