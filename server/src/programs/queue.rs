//! The order in which programs are compiled. Tenants share a few slots by cost.
//!
//! Cheap and expensive programs wait in separate lines, and neither line can take the last slot
//! from the other. Otherwise a cheap program would wait for an expensive program of another tenant,
//! which can take a second. In each line, a tenant's virtual time advances by the cost of its
//! programs. The tenant that is furthest behind goes next. A cheap program therefore waits for at
//! most one cheap program of each other tenant.
//!
//! A tenant takes at most one slot in each line. While its expensive program has a slot, its cheap
//! programs come after those of all other tenants. No tenant therefore gets more than one processor
//! by sending many programs, unless a slot would stand idle. An exception is the cheap program that
//! is already being compiled when the expensive one starts; it takes about 20 ms.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::error::{ApiError, OVERLOADED};

/// Maximum cost of a cheap program. Compiling it takes about 20 ms.
pub(super) const CHEAP_BOOTSTRAPS: u64 = 2048;

/// Approximate compile time for each bootstrap, in microseconds.
const BOOTSTRAP_MICROS: u64 = 10;

/// Shortest and longest retry delay for a refused caller.
const RETRY_DELAY: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(10)];

/// Maximum number of idle tenants whose virtual time is remembered. A forgotten tenant starts level
/// with the others.
const IDLE_TENANTS_MAX: usize = 1024;

/// The lines: one of cheap programs and one of expensive programs.
const LINES: usize = 2;
const CHEAP: usize = 0;
const EXPENSIVE: usize = 1;

/// Hands out slots. Clones share the state.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Mutex<State>>);

/// The limit on a tenant's waiting programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// The tenant's limit applies: a call that exceeds it is refused.
    Tenant,
    /// No limit applies. The program belongs to an acknowledged job, whose result would be lost
    /// otherwise.
    None,
}

#[derive(Debug)]
struct State {
    /// Maximum cost that may wait and run for one tenant. A tenant's only program is admitted at
    /// any cost.
    tenant_cost_max: u64,
    /// Number of free slots.
    free: usize,
    /// Number of further slots that each line may take.
    free_of_line: [usize; LINES],
    tenants: HashMap<Arc<str>, Tenant>,
    /// For each line, the latest virtual time at which a program started.
    clock: [u64; LINES],
    /// The number of the next program that arrives.
    next: u64,
}

/// A tenant's programs in both lines.
#[derive(Debug, Default)]
struct Tenant {
    /// Cost of all programs that wait or are being compiled.
    cost: u64,
    lines: [Own; LINES],
}

/// A tenant's programs in one line.
#[derive(Debug, Default)]
struct Own {
    /// Waiting programs, in order of arrival.
    waiting: VecDeque<Waiting>,
    /// Whether a program is being compiled. A tenant takes at most one slot of each line.
    is_running: bool,
    /// The virtual time at which the next program starts.
    start: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    cost: u64,
    granted: oneshot::Sender<()>,
}

/// A place in the line, and the slot once it is granted. Dropping the place releases both.
#[derive(Debug)]
pub(super) struct Place {
    state: Arc<Mutex<State>>,
    tenant: Arc<str>,
    line: usize,
    number: u64,
    cost: u64,
    bound: Bound,
    granted: oneshot::Receiver<()>,
}

impl Queue {
    /// A queue with `slots` slots, at least two, and a limit on the cost of each tenant.
    pub(super) fn new(slots: usize, tenant_cost_max: u64) -> Self {
        let slots = slots.max(LINES);
        Self(Arc::new(Mutex::new(State {
            tenant_cost_max,
            free: slots,
            free_of_line: [slots - 1; LINES],
            tenants: HashMap::new(),
            clock: [0; LINES],
            next: 0,
        })))
    }

    /// Waits for a slot.
    pub(super) async fn take(&self, tenant: &str, cost: u64, bound: Bound) -> Result<Place, ApiError> {
        let mut place = self.enter(tenant, cost, bound)?;
        // The sender stays in the line until the slot is granted.
        let _ = (&mut place.granted).await;
        Ok(place)
    }

    /// Enters the line, or refuses the program.
    fn enter(&self, tenant: &str, cost: u64, bound: Bound) -> Result<Place, ApiError> {
        let mut guard = lock(&self.0);
        let state = &mut *guard;
        let cost = cost.max(1);
        let held = state.tenants.get(tenant).map_or(0, |tenant| tenant.cost);
        state.check(tenant, held, cost, bound)?;
        let (tenant, number) = (Arc::<str>::from(tenant), state.next);
        state.next += 1;
        let line = if cost > CHEAP_BOOTSTRAPS { EXPENSIVE } else { CHEAP };
        let (sender, granted) = oneshot::channel();
        let entry = state.tenants.entry(tenant.clone()).or_default();
        entry.cost = entry.cost.saturating_add(cost);
        let own = &mut entry.lines[line];
        if own.is_idle() {
            // Idle time earns no credit.
            own.start = own.start.max(state.clock[line]);
        }
        own.waiting.push_back(Waiting { number, cost, granted: sender });
        state.grant();
        Ok(Place { state: self.0.clone(), tenant, line, number, cost, bound, granted })
    }
}

impl State {
    /// Refuses a cost that exceeds the limit together with the tenant's held cost.
    fn check(&self, tenant: &str, held: u64, cost: u64, bound: Bound) -> Result<(), ApiError> {
        let max = self.tenant_cost_max;
        let fits = bound == Bound::None || held == 0 || held.saturating_add(cost) <= max;
        if fits { Ok(()) } else { Err(refusal(tenant, held, max)) }
    }

    /// Starts as many programs as the free slots allow.
    fn grant(&mut self) {
        while let Some((tenant, line)) = self.choose() {
            let Some(own) = self.tenants.get_mut(&tenant).map(|tenant| &mut tenant.lines[line]) else { return };
            let Some(Waiting { cost, granted, .. }) = own.waiting.pop_front() else { return };
            own.is_running = true;
            self.clock[line] = self.clock[line].max(own.start);
            own.start = own.start.saturating_add(cost);
            self.free -= 1;
            self.free_of_line[line] -= 1;
            // The receiver still exists: a caller that leaves removes its entry from the line
            // first.
            let _ = granted.send(());
        }
    }

    /// The tenant and the line of the next program. Of the two lines, the one whose next program
    /// arrived first is chosen.
    fn choose(&self) -> Option<(Arc<str>, usize)> {
        let may_start = |line: &usize| self.free > 0 && self.free_of_line[*line] > 0;
        let firsts = (0..LINES).filter(may_start).filter_map(|line| self.first(line));
        firsts.min().map(|(_, _, tenant, line)| (tenant, line))
    }

    /// The next program of a line: the program of the tenant that is furthest behind. Ties go to
    /// the program that arrived first. Cheap programs of a tenant whose expensive program is being
    /// compiled come last.
    fn first(&self, line: usize) -> Option<(bool, u64, Arc<str>, usize)> {
        let ready = self.tenants.iter().filter(|(_, tenant)| !tenant.lines[line].is_running);
        let first = ready.filter_map(|(name, tenant)| {
            let own = &tenant.lines[line];
            let has_slot = tenant.lines[EXPENSIVE].is_running;
            own.waiting.front().map(|waiting| (has_slot, own.start, waiting.number, name))
        });
        first.min().map(|(has_slot, _, number, name)| (has_slot, number, name.clone(), line))
    }

    fn leave(&mut self, place: &Place) {
        let Some(tenant) = self.tenants.get_mut(&place.tenant) else { return };
        tenant.cost = tenant.cost.saturating_sub(place.cost);
        let own = &mut tenant.lines[place.line];
        match own.waiting.iter().position(|waiting| waiting.number == place.number) {
            Some(position) => _ = own.waiting.remove(position),
            None => {
                own.is_running = false;
                self.free += 1;
                self.free_of_line[place.line] += 1;
            }
        }
        let is_level = |(own, clock): (&Own, &u64)| own.start <= *clock;
        if tenant.cost == 0 && tenant.lines.iter().zip(&self.clock).all(is_level) {
            self.tenants.remove(&place.tenant);
        }
        if self.tenants.len() > IDLE_TENANTS_MAX {
            self.tenants.retain(|_, tenant| tenant.cost > 0);
        }
        self.grant();
    }
}

impl Own {
    fn is_idle(&self) -> bool {
        !self.is_running && self.waiting.is_empty()
    }
}

impl Place {
    /// Raises the cost of the program that is being compiled, once more is known. Refuses the
    /// program if the cost exceeds the limit.
    pub(super) fn raise(&mut self, cost: u64) -> Result<(), ApiError> {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let more = cost.saturating_sub(self.cost);
        let held = state.tenants.get(&self.tenant).map_or(0, |tenant| tenant.cost - self.cost);
        if more > 0 {
            state.check(&self.tenant, held, cost, self.bound)?;
        }
        if let Some(tenant) = state.tenants.get_mut(&self.tenant) {
            tenant.cost = tenant.cost.saturating_add(more);
            let own = &mut tenant.lines[self.line];
            own.start = own.start.saturating_add(more);
        }
        self.cost += more;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.state).leave(self);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses a program. The retry delay is the compile time of the tenant's own programs.
fn refusal(tenant: &str, held: u64, max: u64) -> ApiError {
    const LIMIT: &str = "tenant_compile_bootstraps";
    let delay = Duration::from_micros(held.saturating_mul(BOOTSTRAP_MICROS)).clamp(RETRY_DELAY[0], RETRY_DELAY[1]);
    OVERLOADED
        .error(format!("programs of {held} bootstraps wait to be compiled: at most {max} ({LIMIT})"))
        .with("limit", LIMIT)
        .retry_after(delay)
        .quota(format!("tenants/{tenant}"), format!("{LIMIT} = {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 20;
    const LARGEST: u64 = 1 << 17;

    impl Place {
        fn is_granted(&mut self) -> bool {
            // The grant is either ready now, or was received before.
            !matches!(self.granted.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        }
    }

    fn enter(queue: &Queue, tenant: &str, cost: u64) -> Place {
        queue.enter(tenant, cost, Bound::Tenant).unwrap()
    }

    /// A tenant's load. The tenant sends its next program when the previous one ends, with a number
    /// waiting, or at intervals.
    #[derive(Clone, Copy)]
    struct Load {
        tenant: &'static str,
        cost: u64,
        waiting: usize,
        /// Interval between two programs. None if the tenant keeps `waiting` programs in the queue.
        every: Option<u64>,
    }

    /// Returns the longest wait and the compiled cost of each load. Simulated time passes in units
    /// of cost.
    fn simulated(queue: &Queue, loads: &[Load], until: u64) -> (Vec<u64>, Vec<u64>) {
        struct Sent {
            load: usize,
            place: Place,
            came: u64,
            ends: Option<u64>,
        }
        let mut sent: Vec<Sent> = Vec::new();
        let mut due = vec![0; loads.len()];
        let (mut longest, mut done) = (vec![0; loads.len()], vec![0; loads.len()]);
        let mut now = 0;
        while now < until {
            for (index, load) in loads.iter().enumerate() {
                let of_load = sent.iter().filter(|sent| sent.load == index).count();
                let count = match load.every {
                    Some(every) if due[index] <= now => {
                        due[index] = now + every;
                        1
                    }
                    Some(_) => 0,
                    None => load.waiting - of_load.min(load.waiting),
                };
                for _ in 0..count {
                    let place = enter(queue, load.tenant, load.cost);
                    sent.push(Sent { load: index, place, came: now, ends: None });
                }
            }
            for Sent { load, place, came, ends } in &mut sent {
                if ends.is_none() && place.is_granted() {
                    longest[*load] = longest[*load].max(now - *came);
                    *ends = Some(now + loads[*load].cost);
                }
            }
            let next_due = loads.iter().zip(&due).filter(|(load, _)| load.every.is_some()).map(|(_, due)| *due);
            let next = sent.iter().filter_map(|sent| sent.ends).chain(next_due).min().unwrap();
            // Time stands still while an event is pending.
            now = next.max(now);
            for gone in sent.extract_if(.., |sent| sent.ends.is_some_and(|ends| ends <= now)) {
                done[gone.load] += loads[gone.load].cost;
            }
            let late = sent.iter().filter(|sent| sent.ends.is_none()).map(|sent| (sent.load, now - sent.came));
            late.for_each(|(load, wait)| longest[load] = longest[load].max(wait));
        }
        (longest, done)
    }

    #[test]
    fn a_cheap_program_waits_for_cheap_ones_only() {
        for slots in [2, 8] {
            let queue = Queue::new(slots, MAX);
            let loads = [
                Load { tenant: "expensive", cost: LARGEST, waiting: 8, every: None },
                Load { tenant: "expensive too", cost: LARGEST, waiting: 8, every: None },
                Load { tenant: "many", cost: CHEAP_BOOTSTRAPS, waiting: 50, every: None },
                Load { tenant: "small", cost: 100, waiting: 0, every: Some(5000) },
            ];
            let (longest, _) = simulated(&queue, &loads, 10_000_000);
            assert!(longest[3] <= CHEAP_BOOTSTRAPS, "{slots} slots: {longest:?}");
            assert!(longest[0] >= LARGEST, "{slots} slots: {longest:?}");
        }
    }

    /// Many tenants that flood the queue with cheap programs share the slot of their line. A
    /// program sent at intervals waits for at most one program of each of these tenants.
    #[test]
    fn a_flood_of_cheap_programs_of_many_tenants_is_shared() {
        const FLOODS: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
        const UNTIL: u64 = 20_000_000;
        for slots in [2, 3, 8] {
            let queue = Queue::new(slots, MAX);
            let flood = |tenant| Load { tenant, cost: CHEAP_BOOTSTRAPS, waiting: 20, every: None };
            let mut loads = FLOODS.map(flood).to_vec();
            loads.push(Load { tenant: "expensive", cost: LARGEST, waiting: 4, every: None });
            loads.push(Load { tenant: "small", cost: 100, waiting: 0, every: Some(50_000) });
            let (longest, done) = simulated(&queue, &loads, UNTIL);
            let (floods, others) = done.split_at(FLOODS.len());
            let [least, most] = [floods.iter().min(), floods.iter().max()].map(|done| *done.unwrap());
            assert!(most - least <= 2 * CHEAP_BOOTSTRAPS, "{slots} slots: {floods:?}");
            assert!(most * 16 >= UNTIL / 2, "{slots} slots: {floods:?}");
            assert!(others[0] >= UNTIL - 2 * LARGEST, "the expensive line has its slot all the time: {others:?}");
            let wait = *longest.last().unwrap();
            assert!(wait <= (FLOODS.len() as u64 + 1) * CHEAP_BOOTSTRAPS, "{slots} slots: {wait}");
        }
    }

    #[test]
    fn cheap_programs_of_a_tenant_with_a_running_expensive_program_come_last() {
        let queue = Queue::new(2, MAX);
        let mut expensive = enter(&queue, "a", LARGEST);
        let running = enter(&queue, "b", 1000);
        let mut own = enter(&queue, "a", 10);
        // These programs arrived later, and their tenant has had as much.
        let mut others = [enter(&queue, "b", 1000), enter(&queue, "b", 1000)];
        assert!(expensive.is_granted() && !own.is_granted());
        drop(running);
        assert!(others[0].is_granted() && !own.is_granted());
        let [first, mut second] = others;
        // Once the expensive program has ended, its tenant is further behind than the other tenant.
        drop(expensive);
        drop(first);
        assert!(own.is_granted() && !second.is_granted());
        drop(own);
        assert!(second.is_granted());
    }

    #[test]
    fn a_raised_cost_counts_for_its_tenant() {
        let queue = Queue::new(2, 2 * LARGEST);
        let mut first = enter(&queue, "a", CHEAP_BOOTSTRAPS + 1);
        first.raise(LARGEST).unwrap();
        first.raise(10).expect("the cost does not change");
        assert_eq!(lock(&queue.0).tenants["a"].cost, LARGEST);
        assert!(queue.enter("a", LARGEST + 1, Bound::Tenant).is_err());
        let [mut own, mut other] = ["a", "b"].map(|tenant| enter(&queue, tenant, CHEAP_BOOTSTRAPS + 1));
        drop(first);
        assert!(other.is_granted() && !own.is_granted(), "the tenant has had more than the other");
        drop(other);
        assert!(own.is_granted());
        let of_job = queue.enter("a", LARGEST, Bound::None).unwrap();
        assert_eq!(own.raise(LARGEST + 1).unwrap_err().reason(), OVERLOADED);
        drop(of_job);
        own.raise(u64::MAX).expect("a tenant's only program is admitted at any cost");
        drop(own);
        assert!(lock(&queue.0).tenants.values().all(|tenant| tenant.cost == 0));
    }

    #[test]
    fn a_tenants_own_expensive_programs_do_not_hold_up_its_cheap_ones() {
        let queue = Queue::new(2, MAX);
        let mut expensive: Vec<Place> = (0..3).map(|_| enter(&queue, "a", LARGEST)).collect();
        assert!(enter(&queue, "a", 10).is_granted());
        assert_eq!(expensive.iter_mut().filter_map(|place| place.is_granted().then_some(())).count(), 1);
    }

    #[test]
    fn tenants_share_by_cost_and_not_by_number() {
        let queue = Queue::new(2, MAX);
        let loads = [
            Load { tenant: "large", cost: 80_000, waiting: 4, every: None },
            Load { tenant: "middling", cost: 5000, waiting: 4, every: None },
        ];
        let (longest, done) = simulated(&queue, &loads, 20_000_000);
        assert!(done[0].abs_diff(done[1]) <= 2 * 80_000, "{done:?}");
        assert!(longest[1] <= 4 * 85_000, "{longest:?}");
    }

    #[test]
    fn the_cost_limit_applies_to_each_tenant_separately() {
        let queue = Queue::new(2, 2 * LARGEST);
        let held = [enter(&queue, "a", LARGEST), enter(&queue, "a", LARGEST - 1)];
        let refused = queue.enter("a", 2, Bound::Tenant).unwrap_err();
        assert_eq!(refused.reason(), OVERLOADED);
        assert!(
            refused.retry_delay().is_some_and(|delay| delay >= RETRY_DELAY[0] && delay <= RETRY_DELAY[1]),
            "{refused:?}"
        );
        assert!(refused.message().contains("tenant_compile_bootstraps"), "{refused}");
        assert!(queue.enter("b", LARGEST, Bound::Tenant).is_ok());
        assert!(queue.enter("a", LARGEST, Bound::None).is_ok(), "no limit applies to an acknowledged job");
        drop(held);
        assert!(queue.enter("a", u64::MAX, Bound::Tenant).is_ok(), "a tenant's only program is admitted at any cost");
    }

    #[test]
    fn dropped_places_release_their_cost_and_slots() {
        let queue = Queue::new(2, MAX);
        let first = enter(&queue, "a", LARGEST);
        let gone: Vec<Place> = (0..3).map(|_| enter(&queue, "a", 5000)).collect();
        let mut last = enter(&queue, "a", 6000);
        drop(gone);
        assert_eq!(lock(&queue.0).tenants["a"].cost, LARGEST + 6000);
        assert!(!last.is_granted());
        drop(first);
        assert!(last.is_granted());
        drop(last);
        let state = lock(&queue.0);
        assert_eq!((state.free, state.free_of_line), (2, [1, 1]));
        assert!(state.tenants.values().all(|tenant| tenant.cost == 0), "{:?}", state.tenants);
    }

    #[test]
    fn idle_tenants_are_forgotten() {
        let queue = Queue::new(2, MAX);
        for number in 0..2 * IDLE_TENANTS_MAX {
            drop(enter(&queue, &number.to_string(), LARGEST));
        }
        assert!(lock(&queue.0).tenants.len() <= IDLE_TENANTS_MAX);
    }
}
