//! Verifies tokens, and remembers for a short while which ones were good.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{Principal, Scopes, Secret, TokenStore, store};
use crate::{
    database,
    error::{ApiError, TOKEN_EXPIRED, UNAUTHENTICATED},
    resource::Tenant,
};

/// Verifies tokens.
#[derive(Debug)]
pub struct Verifier {
    store: TokenStore,
    time: Duration,
    entries_max: usize,
    // By the token's hash. Only good tokens are in here, so that guesses cannot fill it.
    good: Mutex<HashMap<[u8; 32], (Principal, Instant)>>,
}

impl Verifier {
    /// One that remembers up to `entries_max` answers of the store, each for `time`.
    pub fn new(store: TokenStore, entries_max: usize, time: Duration) -> Self {
        Self { store, time, entries_max, good: Mutex::default() }
    }

    /// Whom the token speaks for.
    pub async fn verify(&self, token: &str) -> Result<Principal, ApiError> {
        let token = Secret::parse(token).ok_or_else(|| UNAUTHENTICATED.error("the token is malformed"))?;
        let hash = token.hash();
        if let Some(principal) = self.remembered(&hash) {
            return Ok(principal);
        }
        let id = token.id();
        let stored = self.store.find(&id).await.map_err(database::failed)?;
        let stored = stored.filter(|stored| token.matches(&stored.hash));
        let stored = stored.ok_or_else(|| UNAUTHENTICATED.error("no such token"))?;
        let now = store::now_ms();
        if stored.revoked_ms.is_some() || stored.tenant_revoked_ms.is_some() {
            return Err(TOKEN_EXPIRED.error(format!("the token {id} was revoked")));
        }
        if stored.expires_ms.is_some_and(|end| end <= now) {
            return Err(TOKEN_EXPIRED.error(format!("the token {id} has expired")));
        }
        let corrupt = |what: &str| {
            tracing::error!(token_id = %id, "the row of a token has a malformed {what}");
            UNAUTHENTICATED.error("no such token")
        };
        let tenant = Tenant::new(&stored.tenant).map_err(|_| corrupt("tenant"))?;
        let scopes = Scopes::parse(&stored.scopes).map_err(|_| corrupt("list of scopes"))?;
        let principal = Principal { tenant, scopes };
        let left = stored.expires_ms.map_or(Duration::MAX, |end| {
            Duration::from_millis(u64::try_from(end.saturating_sub(now)).unwrap_or_default())
        });
        self.remember(hash, principal.clone(), self.time.min(left));
        self.store.note_use(id, &stored);
        Ok(principal)
    }

    #[cfg(test)]
    pub(super) fn remembered_count(&self) -> usize {
        self.good.lock().unwrap().len()
    }

    fn remembered(&self, hash: &[u8; 32]) -> Option<Principal> {
        let good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        good.get(hash).filter(|(_, until)| Instant::now() < *until).map(|(principal, _)| principal.clone())
    }

    fn remember(&self, hash: [u8; 32], principal: Principal, time: Duration) {
        let now = Instant::now();
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.len() >= self.entries_max {
            good.retain(|_, (_, until)| now < *until);
        }
        // Still full: forgetting all of them costs a query each, and is rare.
        if good.len() >= self.entries_max {
            good.clear();
        }
        good.insert(hash, (principal, now + time));
    }
}
