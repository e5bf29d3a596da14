//! Taking turns at what all tenants share, so that nobody waits behind everything that another one has sent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So much of something at a time, and so much of it for each tenant. Each waits for its own share first, so that only
/// what a tenant may have at once stands in the line of all.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    each: u32,
    tenants: Arc<Mutex<HashMap<Arc<str>, Arc<Semaphore>>>>,
}

/// A turn, until dropped.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "it is there to be dropped")] [OwnedSemaphorePermit; 2]);

/// Tenants that are remembered although they may have nothing under way.
const IDLE_TENANTS_MAX: usize = 1024;

impl Turns {
    /// `all` at a time, and `each` of it for a tenant, which must not be more.
    pub(crate) fn new(all: u32, each: u32) -> Self {
        Self { all: Arc::new(Semaphore::new(all as usize)), each: each.min(all), tenants: Arc::default() }
    }

    /// Waits for a turn that takes `units`: all that a tenant may have, where it is more than that.
    pub(crate) async fn take(&self, tenant: &str, units: usize) -> Turn {
        const OPEN: &str = "nobody closes it";
        let units = u32::try_from(units).unwrap_or(u32::MAX).min(self.each);
        let own = self.of(tenant).acquire_many_owned(units).await.expect(OPEN);
        Turn([self.all.clone().acquire_many_owned(units).await.expect(OPEN), own])
    }

    fn of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = tenants.get(tenant) {
            return turns.clone();
        }
        if tenants.len() >= IDLE_TENANTS_MAX {
            // A turn keeps its semaphore, as whoever waits for one does.
            tenants.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        tenants.entry(tenant.into()).or_insert_with(|| Arc::new(Semaphore::new(self.each as usize))).clone()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_tenant_waits_for_itself_and_not_for_all_of_another() {
        let turns = Turns::new(10, 4);
        let first = turns.take("a", 3).await;
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(turns.take("a", 100))).collect();
        assert!(
            waiting.iter_mut().all(|turn| turn.now_or_never().is_none()),
            "a has one unit left, and they want four"
        );
        assert!(turns.take("b", 4).now_or_never().is_some());
        drop((waiting, first));
        assert!(turns.take("a", 4).now_or_never().is_some());
    }

    #[tokio::test]
    async fn idle_tenants_are_forgotten_and_busy_ones_are_not() {
        let turns = Turns::new(1, 1);
        let busy = turns.take("busy", 1).await;
        for number in 0..2 * IDLE_TENANTS_MAX {
            drop(turns.of(&number.to_string()));
        }
        assert!(turns.tenants.lock().unwrap().len() <= IDLE_TENANTS_MAX);
        assert!(turns.take("busy", 1).now_or_never().is_none());
        drop(busy);
        assert!(turns.take("busy", 1).now_or_never().is_some());
    }

    #[tokio::test]
    async fn nobody_waits_behind_all_that_another_has_sent() {
        let turns = Turns::new(1, 1);
        let order: Arc<Mutex<Vec<&str>>> = Arc::default();
        let first = turns.take("a", 1).await;
        let mut waiting = tokio::task::JoinSet::new();
        for tenant in ["a", "a", "a", "b"] {
            let (turns, order) = (turns.clone(), order.clone());
            waiting.spawn(async move {
                let _turn = turns.take(tenant, 1).await;
                order.lock().unwrap().push(tenant);
            });
            // Each is in line before the next one comes.
            tokio::task::yield_now().await;
        }
        drop(first);
        waiting.join_all().await;
        assert!(order.lock().unwrap().iter().position(|tenant| *tenant == "b").unwrap() <= 1);
    }
}
