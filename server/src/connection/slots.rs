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
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
    task::Context,
    time::{Duration, Instant},
};

use futures_util::task::AtomicWaker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::ConnectionLimits;
use crate::{address::AddressBlock, resource::Tenant};

/// What an idle connection takes: buffers and tables of HTTP/2 and TLS, and one header list that is being decoded.
const CONNECTION_BYTES: u64 = 128 << 10;

/// What a call takes before it is authenticated: its task, its HTTP/2 stream and the headers that it keeps.
const CALL_BYTES: u64 = 16 << 10;

/// A connection's charge is brought up to date when it has changed by so much. Smaller steps would lock more often.
const CHARGE_STEP_BYTES: u64 = 16 << 10;

/// A connection is paused for so long at most. A caller who shares a flood's address waits for this long.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Between two warnings about closed connections.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

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
    /// Connections of each address that has any, whoever they belong to.
    addresses: HashMap<AddressBlock, usize>,
    warned: Option<Instant>,
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
            backlog: AtomicU64::new(0),
            reader: AtomicWaker::new(),
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

    fn remove(&mut self, number: u64) -> bool {
        let Some(removed) = self.unauthenticated.remove(&number) else { return false };
        self.charged_bytes -= removed.charged_bytes;
        true
    }

    fn close_oldest(&mut self, why: &str) {
        let Some((_, oldest)) = self.unauthenticated.pop_first() else { return };
        self.charged_bytes -= oldest.charged_bytes;
        oldest.close.cancel();
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL) {
            self.warned = Some(Instant::now());
            tracing::warn!(why, "unauthenticated connections are being closed, oldest first");
        }
    }

    /// Closes the oldest unauthenticated connection of an address, if there is one.
    fn close_oldest_of(&mut self, address: AddressBlock) -> bool {
        let Some((&number, _)) = self.unauthenticated.iter().find(|(_, other)| other.address == address) else {
            return false;
        };
        if let Some(oldest) = self.unauthenticated.get(&number) {
            oldest.close.cancel();
        }
        self.remove(number)
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
    /// Calls whose tasks have not begun to run.
    backlog: AtomicU64,
    /// Woken when there is none.
    reader: AtomicWaker,
    /// Unauthenticated calls that are running.
    calls: AtomicU64,
    /// Those of them whose bodies have not been read to their end.
    unread_bodies: AtomicU64,
    /// Received bytes that may still be in memory.
    buffered_bytes: AtomicU64,
    /// What the connection is charged for while it is unauthenticated.
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
        if owner.is_none() && connections < self.slots.tenant_connections && state.remove(self.number) {
            state.tenants.insert(tenant.clone(), connections + 1);
            *owner = Some(tenant.clone());
            self.authenticated.store(true, Relaxed);
        }
    }

    /// Takes the connection from its tenant, since a call on it was not authenticated. The next call that is gives it
    /// back.
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
            *self.paused_until() = Some(Instant::now() + time.min(PAUSE_MAX));
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

    /// Notes a call whose task is about to be scheduled. The task drops the returned value as soon as it runs.
    ///
    /// The scheduler may run a connection many times before it runs the tasks that the connection has begun. Without a
    /// bound on these, a flood fills memory with tasks that nobody has looked at.
    pub fn schedule_call(self: &Arc<Self>) -> ScheduledCall {
        self.backlog.fetch_add(1, Relaxed);
        ScheduledCall(self.clone())
    }

    /// Whether calls of the connection wait for their tasks to run. If so, wakes the reader when none does.
    pub(super) fn has_backlog(&self, cx: &Context<'_>) -> bool {
        if self.backlog.load(Acquire) == 0 {
            return false;
        }
        self.reader.register(cx.waker());
        // The last one may have run before the waker was there.
        self.backlog.load(Acquire) > 0
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

    fn charge(&self) {
        if self.is_authenticated() || self.is_proxy() {
            return;
        }
        let bytes = CONNECTION_BYTES + CALL_BYTES * self.calls.load(Relaxed) + self.buffered_bytes.load(Relaxed);
        if bytes.abs_diff(self.charged_bytes.load(Relaxed)) < CHARGE_STEP_BYTES {
            return;
        }
        let mut state = self.slots.state();
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

/// A call whose task has not begun to run.
#[derive(Debug)]
pub struct ScheduledCall(Arc<Slot>);

impl Drop for ScheduledCall {
    fn drop(&mut self) {
        if self.0.backlog.fetch_sub(1, AcqRel) == 1 {
            self.0.reader.wake();
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

/// The body of such a call, while it may have unread pieces.
#[derive(Debug)]
pub struct UnreadBody(Arc<Slot>);

impl Drop for UnreadBody {
    fn drop(&mut self) {
        self.0.unread_bodies.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants() -> [Tenant; 2] {
        ["a", "b"].map(|name| Tenant::new(name).unwrap())
    }

    const LIMITS: ConnectionLimits = ConnectionLimits {
        connections: 16,
        tenant_connections: 16,
        address_connections: 16,
        unauthenticated_bytes: u64::MAX,
        header_timeout: Duration::MAX,
        idle_timeout: Duration::MAX,
    };

    fn slots(connections: usize, tenant_connections: usize) -> Arc<Slots> {
        Slots::new(&ConnectionLimits { connections, tenant_connections, ..LIMITS })
    }

    fn address(last: u8) -> AddressBlock {
        std::net::IpAddr::from([192, 0, 2, last]).into()
    }

    async fn take(slots: &Arc<Slots>) -> Arc<Slot> {
        Arc::new(slots.take(slots.free().await, address(1)).unwrap())
    }

    fn closes(slot: &Slot) -> bool {
        slot.close.is_cancelled()
    }

    #[tokio::test]
    async fn the_oldest_unauthenticated_connection_closes_and_those_of_tenants_do_not() {
        let slots = slots(3, 2);
        let [tenant, first, second] = [take(&slots).await, take(&slots).await, take(&slots).await];
        tenant.authenticate(&tenants()[0]);
        slots.make_room();
        assert!(!closes(&tenant) && closes(&first) && !closes(&second));
        first.authenticate(&tenants()[0]);
        slots.make_room();
        assert!(closes(&second), "the first one authenticated too late, and counts no more");
        slots.make_room();
        assert!(!closes(&tenant), "further connections wait");
        drop((first, second));
        slots.make_room();
        let _third = take(&slots).await;
        assert!(!closes(&tenant));
    }

    #[tokio::test]
    async fn a_connection_whose_call_is_refused_is_unauthenticated_again() {
        let slots = slots(2, 1);
        let [revoked, other] = [take(&slots).await, take(&slots).await];
        let [a, _] = tenants();
        revoked.authenticate(&a);
        revoked.disown();
        revoked.disown();
        assert!(!revoked.is_authenticated());
        // The share is free for another connection.
        other.authenticate(&a);
        slots.make_room();
        assert!(closes(&revoked) && !closes(&other));
        drop((revoked, other));
        let state = slots.state();
        assert!(state.tenants.is_empty() && state.unauthenticated.is_empty() && state.charged_bytes == 0);
    }

    #[tokio::test]
    async fn no_connection_closes_while_slots_are_free() {
        let slots = slots(2, 2);
        let slot = take(&slots).await;
        slots.make_room();
        assert!(!closes(&slot));
    }

    #[tokio::test]
    async fn a_tenant_keeps_no_more_than_its_share() {
        let slots = slots(4, 2);
        let [a, b] = tenants();
        let mut own = Vec::new();
        for _ in 0..3 {
            let slot = take(&slots).await;
            slot.authenticate(&a);
            // Every call says so again.
            slot.authenticate(&a);
            own.push(slot);
        }
        let other = take(&slots).await;
        other.authenticate(&b);
        slots.make_room();
        assert_eq!(own.iter().map(|slot| closes(slot)).collect::<Vec<_>>(), [false, false, true]);
        assert!(!closes(&other));
        own.clear();
        drop(other);
        let state = slots.state();
        assert!(state.tenants.is_empty() && state.unauthenticated.is_empty());
        assert_eq!(slots.free.available_permits(), 4);
    }

    #[tokio::test]
    async fn an_address_has_no_more_than_its_connections() {
        let slots = Slots::new(&ConnectionLimits { address_connections: 2, ..LIMITS });
        let [first, second] = [take(&slots).await, take(&slots).await];
        first.authenticate(&tenants()[0]);
        let other = slots.take(slots.free().await, address(2)).unwrap();
        let third = take(&slots).await;
        assert!(!closes(&first) && closes(&second) && !closes(&other), "the oldest unauthenticated one of the address");
        drop(second);
        third.authenticate(&tenants()[1]);
        assert!(slots.take(slots.free().await, address(1)).is_none(), "tenants have all of them");
        drop((first, other));
        assert!(slots.take(slots.free().await, address(1)).is_some());
        drop(third);
        assert!(slots.state().addresses.is_empty());
    }

    #[tokio::test]
    async fn a_trusted_proxy_is_neither_closed_nor_charged_nor_paused() {
        let slots = Slots::new(&ConnectionLimits { connections: 2, unauthenticated_bytes: 1, ..LIMITS });
        let proxy = Arc::new(slots.take_for_proxy(slots.free().await));
        let _direct = take(&slots).await;
        let _calls: Vec<_> = (0..1000).map(|_| proxy.open_call()).collect();
        proxy.authenticate(&tenants()[0]);
        proxy.disown();
        proxy.pause(Duration::from_secs(1));
        for _ in 0..2 {
            slots.make_room();
        }
        assert!(!closes(&proxy) && proxy.pause_end().is_none() && !proxy.is_authenticated());
        assert!(slots.state().tenants.is_empty());
    }

    #[tokio::test]
    async fn a_reader_waits_until_all_scheduled_calls_run() {
        let slots = slots(1, 1);
        let slot = take(&slots).await;
        let calls = [slot.schedule_call(), slot.schedule_call()];
        struct Woken(AtomicBool);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Relaxed);
            }
        }
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = woken.clone().into();
        assert!(slot.has_backlog(&Context::from_waker(&waker)));
        let [first, second] = calls;
        drop(first);
        assert!(!woken.0.load(Relaxed));
        drop(second);
        assert!(woken.0.load(Relaxed) && !slot.has_backlog(&Context::from_waker(&waker)));
    }

    #[tokio::test]
    async fn a_pause_ends() {
        let slots = slots(1, 1);
        let slot = take(&slots).await;
        slot.pause(Duration::from_secs(3600));
        let end = slot.pause_end().unwrap();
        assert!(end <= Instant::now() + PAUSE_MAX);
        *slot.paused_until() = Some(Instant::now());
        assert!(slot.pause_end().is_none());
    }

    /// Slots whose unauthenticated connections may take this beside what each takes idle.
    fn slots_with_bytes(connections: u64, bytes: u64) -> Arc<Slots> {
        Slots::new(&ConnectionLimits { unauthenticated_bytes: connections * CONNECTION_BYTES + bytes, ..LIMITS })
    }

    #[tokio::test]
    async fn connections_beyond_the_memory_close_oldest_first() {
        let slots = slots_with_bytes(2, 0);
        let [first, second] = [take(&slots).await, take(&slots).await];
        assert!(!closes(&first));
        let third = take(&slots).await;
        assert!(closes(&first) && !closes(&second) && !closes(&third));
        second.authenticate(&tenants()[0]);
        let _fourth = take(&slots).await;
        assert!(!closes(&third), "a tenant's connection takes nothing of it");
    }

    #[tokio::test]
    async fn calls_are_charged_while_they_run() {
        let slots = slots_with_bytes(2, 2 * CALL_BYTES);
        let [first, second] = [take(&slots).await, take(&slots).await];
        for _ in 0..3 {
            drop([second.open_call(), second.open_call()]);
        }
        assert!(!closes(&first), "calls that have ended are not charged");
        let _calls = [second.open_call(), second.open_call(), second.open_call()];
        assert!(closes(&first) && !closes(&second));
        drop(_calls);
        drop((first, second));
        assert_eq!(slots.state().charged_bytes, 0);
    }

    #[tokio::test]
    async fn received_bytes_are_charged_until_bodies_are_read_and_frames_finished() {
        const PIECE_BYTES: usize = CHARGE_STEP_BYTES as usize;
        let slots = slots_with_bytes(2, 2 * CHARGE_STEP_BYTES);
        let [oldest, slot] = [take(&slots).await, take(&slots).await];
        // Nothing is open: each piece has been dealt with when the next one arrives.
        for _ in 0..10 {
            slot.receive(PIECE_BYTES, 0);
        }
        assert!(!closes(&oldest));
        let unread = slot.open_body();
        slot.receive(PIECE_BYTES, 0);
        assert!(!closes(&oldest));
        slot.receive(PIECE_BYTES + 1, 0);
        assert!(closes(&oldest));
        drop(unread);
        slot.receive(1, 0);
        let newest = take(&slots).await;
        assert!(!closes(&slot));
        // An unfinished frame stays in memory although nothing is open.
        slot.receive(1, 4 * PIECE_BYTES);
        assert!(closes(&slot) && !closes(&newest));
    }

    #[tokio::test]
    async fn a_connection_alone_is_not_closed_for_its_own_charge() {
        let slots = slots_with_bytes(0, 1);
        let slot = take(&slots).await;
        assert!(!closes(&slot));
        slot.authenticate(&tenants()[0]);
        assert!(slot.is_authenticated());
    }
}
