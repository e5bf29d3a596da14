//! Who may stay when all places are taken: whoever has shown who they are, each tenant on up to its share of the
//! connections. The others are strangers, and the one that has been here the longest makes room for the next.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::resource::Tenant;

/// Between two lines in the log about strangers that had to go.
const QUIET: Duration = Duration::from_secs(60);

/// The places of a port.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Connections that one tenant may keep.
    share: usize,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    arrived: u64,
    /// In the order in which they came.
    strangers: BTreeMap<u64, CancellationToken>,
    kept: HashMap<Tenant, usize>,
    warned: Option<Instant>,
}

impl Places {
    pub(super) fn new(most: usize, share: usize) -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(most)), share, guests: Mutex::default() })
    }

    /// Somebody is at the door: if there is no place, a stranger has to go.
    pub(super) fn make_room(&self) {
        if self.free.available_permits() > 0 {
            return;
        }
        let mut guests = self.guests();
        let Some((_, leave)) = guests.strangers.pop_first() else { return };
        leave.cancel();
        if guests.warned.is_none_or(|warned| warned.elapsed() >= QUIET) {
            guests.warned = Some(Instant::now());
            tracing::warn!("all connections are taken: those who have not said who they are make room for others");
        }
    }

    /// Waits for a place.
    pub(super) async fn take(self: &Arc<Self>) -> Place {
        let permit = self.free.clone().acquire_owned().await.expect("nobody closes it");
        let leave = CancellationToken::new();
        let mut guests = self.guests();
        guests.arrived += 1;
        let number = guests.arrived;
        guests.strangers.insert(number, leave.clone());
        drop(guests);
        Place { places: self.clone(), number, leave, keeper: Mutex::default(), _permit: permit }
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place; dropping it makes room.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
    leave: CancellationToken,
    /// Who has shown that the connection is theirs, and has it among those they keep.
    keeper: Mutex<Option<Tenant>>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// The connection is this tenant's, who keeps it if the share allows.
    pub fn keep(&self, tenant: &Tenant) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.is_some() {
            return;
        }
        let mut guests = self.places.guests();
        let kept = guests.kept.get(tenant).copied().unwrap_or_default();
        // Whoever was asked to leave is not among the strangers any more, and goes.
        if kept < self.places.share && guests.strangers.remove(&self.number).is_some() {
            guests.kept.insert(tenant.clone(), kept + 1);
            *keeper = Some(tenant.clone());
        }
    }

    /// A call on the connection was refused for want of a right: until the next that is not, it is a stranger's again.
    pub fn disown(&self) {
        let Some(tenant) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let mut guests = self.places.guests();
        guests.let_go(&tenant);
        guests.strangers.insert(self.number, self.leave.clone());
    }

    /// Resolves when somebody else needs the place more.
    pub(super) fn asked_to_leave(&self) -> WaitForCancellationFuture<'_> {
        self.leave.cancelled()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut guests = self.places.guests();
        guests.strangers.remove(&self.number);
        if let Some(tenant) = keeper {
            guests.let_go(&tenant);
        }
    }
}

impl Guests {
    /// A tenant keeps one less.
    fn let_go(&mut self, tenant: &Tenant) {
        if let Some(kept) = self.kept.get_mut(tenant) {
            *kept -= 1;
            if *kept == 0 {
                self.kept.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants() -> [Tenant; 2] {
        ["a", "b"].map(|name| Tenant::new(name).unwrap())
    }

    fn leaves(place: &Place) -> bool {
        place.leave.is_cancelled()
    }

    #[tokio::test]
    async fn the_stranger_who_came_first_makes_room_and_who_is_known_does_not() {
        let places = Places::new(3, 2);
        let [known, first, second] = [places.take().await, places.take().await, places.take().await];
        known.keep(&tenants()[0]);
        places.make_room();
        assert!(!leaves(&known) && leaves(&first) && !leaves(&second));
        first.keep(&tenants()[0]);
        places.make_room();
        assert!(leaves(&second), "it was too late for the first, which left nothing behind");
        places.make_room();
        assert!(!leaves(&known), "whoever comes now waits");
        drop((first, second));
        places.make_room();
        let _third = places.take().await;
        assert!(!leaves(&known));
    }

    #[tokio::test]
    async fn who_has_lost_the_right_is_a_stranger_again() {
        let places = Places::new(2, 1);
        let [revoked, other] = [places.take().await, places.take().await];
        let [a, _] = tenants();
        revoked.keep(&a);
        revoked.disown();
        revoked.disown();
        // The share is free for another connection.
        other.keep(&a);
        places.make_room();
        assert!(leaves(&revoked) && !leaves(&other));
        drop((revoked, other));
        assert!(places.guests().kept.is_empty() && places.guests().strangers.is_empty());
    }

    #[tokio::test]
    async fn while_there_is_room_everybody_stays() {
        let places = Places::new(2, 2);
        let stranger = places.take().await;
        places.make_room();
        assert!(!leaves(&stranger));
    }

    #[tokio::test]
    async fn a_tenant_keeps_no_more_than_its_share_and_nothing_of_it_is_left() {
        let places = Places::new(4, 2);
        let [a, b] = tenants();
        let mut own = Vec::new();
        for _ in 0..3 {
            let place = places.take().await;
            place.keep(&a);
            // Every call says it again.
            place.keep(&a);
            own.push(place);
        }
        let other = places.take().await;
        other.keep(&b);
        places.make_room();
        assert_eq!(own.iter().map(leaves).collect::<Vec<_>>(), [false, false, true]);
        assert!(!leaves(&other));
        own.clear();
        drop(other);
        let guests = places.guests();
        assert!(guests.kept.is_empty() && guests.strangers.is_empty());
        assert_eq!(places.free.available_permits(), 4);
    }
}
