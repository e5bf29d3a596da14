//! Connection slots of a port: the number of connections, the memory of unauthenticated
//! connections, and the choice of the connection to close when either runs out.
//!
//! A connection belongs to a tenant from its first authenticated call on. Each tenant keeps
//! connections up to its share. All other connections are unauthenticated. These close oldest
//! first, so that a flood of connections cannot keep a tenant out. A connection of a trusted proxy
//! carries calls of many callers, and is never closed because of the acts of one of them.

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

/// Memory of an idle connection in bytes: buffers and tables of HTTP/2 and TLS, and one header list
/// that is being decoded.
const CONNECTION_BYTES: u64 = 128 << 10;

/// Minimum change in bytes that updates a connection's charge. Smaller steps would take the lock
/// more often.
const CHARGE_STEP_BYTES: u64 = 16 << 10;

/// Maximum pause of a connection. This is also the maximum wait of a well-behaved caller that
/// shares an address with a flood.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Pause of unauthenticated connections while closing connections still hold the memory that the
/// others would take. A connection closes within milliseconds.
const CLOSING_PAUSE: Duration = Duration::from_millis(2);

/// The connections of a port.
#[derive(Debug)]
pub(super) struct Slots {
    free: Arc<Semaphore>,
    tenant_connections: usize,
    address_connections: usize,
    unauthenticated_bytes: u64,
    /// The charges of connections that were chosen to close and have not ended. Their memory is not
    /// free yet. Changed under the lock of `state`. Read without the lock, because each read of an
    /// unauthenticated connection asks for it.
    closing_bytes: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    arrived: u64,
    /// Unauthenticated connections in the order of their arrival.
    unauthenticated: BTreeMap<u64, Unauthenticated>,
    /// The sum of the charges of `unauthenticated`.
    charged_bytes: u64,
    tenants: HashMap<Tenant, usize>,
    /// Number of open connections by address. Tenants' connections are included.
    addresses: HashMap<AddressBlock, usize>,
}

#[derive(Debug)]
struct Unauthenticated {
    close: CancellationToken,
    address: AddressBlock,
    charged_bytes: u64,
}

impl Slots {
    /// Creates the slots of a port.
    pub(super) fn new(limits: &ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            tenant_connections: limits.tenant_connections,
            address_connections: limits.address_connections,
            unauthenticated_bytes: limits.unauthenticated_bytes,
            closing_bytes: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// Closes the oldest unauthenticated connection if no slot is free. The caller has another
    /// connection that waits for a slot.
    pub(super) fn make_room(&self) {
        if self.free.available_permits() == 0 {
            self.close_oldest(&mut self.state(), "all connections are taken (connections)");
        }
    }

    /// Waits for a free slot.
    pub(super) async fn free(&self) -> OwnedSemaphorePermit {
        self.free.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Takes a free slot for a connection from an address. Returns `None` if the address has its
    /// maximum number of connections and tenants own all of them.
    pub(super) fn take(self: &Arc<Self>, permit: OwnedSemaphorePermit, address: AddressBlock) -> Option<Slot> {
        let mut state = self.state();
        let connections = state.addresses.get(&address).copied().unwrap_or_default();
        if connections >= self.address_connections && !self.close_oldest_of(&mut state, address) {
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
            calls_bytes: AtomicU64::new(0),
            unread_bodies: AtomicU64::new(0),
            buffered_bytes: AtomicU64::new(0),
            charged_bytes: AtomicU64::new(CONNECTION_BYTES),
            _permit: permit,
        }
    }

    /// Closes the oldest unauthenticated connections until the charges of the others fit the limit.
    /// The newest connection is never closed.
    fn shed(&self, state: &mut State) {
        while state.charged_bytes > self.unauthenticated_bytes && state.unauthenticated.len() > 1 {
            self.close_oldest(state, "unauthenticated connections take too much memory (unauthenticated_bytes)");
        }
    }

    fn close_oldest(&self, state: &mut State, why: &str) {
        let Some((&number, _)) = state.unauthenticated.first_key_value() else { return };
        self.close(state, number);
        tracing::warn!(why, "closed the oldest unauthenticated connection");
    }

    /// Closes the oldest unauthenticated connection of an address. Returns whether there was a
    /// connection to close.
    fn close_oldest_of(&self, state: &mut State, address: AddressBlock) -> bool {
        let Some((&number, _)) = state.unauthenticated.iter().find(|(_, other)| other.address == address) else {
            return false;
        };
        self.close(state, number);
        true
    }

    fn close(&self, state: &mut State, number: u64) {
        if let Some(removed) = state.remove(number) {
            self.closing_bytes.fetch_add(removed.charged_bytes, Relaxed);
            removed.close.cancel();
        }
    }

    /// Whether the charges exceed the limit together with those of closing connections.
    fn waits_for_closing(&self) -> bool {
        let closing_bytes = self.closing_bytes.load(Relaxed);
        closing_bytes > 0 && self.state().charged_bytes + closing_bytes > self.unauthenticated_bytes
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
}

/// Decrements a count, and removes the entry when the count reaches 0.
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
    /// The address of the peer, or `None` for a trusted proxy.
    address: Option<AddressBlock>,
    /// The tenant that owns the connection. Locked before the state of the slots, never after it.
    owner: Mutex<Option<Tenant>>,
    /// Whether the connection has an owner, readable without a lock.
    authenticated: AtomicBool,
    /// The end of the current pause. The pause applies while the connection is unauthenticated.
    paused_until: Mutex<Option<Instant>>,
    /// Memory of the running unauthenticated calls.
    calls_bytes: AtomicU64,
    /// Number of unauthenticated calls whose bodies have not been read to their end.
    unread_bodies: AtomicU64,
    /// Received bytes that may still be in memory.
    buffered_bytes: AtomicU64,
    /// A copy of the charge in [`State`], so that most calls change nothing and take no lock.
    charged_bytes: AtomicU64,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Makes the tenant the owner of the connection, if the tenant's share has room for another
    /// connection.
    pub fn authenticate(&self, tenant: &Tenant) {
        if self.is_authenticated() || self.is_proxy() {
            return;
        }
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.slots.state();
        let connections = state.tenants.get(tenant).copied().unwrap_or_default();
        // `remove` finds nothing if the connection was chosen to close. The connection then closes
        // and gets no owner.
        if owner.is_none() && connections < self.slots.tenant_connections && state.remove(self.number).is_some() {
            state.tenants.insert(tenant.clone(), connections + 1);
            *owner = Some(tenant.clone());
            self.authenticated.store(true, Relaxed);
        }
    }

    /// Takes the connection from its tenant because a call on it was refused. The next
    /// authenticated call makes a tenant the owner again.
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

    /// Pauses reading for some time, at most `PAUSE_MAX`. The pause has no effect on a proxy's
    /// connection, or once a tenant owns the connection.
    pub fn pause(&self, time: Duration) {
        if !time.is_zero() && !self.is_proxy() {
            let end = Instant::now() + time.min(PAUSE_MAX);
            let mut paused_until = self.paused_until();
            *paused_until = Some(paused_until.map_or(end, |earlier| earlier.max(end)));
        }
    }

    /// The end of the current pause, or `None` if reading is allowed.
    pub(super) fn pause_end(&self) -> Option<Instant> {
        let mut paused_until = self.paused_until();
        if paused_until.is_some_and(|end| end <= Instant::now()) {
            *paused_until = None;
        }
        if paused_until.is_none() && !self.is_proxy() && self.slots.waits_for_closing() {
            return Some(Instant::now() + CLOSING_PAUSE);
        }
        *paused_until
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the connection `bytes` for an unauthenticated call, until the returned value is
    /// dropped.
    pub fn open_call(self: &Arc<Self>, bytes: u64) -> OpenCall {
        self.calls_bytes.fetch_add(bytes, Relaxed);
        self.charge();
        OpenCall { slot: self.clone(), bytes }
    }

    /// Keeps the connection charged for all bytes that it receives, until the returned value is
    /// dropped.
    pub fn open_body(self: &Arc<Self>) -> UnreadBody {
        self.unread_bodies.fetch_add(1, Relaxed);
        UnreadBody(self.clone())
    }

    /// Notes received bytes. `bytes` have arrived now; `unfinished_bytes` belong to a frame that is
    /// unfinished.
    pub(super) fn receive(&self, bytes: usize, unfinished_bytes: usize) {
        // Without an unread body, the bytes that arrived earlier have been processed and freed.
        let before = if self.unread_bodies.load(Relaxed) == 0 { 0 } else { self.buffered_bytes.load(Relaxed) };
        // A growing buffer doubles its capacity.
        let unfinished_bytes = 2 * unfinished_bytes as u64;
        self.buffered_bytes.store((before + bytes as u64).max(unfinished_bytes), Relaxed);
        self.charge();
    }

    /// Resolves when the connection was chosen to close.
    pub(super) fn closing(&self) -> WaitForCancellationFuture<'_> {
        self.close.cancelled()
    }

    /// Memory of the connection at present, in bytes.
    fn bytes(&self) -> u64 {
        CONNECTION_BYTES + self.calls_bytes.load(Relaxed) + self.buffered_bytes.load(Relaxed)
    }

    /// Updates the connection's charge, and closes other connections if the sum exceeds the limit.
    fn charge(&self) {
        if self.is_authenticated() || self.is_proxy() {
            return;
        }
        if self.bytes().abs_diff(self.charged_bytes.load(Relaxed)) < CHARGE_STEP_BYTES {
            return;
        }
        let mut state = self.slots.state();
        // Read again under the lock: of two calls that end at once, the call that read first might
        // update last.
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
        if self.close.is_cancelled() {
            // The charge of a closing connection no longer changes.
            self.slots.closing_bytes.fetch_sub(self.charged_bytes.load(Relaxed), Relaxed);
        }
        if let Some(tenant) = owner {
            release(&mut state.tenants, &tenant);
        }
        if let Some(address) = self.address {
            release(&mut state.addresses, &address);
        }
    }
}

/// A running unauthenticated call, counted until it is dropped.
#[derive(Debug)]
pub struct OpenCall {
    slot: Arc<Slot>,
    bytes: u64,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.slot.calls_bytes.fetch_sub(self.bytes, Relaxed);
        self.slot.charge();
    }
}

/// The body of an unauthenticated call, counted until the body is read to its end or dropped.
#[derive(Debug)]
pub struct UnreadBody(Arc<Slot>);

impl Drop for UnreadBody {
    fn drop(&mut self) {
        self.0.unread_bodies.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
