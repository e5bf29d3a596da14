//! The parameters that a seed determines.

use crate::config::Config;
use crate::sim::plan::{TENTH, Wish, time_to_finish, wish};
use crate::sim::random::Random;
use crate::types::Time;

/// Time from the end of the faults until a server decides: late messages, the silence of the last
/// owner, and a takeover.
const LONGEST_TAKEOVER: Time = 150 * TENTH;

pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) servers: usize,
    pub(super) workers: usize,
    pub(super) wishes: Vec<Wish>,
    /// Whether the client of each job waits in one call, and relies on nothing before its result.
    pub(super) runs: Vec<bool>,
    /// Only servers fail, and never for long. No job may then be computed twice.
    pub(super) gentle: bool,
    pub(super) sync_standby: bool,
    pub(super) faults: u64,
    /// Percentage of visits to the database that go wrong.
    pub(super) bad_visits: u64,
    /// Percentage of calls that arrive late.
    pub(super) slow_calls: u64,
    /// How long a worker may be without a stream before it counts as crashed.
    pub(super) reconnect_micros: u64,
    pub(super) quiet_at: Time,
    pub(super) end: Time,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let gentle = random.percent(30);
        let config = Config {
            lease_micros: if gentle { 150 * TENTH } else { random.range(60, 150) * TENTH },
            progress_timeout_micros: random.range(100, 200) * TENTH,
            attempts_max: 10,
            jobs_max: random.range(8, 24) as usize,
            jobs_per_tenant_max: random.range(4, 16) as usize,
            workers_max: 8,
            leases_per_worker_max: random.range(2, 12) as usize,
            leased_bytes_per_worker_max: random.range(1, 400),
            quantum_cost: random.range(1, 200),
            overtaking_cost_max: random.range(1, 400),
            ..Config::default()
        };
        let quiet_at = random.range(80, 200) * TENTH;
        let count = random.range(2, 10);
        let wishes: Vec<Wish> = (0..count)
            .map(|_| {
                let mut wish = wish(random, quiet_at, 0, 0);
                wish.cost = wish.cost.min(100);
                wish
            })
            .collect();
        let runs = wishes.iter().map(|_| random.percent(50)).collect();
        let end = quiet_at + LONGEST_TAKEOVER + time_to_finish(&config, &wishes);
        Self {
            config,
            servers: random.range(2, 3) as usize,
            workers: random.range(1, 2) as usize,
            wishes,
            runs,
            gentle,
            sync_standby: gentle || random.percent(50),
            faults: random.range(0, if gentle { 10 } else { 6 }),
            bad_visits: if gentle || random.percent(40) { 0 } else { random.range(1, 8) },
            slow_calls: if random.percent(50) { random.range(1, 20) } else { 0 },
            reconnect_micros: if gentle { 100 * TENTH } else { random.range(20, 50) * TENTH },
            quiet_at,
            end,
        }
    }
}
