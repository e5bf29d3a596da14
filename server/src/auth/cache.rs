//! Verifies tokens: caches valid tokens for a short time, and looks other tokens up in the database
//! with limited concurrency.
//!
//! A token that was valid before is looked up at once when its cache entry expires. Any other token
//! may be a guess, and waits in a short queue for one of a few lookups. So guesses exhaust neither
//! the database nor the tenants' places. An address that guesses too often gets no lookup at all.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cloakwork_clock::{Epoch, micros_of};
use cloakwork_oidc::Issuer;
use cloakwork_share::{Exceeded, FairShare, Share};
use quick_cache::unsync::Cache;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};

use super::{Credential, Principal, Scopes, Secret, TokenStore, issued};
use crate::{
    address::{Act, AddressBlock, Addresses},
    database,
    error::{ADDRESS_LIMITED, ApiError, OVERLOADED, TOKEN_EXPIRED, UNAUTHENTICATED},
    limits::Limits,
    tenant::Tenant,
};

/// Retry delay in the refusal of a call that finds the lookup queue full.
const LOOKUP_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Maximum number of unknown tokens of the issuer that are verified at the same time. Each may wait
/// for the issuer's keys.
pub(super) const ISSUED_MAX: u64 = 64;

/// The part of [`ISSUED_MAX`] that one address may take. Without this limit, a single address could
/// lock all users of the issuer out while the issuer is slow.
pub(super) const ADDRESS_ISSUED_MAX: u64 = 16;

/// Verifies tokens.
pub struct Verifier {
    store: TokenStore,
    issuer: Option<Issuer>,
    /// The time by which entries of the cache expire.
    uptime: Epoch,
    addresses: Arc<Addresses>,
    remember_time: Duration,
    /// Cached tokens by hash. Only valid tokens are cached, so guesses cannot fill the cache. A
    /// tenant that uses many tokens once each evicts no token that is used often.
    good: Mutex<Cache<[u8; 32], Good>>,
    /// Permits for lookups of unknown tokens.
    lookups: Arc<Semaphore>,
    /// Places for verifications of unknown tokens of the issuer.
    issued: Arc<FairShare<AddressBlock>>,
    /// Permits for lookups of unknown tokens and for calls that wait for a lookup.
    lookup_queue: Arc<Semaphore>,
    #[cfg(test)]
    lookup_count: std::sync::atomic::AtomicU64,
}

/// A token as a caller has shown it.
enum Shown<'t> {
    /// A token of this installation.
    Own(Secret),
    /// A token of an issuer.
    Issued(&'t Issuer, &'t str),
}

impl Shown<'_> {
    fn hash(&self) -> [u8; 32] {
        match self {
            Self::Own(own) => own.hash(),
            Self::Issued(_, text) => *blake3::hash(text.as_bytes()).as_bytes(),
        }
    }
}

/// The turn of an unknown token, held until its verification ends.
struct Turn {
    /// The place in the queue of lookups, and the permit for a lookup.
    _lookup: Option<[OwnedSemaphorePermit; 2]>,
    /// The place among the tokens of the issuer.
    _issued: Option<Share<AddressBlock>>,
}

/// A token that was valid at its latest lookup.
#[derive(Clone, Debug)]
struct Good {
    principal: Principal,
    /// The uptime at which the entry expires and the token needs another lookup.
    until_micros: u64,
    /// Locked by the call that repeats the lookup. Other calls with this token wait for that call's
    /// result.
    lookup: Arc<AsyncMutex<()>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Verifier")
    }
}

impl Verifier {
    /// Creates a verifier that looks tokens up in `store`, within the limits.
    pub fn new(store: TokenStore, addresses: Arc<Addresses>, limits: &Limits) -> Self {
        let [entries_max, lookups, lookup_queue] = [
            limits.token_cache,
            limits.token_lookups,
            limits.token_lookups.saturating_add(limits.token_lookups_waiting),
        ]
        .map(|limit| usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS));
        Self {
            uptime: store.clock().epoch(),
            store,
            issuer: None,
            addresses,
            remember_time: Duration::from_millis(limits.token_cache_ms),
            good: Mutex::new(Cache::new(entries_max)),
            issued: FairShare::new(ISSUED_MAX, ADDRESS_ISSUED_MAX),
            lookups: Arc::new(Semaphore::new(lookups)),
            lookup_queue: Arc::new(Semaphore::new(lookup_queue)),
            #[cfg(test)]
            lookup_count: Default::default(),
        }
    }

    /// Accepts tokens of this issuer too.
    #[must_use]
    pub fn with_issuer(self, issuer: Option<Issuer>) -> Self {
        Self { issuer, ..self }
    }

    /// Returns the principal of a token that a caller at `address` has presented. Without an
    /// address, the caller was admitted before and is verified again, which takes no place in the
    /// lookup queue.
    pub async fn verify(&self, token: &str, address: Option<AddressBlock>) -> Result<Principal, ApiError> {
        let token = self.parse(token)?;
        let hash = token.hash();
        let Some(good) = self.good().get(&hash).cloned() else {
            let _turn = match address {
                Some(address) => Some(self.turn(&token, address).await?),
                None => None,
            };
            // Another call with the same token may have finished its lookup meanwhile.
            return match self.remembered(&hash) {
                Some(principal) => Ok(principal),
                None => self.look_up(&token, hash).await,
            };
        };
        if self.uptime.micros() < good.until_micros {
            return Ok(good.principal);
        }
        let _lookup = good.lookup.lock().await;
        match self.remembered(&hash) {
            Some(principal) => Ok(principal),
            None => self.look_up(&token, hash).await,
        }
    }

    /// Waits for the turn of an unknown token.
    async fn turn(&self, token: &Shown<'_>, address: AddressBlock) -> Result<Turn, ApiError> {
        let debt = self.addresses.debt(address, Act::Failure);
        if !debt.is_zero() {
            let message = "too many calls with wrong tokens came from this address (address_failures_per_minute)";
            return Err(ADDRESS_LIMITED.error(message).with("limit", "address_failures_per_minute").retry_after(debt));
        }
        if let Shown::Issued(..) = token {
            // The issuer may take seconds to answer. Lookups in the database do not wait for it.
            let place = self.issued.try_take(&address, 1).map_err(|exceeded| {
                let from = match exceeded {
                    Exceeded::Each { .. } => " from this address",
                    Exceeded::All { .. } => "",
                };
                let message = format!("too many unknown tokens of the issuer{from} are being verified");
                OVERLOADED.error(message).retry_after(LOOKUP_RETRY_DELAY)
            })?;
            return Ok(Turn { _lookup: None, _issued: Some(place) });
        }
        let place = self.lookup_queue.clone().try_acquire_owned().map_err(|_| {
            let message = "too many unknown tokens are being looked up (token_lookups_waiting)";
            OVERLOADED.error(message).with("limit", "token_lookups_waiting").retry_after(LOOKUP_RETRY_DELAY)
        })?;
        let lookup = self.lookups.clone().acquire_owned().await.expect("the semaphore is never closed");
        Ok(Turn { _lookup: Some([place, lookup]), _issued: None })
    }

    fn parse<'t>(&'t self, text: &'t str) -> Result<Shown<'t>, ApiError> {
        match (Secret::parse(text), &self.issuer) {
            (Some(own), _) => Ok(Shown::Own(own)),
            (None, Some(issuer)) if text.contains('.') => Ok(Shown::Issued(issuer, text)),
            (None, _) => Err(UNAUTHENTICATED.error("the token is malformed")),
        }
    }

    async fn look_up(&self, token: &Shown<'_>, hash: [u8; 32]) -> Result<Principal, ApiError> {
        let found = match token {
            Shown::Own(own) => self.find(own).await,
            Shown::Issued(issuer, text) => issued::verify(issuer, &self.store, text).await,
        };
        let found = found.map(|(principal, left)| (principal, self.remember_time.min(left)));
        match &found {
            Ok((principal, time)) => self.remember(hash, principal.clone(), *time),
            // Only an invalid token is removed from the cache. A failing database does not make a
            // token invalid.
            Err(error) if error.reason().grpc == tonic::Code::Unauthenticated => _ = self.good().remove(&hash),
            Err(_) => {}
        }
        found.map(|(principal, _)| principal)
    }

    /// Looks a token up in the database. Returns its principal, and the time until its expiry.
    async fn find(&self, token: &Secret) -> Result<(Principal, Duration), ApiError> {
        #[cfg(test)]
        self.lookup_count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let id = token.id();
        let stored = self.store.find(&id).await.map_err(database::failed)?;
        let stored = stored.filter(|stored| token.matches(&stored.hash));
        let stored = stored.ok_or_else(|| UNAUTHENTICATED.error("no such token"))?;
        let left = stored.time_left(self.store.clock().unix_micros());
        let left = left.map_err(|void| TOKEN_EXPIRED.error(format!("the token {id} {void}")))?;
        let corrupt = |what: &str| {
            tracing::error!(token_id = %id, "the row of a token has a malformed {what}");
            UNAUTHENTICATED.error("no such token")
        };
        let tenant = Tenant::new(&stored.tenant).map_err(|_| corrupt("tenant"))?;
        let scopes = Scopes::parse(&stored.scopes).map_err(|_| corrupt("list of scopes"))?;
        self.store.note_use(id, &stored);
        Ok((Principal { tenant, shard: stored.shard, scopes, credential: Credential::Token(token.id()) }, left))
    }

    fn remembered(&self, hash: &[u8; 32]) -> Option<Principal> {
        let good = self.good();
        good.get(hash).filter(|good| self.uptime.micros() < good.until_micros).map(|good| good.principal.clone())
    }

    fn remember(&self, hash: [u8; 32], principal: Principal, time: Duration) {
        let until_micros = self.uptime.micros().saturating_add(micros_of(time));
        let mut good = self.good();
        let lookup = good.get(&hash).map_or_else(Arc::default, |known| known.lookup.clone());
        good.insert(hash, Good { principal, until_micros, lookup });
    }

    fn good(&self) -> MutexGuard<'_, Cache<[u8; 32], Good>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Verifier {
    pub(super) fn remembered_count(&self) -> usize {
        self.good().len()
    }

    /// Takes a lookup permit and its place in the queue, until the returned permits are dropped.
    pub(super) async fn occupy_lookup(&self) -> [OwnedSemaphorePermit; 2] {
        [self.lookup_queue.clone().acquire_owned().await.unwrap(), self.lookups.clone().acquire_owned().await.unwrap()]
    }

    pub(super) fn lookup_places_left(&self) -> usize {
        self.lookup_queue.available_permits()
    }

    /// Makes all cached tokens expire now.
    pub(super) fn expire_all(&self) {
        let mut good = self.good();
        let hashes: Vec<[u8; 32]> = good.iter().map(|(hash, _)| *hash).collect();
        for hash in hashes {
            good.get_mut(&hash).unwrap().until_micros = self.uptime.micros();
        }
    }

    pub(super) fn lookup_count(&self) -> u64 {
        self.lookup_count.load(std::sync::atomic::Ordering::Relaxed)
    }
}
