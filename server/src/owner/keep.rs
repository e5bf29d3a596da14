//! Keeping a shard: the beats of its owner, and its end.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use cloakwork_storage::{Asker, Batch, Database, Error, Rows, Survival};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Ownership;

/// Time between two beats.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after a beat that did not reach the database.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Beats until another server has taken over. `database` is a handle without the check of the
/// owner, because the beat has its own.
pub async fn keep(ownership: Ownership, database: Database) {
    let Some(owned) = &ownership.0 else { return };
    // The takeover counts as a beat, if it was answered.
    let mut next = Instant::now() + if ownership.is_certain() { BEAT_INTERVAL } else { Duration::ZERO };
    let mut is_away = false;
    loop {
        sleep_until(next).await;
        next = Instant::now() + BEAT_INTERVAL;
        let sent_micros = owned.uptime.micros();
        let known = owned.seq.load(Relaxed);
        let beat = |batch: &mut Batch| _ = batch.push("SELECT cloakwork_beat($1)").bind(owned.replica.0);
        // A standby that takes over must have the beat: the owner relies on it.
        let beaten = database.apply(Asker::Server, Rows::Apart, Survival::PowerFailure, beat).await;
        if beaten.is_ok() {
            // A count that waits for a connection must not delay the next beat.
            let count = timeout(BEAT_INTERVAL, owned.count(&database)).await;
            if count.is_ok_and(|count| count.is_ok_and(|count| count < known)) {
                owned.behind.notify_one();
            }
        }
        match beaten {
            Ok(()) => {
                owned.beat_at(sent_micros);
                if std::mem::take(&mut is_away) {
                    tracing::info!("this server reaches the database again, and still owns its shard");
                }
            }
            Err(Error::Fenced) => return owned.lost.cancel(),
            Err(error) => {
                // The first failure may be that of an old connection, which the next owner has
                // ended while this process was suspended. A new connection tells at once.
                match std::mem::replace(&mut is_away, true) {
                    true => sleep(RETRY_PAUSE).await,
                    false => tracing::warn!(%error, "the owner of a shard cannot reach its database"),
                }
                next = Instant::now();
            }
        }
    }
}

/// Leaves the shard to the next server. If this fails, the next server waits until it finds this
/// one silent.
pub async fn release(ownership: &Ownership, database: &Database) {
    let Some(owned) = &ownership.0 else { return };
    let leave = |batch: &mut Batch| {
        batch.push("UPDATE shards SET owner = NULL WHERE owner = $1").bind(owned.replica.0);
        batch.push("DELETE FROM replicas WHERE id = $1").bind(owned.replica.0);
    };
    // Both statements compare the owner, and the next owner waits for the transactions of this one.
    if let Err(error) = database.apply(Asker::Server, Rows::Apart, Survival::PowerFailure, leave).await {
        tracing::warn!(%error, "the next server takes over later, because this one could not leave the shard");
    }
}
