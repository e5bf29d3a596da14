//! The command `reconcile`.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use cloakwork_clock::Clock;
use cloakwork_keystore::Compared;

use super::place::{Missing, Place, on_database};
use crate::{
    blobs::{self, BlobsError},
    shards,
};

/// Compare the database with the store of blobs, after one of them was restored.
///
/// Lists the blobs that the database takes for present and whose bytes are gone, with their
/// tenants, and exits with status 1 if there are any. Counts the objects that the database does not
/// know: a server removes them after its start. Run this command before that start.
#[derive(Debug, Args)]
pub(super) struct Reconcile {
    /// Mark the listed blobs as missing. Clients then upload them again, and keys that lack a part
    /// are quarantined until then. A job that needs such a blob fails.
    #[arg(long)]
    mark: bool,
    /// Make the store the store of this database, whatever other database it belonged to. Stop all
    /// servers that use the store first. A server removes the blobs that this database does not
    /// know after its next start.
    #[arg(long)]
    claim: bool,
    #[command(flatten)]
    place: Place,
}

impl Reconcile {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let config = self.place.config()?;
        let storage = &config.storage;
        let mut is_open = false;
        on_database(&config, Missing::Refused, async |database| {
            let failed = |error: cloakwork_keystore::Error| blobs::failed(storage)(error.into());
            let clock = Clock::system();
            shards::follow_clock_of(&clock, &database).await.map_err(|error| failed(error.into()))?;
            if self.mark && !self.claim {
                // In the store of another database, all blobs of this one are missing.
                blobs::check(storage, &database, &clock).await?;
            }
            let compared =
                cloakwork_keystore::compare(&blobs::options(storage, &clock), &database).await.map_err(failed)?;
            let mut text = report(&compared);
            if self.mark {
                cloakwork_keystore::condemn(&database, &compared.lost).await.map_err(failed)?;
                let _ = writeln!(text, "{} blobs are marked as missing.", compared.lost.len());
            } else {
                is_open = !compared.lost.is_empty();
            }
            if self.claim {
                blobs::adopt(storage, &database, &clock).await?;
                text += "The store belongs to this database.\n";
            }
            Ok::<_, BlobsError>(text)
        })?;
        if is_open { Err(ExitCode::FAILURE) } else { Ok(()) }
    }
}

/// The lost blobs, one in a line, and the sums.
fn report(compared: &Compared) -> String {
    let mut text = String::new();
    for lost in &compared.lost {
        let kind = if lost.is_key { "key" } else { "ciphertext" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "lost  {:<32} {kind:<10} {}", lost.tenant, lost.digest);
    }
    let Compared { blobs, lost, objects, unknown } = compared;
    let _ = writeln!(text, "{blobs} blobs in the database, {} of them without bytes.", lost.len());
    let _ = writeln!(text, "{objects} objects in the store, {unknown} of them unknown to the database.");
    text
}
