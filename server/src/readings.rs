//! Gauges that nothing in the server's own course of events would set: the disk, certificates, the
//! standbys of the database, and the use of limits. The server reads them at intervals.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cloakwork_clock::Clock;
use cloakwork_storage::{Database, Standbys};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use crate::{config::Config, edge::Edge, metrics::Telemetry, tls};

/// Time between two readings. Prometheus scrapes as often, or more rarely.
const INTERVAL: Duration = Duration::from_secs(15);

/// Reads the gauges.
#[derive(Debug)]
pub(crate) struct Readings {
    telemetry: Arc<Telemetry>,
    clock: Clock,
    database: Database,
    edge: Arc<Edge>,
    directory: PathBuf,
    /// The certificates, by their labels.
    certificates: Vec<(&'static str, PathBuf)>,
}

impl Readings {
    /// The readings of a server with this configuration.
    pub(crate) fn new(
        config: &Config,
        clock: Clock,
        database: Database,
        edge: Arc<Edge>,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let listen = &config.listen;
        let certificates = [("listen", &listen.tls_certificate), ("workers", &listen.client_ca)];
        let certificates = certificates.into_iter().filter_map(|(label, file)| Some((label, file.clone()?)));
        let (directory, certificates) = (config.storage.directory.clone(), certificates.collect());
        Self { telemetry, clock, database, edge, directory, certificates }
    }

    /// Reads at intervals until the task is dropped.
    pub(crate) async fn run(self) {
        let mut interval = interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            self.read().await;
        }
    }

    async fn read(&self) {
        let metrics = &self.telemetry.metrics;
        for (limit, used, value) in self.edge.uses() {
            metrics.limit_used.set(used, [limit]);
            metrics.limit_value.set(value, [limit]);
        }
        // Files may be on a slow disk, so they are read on a blocking thread.
        let (directory, certificates) = (self.directory.clone(), self.certificates.clone());
        let files = spawn_blocking(move || (space(&directory), certificates.iter().map(expiry).collect::<Vec<_>>()));
        if let Ok((space, expiries)) = files.await {
            if let Some(Space { size, free }) = space {
                metrics.disk_size.set(size, ["data"]);
                metrics.disk_free.set(free, ["data"]);
            }
            let now = self.clock.unix_micros() / 1_000_000;
            for (label, expires) in expiries.into_iter().flatten() {
                // A negative number says for how long the certificate has been expired.
                metrics.certificate_valid.set_f64((expires - now) as f64, [label]);
            }
        }
        match self.database.standbys().await {
            Ok(Some(Standbys { synchronous, asynchronous, hidden, lag_bytes })) => {
                metrics.standbys.set(synchronous, ["synchronous"]);
                metrics.standbys.set(asynchronous, ["asynchronous"]);
                metrics.standbys.set(hidden, ["hidden"]);
                if let Some(lag_bytes) = lag_bytes {
                    metrics.standby_lag.set(lag_bytes, []);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "the standbys of the database are unknown"),
        }
    }
}

/// Bytes of a file system.
struct Space {
    size: u64,
    free: u64,
}

fn space(directory: &Path) -> Option<Space> {
    let found = rustix::fs::statvfs(directory).inspect_err(|error| {
        tracing::debug!(%error, "the free space of the disk is unknown");
    });
    let found = found.ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    // Space that the file system keeps for root counts as used.
    Some(Space { size: bytes(found.f_blocks), free: bytes(found.f_bavail) })
}

/// When the first certificate of a file expires, in seconds of Unix time.
fn expiry((label, file): &(&'static str, PathBuf)) -> Option<(&'static str, i64)> {
    match tls::expires_seconds(file) {
        Ok(expires) => Some((label, expires)),
        Err(error) => {
            tracing::debug!(%error, "the expiry of a certificate is unknown");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev_certs;

    #[test]
    fn the_space_of_a_directory_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let Space { size, free } = space(directory.path()).unwrap();
        assert!(size >= free && free > 0);
        assert!(space(&directory.path().join("nowhere")).is_none());
    }

    #[test]
    fn a_certificate_expires_when_it_says() {
        let directory = tempfile::tempdir().unwrap();
        dev_certs::write(directory.path(), &[], &Clock::system()).unwrap();
        let (_, expires) = expiry(&("listen", directory.path().join("server.pem"))).unwrap();
        let days = (expires - Clock::system().unix_micros() / 1_000_000) as f64 / 86_400.0;
        assert!((89.0..=90.0).contains(&days), "{days} days");
        assert!(expiry(&("listen", directory.path().join("server.key"))).is_none());
    }
}
