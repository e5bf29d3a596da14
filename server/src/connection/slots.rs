//! The connections of a port: how many there may be, how much memory those that have not authenticated may take, and
//! which of them closes when there is too little of either.
//!
//! A connection belongs to a tenant from its first authenticated call on, each tenant keeping up to its share. All other
//! connections are unauthenticated. These close oldest first, so that nobody who floods a port keeps out a tenant. A
//! connection of a trusted proxy carries calls of many callers, and is never closed for what one of them does.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::ConnectionLimits;
use crate::{address::AddressBlock, tenant::Tenant};

/// What an idle connection takes: buffers and tables of HTTP/2 and TLS, and one header list that is being decoded.
const CONNECTION_BYTES: u64 = 128 << 10;

/// What a call takes before it is authenticated: its task, its HTTP/2 stream and the headers that it keeps.
const CALL_BYTES: u64 = 16 << 10;

/// A connection's charge is brought up to date when it has changed by so much. Smaller steps would lock more often.
const CHARGE_STEP_BYTES: u64 = 16 << 10;

/// A connection is paused for so long at most. A caller who shares a flood's address waits for this long.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The connections of a port.
#[derive(Debug)]
pub(super) struct Slots {
    free: Arc<Semaphore>,
    tenant_connections: usize,
    address_connections: usize,
    unauthenticated_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    arrived: u64,
    /// By the order in which they arrived.
    unauthenticated: BTreeMap<u64, Unauthenticated>,
    /// The sum of their charges.
    charged_bytes: u64,
    tenants: HashMap<Tenant, usize>,
    /// Number of open connections by address, tenants' connections included.
    addresses: HashMap<AddressBlock, usize>,
}

#[derive(Debug)]
struct Unauthenticated {
    close: CancellationToken,
    address: AddressBlock,
    charged_bytes: u64,
}

impl Slots {
    /// Slots within the limits of a port.
    pub(super) fn new(limits: &ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            tenant_connections: limits.tenant_connections,
            address_connections: limits.address_connections,
            unauthenticated_bytes: limits.unauthenticated_bytes,
            state: Mutex::default(),
        })
    }

    /// Closes the oldest unauthenticated connection if no slot is free, since another connection is waiting for one.
    pub(super) fn make_room(&self) {
        if self.free.available_permits() == 0 {
            self.state().close_oldest("all connections are taken (connections)");
        }
    }

    /// Waits for a free slot.
    pub(super) async fn free(&self) -> OwnedSemaphorePermit {
        self.free.clone().acquire_owned().await.expect("nobody closes the semaphore")
    }

    /// Takes a free slot for a connection from an address. Nothing is returned where the address has as many connections
    /// as it may, all of them of tenants.
    pub(super) fn take(self: &Arc<Self>, permit: OwnedSemaphorePermit, address: AddressBlock) -> Option<Slot> {
        let mut state = self.state();
        let connections = state.addresses.get(&address).copied().unwrap_or_default();
        if connections >= self.address_connections && !state.close_oldest_of(address) {
            return None;
        }
        *state.addresses.entry(address).or_default() += 1;
        let slot = self.slot(&mut state, permit, Some(address));
        state.insert(slot.number, slot.close.clone(), address);
        self.shed(&mut state);
        Some(slot)
    }

    /// Takes a free slot for a connection of a trusted proxy.
    pub(super) fn take_for_proxy(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Slot {
        self.slot(&mut self.state(), permit, None)
    }

    fn slot(self: &Arc<Self>, state: &mut State, permit: OwnedSemaphorePermit, address: Option<AddressBlock>) -> Slot {
        state.arrived += 1;
        Slot {
            slots: self.clone(),
            number: state.arrived,
            close: CancellationToken::new(),
            address,
            owner: Mutex::default(),
            authenticated: AtomicBool::new(false),
            paused_until: Mutex::default(),
            calls: AtomicU64::new(0),
            unread_bodies: AtomicU64::new(0),
            buffered_bytes: AtomicU64::new(0),
            charged_bytes: AtomicU64::new(CONNECTION_BYTES),
            _permit: permit,
        }
    }

    /// Closes the oldest unauthenticated connections until the others keep to their memory.
    fn shed(&self, state: &mut State) {
        while state.charged_bytes > self.unauthenticated_bytes && state.unauthenticated.len() > 1 {
            state.close_oldest("unauthenticated connections take too much memory (unauthenticated_bytes)");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, number: u64, close: CancellationToken, address: AddressBlock) {
        self.unauthenticated.insert(number, Unauthenticated { close, address, charged_bytes: CONNECTION_BYTES });
        self.charged_bytes += CONNECTION_BYTES;
    }

    fn remove(&mut self, number: u64) -> Option<Unauthenticated> {
        let removed = self.unauthenticated.remove(&number)?;
        self.charged_bytes -= removed.charged_bytes;
        Some(removed)
    }

    fn close(&mut self, number: u64) {
        if let Some(removed) = self.remove(number) {
            removed.close.cancel();
        }
    }

    fn close_oldest(&mut self, why: &str) {
        let Some((&number, _)) = self.unauthenticated.first_key_value() else { return };
        self.close(number);
        tracing::warn!(why, "closed the oldest unauthenticated connection");
    }

    /// Closes the oldest unauthenticated connection of an address, if there is one.
    fn close_oldest_of(&mut self, address: AddressBlock) -> bool {
        let Some((&number, _)) = self.unauthenticated.iter().find(|(_, other)| other.address == address) else {
            return false;
        };
        self.close(number);
        true
    }
}

/// Counts one less, and forgets who has nothing left.
fn release<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A connection's slot. Dropping it frees the slot.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    number: u64,
    close: CancellationToken,
    /// Where the connection comes from; nothing for a trusted proxy.
    address: Option<AddressBlock>,
    owner: Mutex<Option<Tenant>>,
    /// Whether there is an owner, to be read without a lock.
    authenticated: AtomicBool,
    /// Until when nothing is read while the connection is unauthenticated.
    paused_until: Mutex<Option<Instant>>,
    /// Unauthenticated calls that are running.
    calls: AtomicU64,
    /// Unauthenticated calls whose bodies have not been read to their end.
    unread_bodies: AtomicU64,
    /// Received bytes that may still be in memory.
    buffered_bytes: AtomicU64,
    /// A copy of the charge in [`State`], so that most calls change nothing and take no lock.
    charged_bytes: AtomicU64,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Gives the connection to a tenant, whose share decides whether the tenant keeps it.
    pub fn authenticate(&self, tenant: &Tenant) {
        if self.is_authenticated() || self.is_proxy() {
            return;
        }
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.slots.state();
        let connections = state.tenants.get(tenant).copied().unwrap_or_default();
        // A connection that was told to close is no longer among these, and closes.
        if owner.is_none() && connections < self.slots.tenant_connections && state.remove(self.number).is_some() {
            state.tenants.insert(tenant.clone(), connections + 1);
            *owner = Some(tenant.clone());
            self.authenticated.store(true, Relaxed);
        }
    }

    /// Takes the connection from its tenant, since a call on it was refused. The next authenticated call gives the
    /// connection to a tenant again.
    pub fn disown(&self) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(tenant), Some(address)) = (owner.take(), self.address) else { return };
        self.authenticated.store(false, Relaxed);
        let mut state = self.slots.state();
        release(&mut state.tenants, &tenant);
        state.insert(self.number, self.close.clone(), address);
        self.charged_bytes.store(CONNECTION_BYTES, Relaxed);
    }

    /// Whether a tenant owns the connection.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated.load(Relaxed)
    }

    /// Whether a trusted proxy is at the other end.
    pub fn is_proxy(&self) -> bool {
        self.address.is_none()
    }

    /// Reads nothing for some time, unless the connection is a tenant's or a proxy's by then.
    pub fn pause(&self, time: Duration) {
        if !time.is_zero() && !self.is_proxy() {
            let end = Instant::now() + time.min(PAUSE_MAX);
            let mut paused_until = self.paused_until();
            *paused_until = Some(paused_until.map_or(end, |earlier| earlier.max(end)));
        }
    }

    /// Until when nothing may be read.
    pub(super) fn pause_end(&self) -> Option<Instant> {
        let mut paused_until = self.paused_until();
        if paused_until.is_some_and(|end| end <= Instant::now()) {
            *paused_until = None;
        }
        *paused_until
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the connection for a call that is not authenticated, until the returned value is dropped.
    pub fn open_call(self: &Arc<Self>) -> OpenCall {
        self.calls.fetch_add(1, Relaxed);
        self.charge();
        OpenCall(self.clone())
    }

    /// Keeps the connection charged for all that it receives, until the returned value is dropped.
    pub fn open_body(self: &Arc<Self>) -> UnreadBody {
        self.unread_bodies.fetch_add(1, Relaxed);
        UnreadBody(self.clone())
    }

    /// Notes received bytes: those that just arrived, and those of a frame that is unfinished.
    pub(super) fn receive(&self, bytes: usize, unfinished_bytes: usize) {
        // What arrived before an idle moment has been dealt with.
        let before = if self.unread_bodies.load(Relaxed) == 0 { 0 } else { self.buffered_bytes.load(Relaxed) };
        // A buffer that grows doubles.
        let unfinished_bytes = 2 * unfinished_bytes as u64;
        self.buffered_bytes.store((before + bytes as u64).max(unfinished_bytes), Relaxed);
        self.charge();
    }

    /// Resolves when the connection has to close.
    pub(super) fn closing(&self) -> WaitForCancellationFuture<'_> {
        self.close.cancelled()
    }

    /// What the connection takes at the moment.
    fn bytes(&self) -> u64 {
        CONNECTION_BYTES + CALL_BYTES * self.calls.load(Relaxed) + self.buffered_bytes.load(Relaxed)
    }

    /// Brings the connection's charge up to date.
    fn charge(&self) {
        if self.is_authenticated() || self.is_proxy() {
            return;
        }
        if self.bytes().abs_diff(self.charged_bytes.load(Relaxed)) < CHARGE_STEP_BYTES {
            return;
        }
        let mut state = self.slots.state();
        // Read again under the lock. Of two calls that end at once, the one that read first might charge last.
        let bytes = self.bytes();
        let Some(own) = state.unauthenticated.get_mut(&self.number) else { return };
        let before = std::mem::replace(&mut own.charged_bytes, bytes);
        state.charged_bytes = state.charged_bytes - before + bytes;
        self.charged_bytes.store(bytes, Relaxed);
        self.slots.shed(&mut state);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let owner = self.owner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut state = self.slots.state();
        state.remove(self.number);
        if let Some(tenant) = owner {
            release(&mut state.tenants, &tenant);
        }
        if let Some(address) = self.address {
            release(&mut state.addresses, &address);
        }
    }
}

/// A running call that is not authenticated.
#[derive(Debug)]
pub struct OpenCall(Arc<Slot>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
        self.0.charge();
    }
}

/// The body of an unauthenticated call, until the body is read to its end or dropped.
#[derive(Debug)]
pub struct UnreadBody(Arc<Slot>);

impl Drop for UnreadBody {
    fn drop(&mut self) {
        self.0.unread_bodies.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
