//! Counts and lines of a resource.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use tokio::sync::oneshot;

use crate::Exceeded;

/// All that changes about a resource.
#[derive(Debug)]
pub(crate) struct State<K> {
    all_max: u64,
    each_max: u64,
    held: u64,
    /// Only tenants that hold or await something.
    tenants: HashMap<K, Tenant>,
    /// Tenants with waiting callers, each once, in the order of their turns.
    turns: VecDeque<K>,
    next_ticket: u64,
}

#[derive(Debug, Default)]
struct Tenant {
    held: u64,
    line: VecDeque<Waiting>,
}

/// A caller in line.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    units: u64,
    granted: oneshot::Sender<()>,
}

/// The place of a caller in its tenant's line.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    pub(crate) granted: oneshot::Receiver<()>,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(crate) fn new(all_max: u64, each_max: u64) -> Self {
        Self { all_max, each_max, held: 0, tenants: HashMap::new(), turns: VecDeque::new(), next_ticket: 0 }
    }

    /// The most units that one request can get.
    pub(crate) fn request_max(&self) -> u64 {
        self.each_max.min(self.all_max)
    }

    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// Counts further units for a tenant, or names the limit that they exceed.
    pub(crate) fn grow(&mut self, tenant: &K, units: u64) -> Result<(), Exceeded> {
        let own = self.tenants.get(tenant).map_or(0, |tenant| tenant.held).saturating_add(units);
        if own > self.each_max {
            return Err(Exceeded::Each { limit: self.each_max, wanted: own });
        }
        let all = self.held.saturating_add(units);
        if all > self.all_max {
            return Err(Exceeded::All { limit: self.all_max, wanted: all });
        }
        self.held = all;
        self.tenants.entry(tenant.clone()).or_default().held = own;
        Ok(())
    }

    /// Puts a caller at the end of its tenant's line.
    pub(crate) fn enter(&mut self, tenant: K, units: u64) -> Ticket {
        let (sender, granted) = oneshot::channel();
        let number = self.next_ticket;
        self.next_ticket += 1;
        let own = self.tenants.entry(tenant.clone()).or_default();
        if own.line.is_empty() {
            self.turns.push_back(tenant);
        }
        own.line.push_back(Waiting { ticket: number, units, granted: sender });
        self.grant();
        Ticket { number, granted }
    }

    /// Takes a caller out of its tenant's line, or its units back where they were granted already.
    pub(crate) fn leave(&mut self, tenant: &K, ticket: u64, units: u64) {
        let Some(own) = self.tenants.get_mut(tenant) else { return };
        match own.line.iter().position(|waiting| waiting.ticket == ticket) {
            Some(place) => {
                own.line.remove(place);
                if own.line.is_empty() {
                    self.turns.retain(|waiting| waiting != tenant);
                }
                self.forget_if_idle(tenant);
                // The caller may have held up others.
                self.grant();
            }
            None => self.give_back(tenant, units),
        }
    }

    pub(crate) fn give_back(&mut self, tenant: &K, units: u64) {
        self.held -= units;
        if let Some(own) = self.tenants.get_mut(tenant) {
            own.held -= units;
        }
        self.forget_if_idle(tenant);
        self.grant();
    }

    /// Grants units to the first callers in line, tenant by tenant.
    ///
    /// A tenant whose own limit is reached is passed over and keeps its turn, since only its own
    /// shares can make room for it. A tenant that lacks only common units stops the round.
    /// Otherwise later, smaller requests would use up each unit that comes free, and a large
    /// request would wait for ever.
    fn grant(&mut self) {
        let mut index = 0;
        while let Some(tenant) = self.turns.get(index) {
            let Some(own) = self.tenants.get_mut(tenant) else { return };
            let Some(units) = own.line.front().map(|waiting| waiting.units) else { return };
            if own.held + units > self.each_max {
                index += 1;
                continue;
            }
            if self.held + units > self.all_max {
                return;
            }
            own.held += units;
            self.held += units;
            if let Some(waiting) = own.line.pop_front() {
                // The receiver lives as long as the caller's place, which gives the units back.
                let _ = waiting.granted.send(());
            }
            let waits_again = !own.line.is_empty();
            let tenant = self.turns.remove(index);
            self.turns.extend(tenant.filter(|_| waits_again));
        }
    }

    fn forget_if_idle(&mut self, tenant: &K) {
        if self.tenants.get(tenant).is_some_and(|own| own.held == 0 && own.line.is_empty()) {
            self.tenants.remove(tenant);
        }
    }
}
