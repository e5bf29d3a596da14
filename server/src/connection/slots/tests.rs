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
async fn the_oldest_unauthenticated_connection_closes_and_tenants_connections_stay() {
    let slots = slots(3, 2);
    let [tenant, first, second] = [take(&slots).await, take(&slots).await, take(&slots).await];
    tenant.authenticate(&tenants()[0]);
    slots.make_room();
    assert!(!closes(&tenant) && closes(&first) && !closes(&second));
    first.authenticate(&tenants()[0]);
    slots.make_room();
    assert!(closes(&second), "a connection chosen to close can no longer authenticate");
    slots.make_room();
    assert!(!closes(&tenant), "a tenant's connection is never closed");
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
    // The share has room for another connection.
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
async fn connections_beyond_the_tenants_share_stay_unauthenticated() {
    let slots = slots(4, 2);
    let [a, b] = tenants();
    let mut own = Vec::new();
    for _ in 0..3 {
        let slot = take(&slots).await;
        slot.authenticate(&a);
        // Every call on a connection authenticates it again, which must not count twice.
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
async fn connections_of_one_address_are_limited() {
    let slots = Slots::new(&ConnectionLimits { address_connections: 2, ..LIMITS });
    let [first, second] = [take(&slots).await, take(&slots).await];
    first.authenticate(&tenants()[0]);
    let other = slots.take(slots.free().await, address(2)).unwrap();
    let third = take(&slots).await;
    assert!(
        !closes(&first) && closes(&second) && !closes(&other),
        "only the oldest unauthenticated connection of the address closes"
    );
    drop(second);
    third.authenticate(&tenants()[1]);
    assert!(slots.take(slots.free().await, address(1)).is_none(), "tenants own all connections of the address");
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
    let _calls: Vec<_> = (0..1000).map(|_| proxy.open_call(CALL_BYTES)).collect();
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
async fn a_pause_is_limited_and_ends() {
    let slots = slots(1, 1);
    let slot = take(&slots).await;
    slot.pause(Duration::from_secs(3600));
    let end = slot.pause_end().unwrap();
    assert!(end <= Instant::now() + PAUSE_MAX);
    *slot.paused_until() = Some(Instant::now());
    assert!(slot.pause_end().is_none());
}

/// Charge of a call.
const CALL_BYTES: u64 = 16 << 10;

/// Slots with memory for `connections` idle unauthenticated connections and `bytes` more.
fn slots_with_bytes(connections: u64, bytes: u64) -> Arc<Slots> {
    Slots::new(&ConnectionLimits { unauthenticated_bytes: connections * CONNECTION_BYTES + bytes, ..LIMITS })
}

#[tokio::test]
async fn unauthenticated_connections_beyond_the_memory_limit_close_oldest_first() {
    let slots = slots_with_bytes(2, 0);
    let [first, second] = [take(&slots).await, take(&slots).await];
    assert!(!closes(&first));
    let third = take(&slots).await;
    assert!(closes(&first) && !closes(&second) && !closes(&third));
    second.authenticate(&tenants()[0]);
    let _fourth = take(&slots).await;
    assert!(!closes(&third), "a tenant's connection is not charged");
}

#[tokio::test]
async fn calls_are_charged_while_they_run() {
    let slots = slots_with_bytes(2, 2 * CALL_BYTES);
    let [first, second] = [take(&slots).await, take(&slots).await];
    for _ in 0..3 {
        drop([second.open_call(CALL_BYTES), second.open_call(CALL_BYTES)]);
    }
    assert!(!closes(&first), "calls that have ended are not charged");
    let calls = [second.open_call(CALL_BYTES), second.open_call(2 * CALL_BYTES)];
    assert!(closes(&first) && !closes(&second));
    drop(calls);
    drop((first, second));
    assert_eq!(slots.state().charged_bytes, 0);
}

#[tokio::test]
async fn received_bytes_are_charged_until_bodies_are_read_and_frames_are_complete() {
    const PIECE_BYTES: usize = CHARGE_STEP_BYTES as usize;
    let slots = slots_with_bytes(2, 2 * CHARGE_STEP_BYTES);
    let [oldest, slot] = [take(&slots).await, take(&slots).await];
    // No body is open: each piece has been processed when the next piece arrives.
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
    // An unfinished frame stays in memory even though no body is open.
    slot.receive(1, 4 * PIECE_BYTES);
    assert!(closes(&slot) && !closes(&newest));
}

#[tokio::test]
async fn the_only_connection_is_not_closed_for_its_own_charge() {
    let slots = slots_with_bytes(0, 1);
    let slot = take(&slots).await;
    assert!(!closes(&slot));
    slot.authenticate(&tenants()[0]);
    assert!(slot.is_authenticated());
}

/// The bound holds for all memory that is not free yet. A flood would otherwise exceed the bound
/// while the tasks of its closed connections wait for a core.
#[tokio::test]
async fn connections_pause_while_closing_ones_hold_the_memory() {
    let slots = Slots::new(&ConnectionLimits { unauthenticated_bytes: 3 * CONNECTION_BYTES, ..LIMITS });
    let [first, second] = [take(&slots).await, take(&slots).await];
    let call = second.open_call(2 * CONNECTION_BYTES);
    assert!(closes(&first) && second.pause_end().is_some());
    let proxy = slots.take_for_proxy(slots.free().await);
    assert!(proxy.pause_end().is_none());
    drop(first);
    assert!(second.pause_end().is_none(), "the memory is free");
    drop((call, second));
    assert_eq!((slots.closing_bytes.load(Relaxed), slots.state().charged_bytes), (0, 0));
}
