//! The issuer's keys in memory, and the decision when to fetch them again.
//!
//! One fetch runs at a time, as a task of its own. Callers that need its result wait for it
//! together. All other callers use the keys that are there.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cloakwork_clock::{Clock, Epoch, micros_of};
use cloakwork_retry::Pauses;
use tokio::sync::watch;

use crate::{
    algorithm::Algorithm,
    fetch::{Failure, Fetcher},
    key::{Key, Keys},
    refusal::Refusal,
};

/// Age of keys from which they are fetched again, while callers use the old ones.
const REFRESH_AGE: Duration = Duration::from_secs(15 * 60);

/// Time without a fetch after which callers wait for one. The keys of a server that verified no
/// token meanwhile may have been withdrawn for hours.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// Longest time for which keys are used while no fetch succeeds.
const STALE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Shortest time from a fetch to one for a token of an unknown key. Anyone can make such tokens.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);

/// First pause after a failed fetch. The pause doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause after a failed fetch.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The keys of one issuer.
pub(crate) struct KeyCache {
    fetcher: Fetcher,
    /// Time since the cache was made. Counts the sleep of a machine, as keys grow older meanwhile.
    uptime: Epoch,
    state: Mutex<State>,
}

struct State {
    keys: Option<Arc<Keys>>,
    /// Uptime at which the fetch of the keys began.
    keys_micros: u64,
    /// Uptime at which the latest fetch began.
    begun_micros: Option<u64>,
    /// Uptime at which the latest fetch ended.
    ended_micros: Option<u64>,
    /// Uptime before which the age of the keys causes no fetch.
    pause_end_micros: u64,
    pauses: Pauses,
    failure: Option<Failure>,
    fetch: Option<Fetch>,
}

/// A running fetch. The channel closes at the end of the fetch, however it ends.
#[derive(Clone)]
struct Fetch(watch::Receiver<()>);

impl Fetch {
    fn is_running(&self) -> bool {
        self.0.has_changed().is_ok()
    }

    async fn end(mut self) {
        // Nothing is ever sent, so only the end of the fetch ends the wait.
        let _ = self.0.changed().await;
    }
}

impl KeyCache {
    pub(crate) fn new(fetcher: Fetcher, clock: &Clock) -> Self {
        let state = State {
            keys: None,
            keys_micros: 0,
            begun_micros: None,
            ended_micros: None,
            pause_end_micros: 0,
            pauses: Pauses::new(FIRST_PAUSE, PAUSE_MAX),
            failure: None,
            fetch: None,
        };
        Self { fetcher, uptime: clock.epoch_across_sleep(), state: Mutex::new(state) }
    }

    /// The key that fits a header. Fetches keys if that is due.
    pub(crate) async fn find(self: &Arc<Self>, algorithm: Algorithm, id: Option<&str>) -> Result<Arc<Key>, Refusal> {
        if let Some(fetch) = self.refresh() {
            fetch.end().await;
        }
        let found = self.usable()?.find(algorithm, id);
        if found.as_ref().err() != Some(&Refusal::UnknownKey) {
            return found;
        }
        match self.fetch_for_unknown_key() {
            Some(fetch) => fetch.end().await,
            None => return found,
        }
        self.usable()?.find(algorithm, id)
    }

    /// Time since the fetch of the keys began.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.state().age(self.uptime.micros())
    }

    /// The failure of the latest fetch.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state().failure.clone()
    }

    fn usable(&self) -> Result<Arc<Keys>, Refusal> {
        let state = self.state();
        let usable = state.is_usable(self.uptime.micros());
        state.keys.clone().filter(|_| usable).ok_or(Refusal::IssuerAway)
    }

    /// Begins a fetch if the age of the keys calls for one. Returns the running fetch if the caller
    /// has to wait for it.
    fn refresh(self: &Arc<Self>) -> Option<Fetch> {
        let now = self.uptime.micros();
        let mut state = self.state();
        if state.age(now).is_some_and(|age| age < REFRESH_AGE) {
            return None;
        }
        let idle = state.ended_micros.is_none_or(|end| now.saturating_sub(end) > micros_of(IDLE_TIME_MAX));
        let waits = idle || !state.is_usable(now);
        let is_due = now >= state.pause_end_micros;
        let fetch = self.running(&mut state, is_due, now);
        fetch.filter(|_| waits)
    }

    /// The fetch that a token of an unknown key waits for, unless the latest one was a moment ago.
    fn fetch_for_unknown_key(self: &Arc<Self>) -> Option<Fetch> {
        let now = self.uptime.micros();
        let mut state = self.state();
        let is_due = state.begun_micros.is_none_or(|begin| now.saturating_sub(begin) >= micros_of(UNKNOWN_KEY_PAUSE));
        self.running(&mut state, is_due, now)
    }

    /// The running fetch, or a new one if one is due.
    fn running(self: &Arc<Self>, state: &mut State, is_due: bool, now: u64) -> Option<Fetch> {
        let running = state.fetch.clone().filter(Fetch::is_running);
        if running.is_some() || !is_due {
            return running;
        }
        let (open, fetch) = watch::channel(());
        let fetch = Fetch(fetch);
        state.fetch = Some(fetch.clone());
        state.begun_micros = Some(now);
        // After a success the pause has no effect, because new keys need no fetch.
        state.pause_end_micros = now.saturating_add(micros_of(state.pauses.next_pause()));
        let cache = Arc::clone(self);
        tokio::spawn(async move {
            let fetched = cache.fetcher.fetch().await;
            cache.settle(fetched, now);
            drop(open);
        });
        Some(fetch)
    }

    fn settle(&self, fetched: Result<Keys, Failure>, begun_micros: u64) {
        let issuer = self.fetcher.issuer();
        match &fetched {
            Ok(keys) => tracing::debug!(issuer, keys = keys.len(), "fetched the keys of the issuer of login tokens"),
            Err(failure) => tracing::warn!(issuer, %failure, "fetching the keys of the issuer of login tokens failed"),
        }
        let mut state = self.state();
        state.ended_micros = Some(self.uptime.micros());
        match fetched {
            Ok(keys) => {
                state.keys = Some(Arc::new(keys));
                state.keys_micros = begun_micros;
                state.failure = None;
                state.pauses.reset();
            }
            Err(failure) => state.failure = Some(failure),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn age(&self, now: u64) -> Option<Duration> {
        self.keys.is_some().then(|| Duration::from_micros(now.saturating_sub(self.keys_micros)))
    }

    fn is_usable(&self, now: u64) -> bool {
        self.age(now).is_some_and(|age| age <= STALE_TIME_MAX)
    }
}
