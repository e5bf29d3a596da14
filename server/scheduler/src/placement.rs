//! Which shard gets how many workers. A worker serves one shard at a time: a job that may kill its
//! worker must be alone there, and two schedulers could not keep it alone.
//!
//! All owners of shards read one table of loads. Each computes the whole plan from it, and carries
//! out its own part. No owner asks another one, and no two owners fill one gap.
//!
//! The plan moves workers toward shards whose work takes longer than that of the average worker. A
//! shard gives only a part of its workers at a time, because the table does not show how busy they
//! are: a shard without a backlog may need all of them. The next table shows whether it can give
//! more.

/// The load of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Number of workers.
    pub workers: u32,
    /// Time that one worker would take for all unfinished jobs, in milliseconds.
    pub backlog_millis: u64,
    /// How long the shard has had workers; without workers, how long it has had work. In
    /// milliseconds.
    pub term_millis: u64,
}

/// Number of workers that each shard should have. The total stays.
///
/// - Each shard with work gets a worker before another gets its second, if there are enough. If
///   there are as many workers as shards, each shard gets one.
/// - Shards whose workers have little work, or about as much as the average, stay as they are.
///   Workers therefore do not move to and fro.
/// - If there are fewer workers than shards with work, workers take turns. A worker moves on once
///   it has served its shard for [`TERM_MILLIS`], and another shard has waited as long.
/// - The order of the shards decides between equals.
pub fn apportion(loads: &[Load]) -> Vec<u32> {
    let mut seats: Vec<u32> = loads.iter().map(|load| load.workers).collect();
    fill_empty(loads, &mut seats);
    let now: Vec<Load> = loads.iter().zip(&seats).map(|(load, seats)| Load { workers: *seats, ..*load }).collect();
    // A shard that has just got its first worker is no giver, and gets more with the next table.
    let is_fresh = |index: usize| loads[index].workers == 0;
    let mean = Mean::of(&now);
    if !now.iter().any(|load| mean.is_needy(load)) {
        return seats;
    }
    let mut pool = 0;
    for (index, load) in now.iter().enumerate().filter(|(index, _)| !is_fresh(*index)) {
        // A worker that the shard has given to an empty one counts.
        let given = mean.gift_max(load).saturating_sub(loads[index].workers - load.workers);
        (seats[index], pool) = (seats[index] - given, pool + given);
    }
    // The method of highest averages: each worker joins the shard where it leaves the most work for
    // each worker.
    while pool > 0 {
        let wants = |index: &usize| mean.is_needy(&now[*index]) && mean.wants(&now[*index], seats[*index]);
        let Some(index) = highest(&now, &seats, (0..now.len()).filter(wants)) else { break };
        (seats[index], pool) = (seats[index] + 1, pool - 1);
    }
    // The rest stays, with those that would miss it most.
    while pool > 0 {
        let misses = |index: &usize| seats[*index] < now[*index].workers;
        let Some(index) = highest(&now, &seats, (0..now.len()).filter(misses)) else { break };
        (seats[index], pool) = (seats[index] + 1, pool - 1);
    }
    seats
}

/// The shards to which a shard should give a worker each, by their places in the table. Empty if
/// the shard should keep its workers.
pub fn gifts(loads: &[Load], shard: usize) -> Vec<usize> {
    let seats = apportion(loads);
    let surplus = |index: usize| loads[index].workers.saturating_sub(seats[index]) as usize;
    let missing = |index: usize| seats[index].saturating_sub(loads[index].workers) as usize;
    // All owners count the surplus workers, and the places for them, in the order of the shards.
    // Each surplus worker has one place.
    let places = (0..loads.len()).flat_map(|index| std::iter::repeat_n(index, missing(index)));
    let before: usize = (0..shard.min(loads.len())).map(surplus).sum();
    let own = if shard < loads.len() { surplus(shard) } else { 0 };
    places.skip(before).take(own).collect()
}

/// The place of the shard that a new worker should join, or `None` without shards.
pub fn newcomer(loads: &[Load]) -> Option<usize> {
    let seats: Vec<u32> = loads.iter().map(|load| load.workers).collect();
    let fewest = (0..loads.len()).filter(|index| seats[*index] == 0).max_by_key(|index| loads[*index].backlog_millis);
    let idle = (0..loads.len()).min_by_key(|index| seats[*index]);
    let busiest = highest(loads, &seats, (0..loads.len()).filter(|index| loads[*index].backlog_millis > 0));
    fewest.or(busiest).or(idle)
}

/// How long a shard keeps its last worker while another shard with work has none.
pub const TERM_MILLIS: u64 = 10_000;

/// Work for each worker below which a shard needs no more workers. A move costs a worker the keys
/// that it has loaded.
const ENOUGH_MILLIS: u64 = 250;
/// Fraction of its workers that a shard gives at a time.
const GIFT_DIVISOR: u32 = 16;

/// Gives each empty shard its first worker, as far as other shards can do without.
fn fill_empty(loads: &[Load], seats: &mut [u32]) {
    let is_ample = loads.iter().map(|load| load.workers as usize).sum::<usize>() >= loads.len();
    let mut empty: Vec<usize> = (0..loads.len())
        .filter(|index| loads[*index].workers == 0 && (is_ample || loads[*index].backlog_millis > 0))
        .collect();
    // The shards that waited for longest come first.
    empty.sort_by_key(|index| std::cmp::Reverse((loads[*index].backlog_millis > 0, loads[*index].term_millis)));
    for needy in empty {
        let can_give = |index: &usize| match seats[*index] {
            _ if loads[*index].workers == 0 => false,
            0 => false,
            1 => gives_last(&loads[*index], &loads[needy]),
            _ => true,
        };
        // The shard with the least work for each of the workers that it keeps, and a shard's last
        // worker only if no shard has two.
        let giver = (0..loads.len()).filter(can_give).min_by(|a, b| {
            let left = |index: usize| (loads[index].backlog_millis, seats[index] - 1);
            let product = |work: u64, workers: u32| u128::from(work) * u128::from(workers);
            let ((work_a, left_a), (work_b, left_b)) = (left(*a), left(*b));
            (left_a == 0).cmp(&(left_b == 0)).then(product(work_a, left_b).cmp(&product(work_b, left_a)))
        });
        if let Some(giver) = giver {
            (seats[giver], seats[needy]) = (seats[giver] - 1, 1);
        }
    }
}

/// Whether a shard gives its last worker to a shard that has none.
fn gives_last(giver: &Load, needy: &Load) -> bool {
    needy.backlog_millis > 0 && (giver.backlog_millis == 0 || giver.term_millis.min(needy.term_millis) >= TERM_MILLIS)
}

/// The work of an average worker, as a fraction: the backlog and the workers of all shards.
struct Mean {
    backlog_millis: u128,
    workers: u128,
}

impl Mean {
    fn of(loads: &[Load]) -> Self {
        let workers = loads.iter().map(|load| u128::from(load.workers)).sum();
        let backlog_millis = loads.iter().map(|load| u128::from(load.backlog_millis)).sum();
        Self { backlog_millis, workers }
    }

    /// Whether the workers of a shard have more work than the average, and not just a little work.
    /// Shards that give have at most half of the average, so equal shards move no workers. A higher
    /// bound would leave one shard with idle workers while all others have equal backlogs.
    fn is_needy(&self, load: &Load) -> bool {
        let (backlog, workers) = (u128::from(load.backlog_millis), u128::from(load.workers));
        let above_mean = backlog * self.workers > self.backlog_millis * workers;
        above_mean && backlog > u128::from(ENOUGH_MILLIS) * workers
    }

    /// Whether a needy shard with this number of workers should get another one.
    fn wants(&self, load: &Load, seats: u32) -> bool {
        let (backlog, after) = (u128::from(load.backlog_millis), u128::from(seats) + 1);
        let stays_above_mean = backlog * self.workers > self.backlog_millis * after;
        stays_above_mean && backlog > u128::from(ENOUGH_MILLIS) * after
    }

    /// Number of workers that a shard can do without, as far as the table shows.
    fn gift_max(&self, load: &Load) -> u32 {
        let (backlog, workers) = (u128::from(load.backlog_millis), u128::from(load.workers));
        // Workers with half of the average work are not needed for it.
        if load.workers == 0 || 2 * backlog * self.workers > self.backlog_millis * workers {
            return 0;
        }
        load.workers.div_ceil(GIFT_DIVISOR).min(load.workers - 1)
    }
}

/// The shard whose workers would have the most work after it got one more.
fn highest(loads: &[Load], seats: &[u32], among: impl Iterator<Item = usize>) -> Option<usize> {
    let product = |index: usize, other: usize| u128::from(loads[index].backlog_millis) * u128::from(seats[other] + 1);
    among.reduce(|best, index| if product(index, best) > product(best, index) { index } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::random::Random;

    fn loads<const N: usize>(of: [(u32, u64); N]) -> Vec<Load> {
        of.into_iter().map(|(workers, backlog_millis)| Load { workers, backlog_millis, term_millis: 0 }).collect()
    }

    #[test]
    fn workers_follow_a_backlog_step_by_step() {
        assert_eq!(apportion(&loads([(80, 0), (80, 800_000), (80, 0)])), [75, 90, 75]);
        assert_eq!(gifts(&loads([(2, 0), (2, 40_000)]), 0), [1]);
        assert_eq!(gifts(&loads([(2, 0), (2, 40_000)]), 1), []);
    }

    #[test]
    fn workers_return_after_a_burst() {
        let mut table = [Load { workers: 68, backlog_millis: 200_000, term_millis: 0 }; 12];
        table[10] = Load { workers: 240, backlog_millis: 700, term_millis: 0 };
        assert_eq!(apportion(&table)[10], 225);
    }

    #[test]
    fn small_differences_move_no_worker() {
        for table in [[(4, 1000), (4, 1000)], [(4, 0), (4, 999)], [(40, 100_000), (40, 140_000)], [(1, 0), (4, 0)]] {
            assert_eq!(apportion(&loads(table)), table.map(|(workers, _)| workers), "{table:?}");
        }
    }

    #[test]
    fn every_shard_gets_a_worker_before_one_gets_two() {
        assert_eq!(apportion(&loads([(8, 500_000), (0, 10), (1, 0)])), [7, 1, 1]);
        assert_eq!(apportion(&loads([(3, 0), (0, 0), (0, 0)])), [1, 1, 1]);
        assert_eq!(apportion(&loads([(2, 0), (0, 0), (0, 10)])), [1, 0, 1], "there are two workers");
        assert_eq!(apportion(&loads([(1, 0), (0, 10)])), [0, 1], "a shard without work needs no worker");
        assert_eq!(apportion(&loads([(1, 0), (0, 0)])), [1, 0]);
    }

    #[test]
    fn workers_take_turns_if_there_are_too_few() {
        let table = |served, waiting| {
            vec![
                Load { workers: 1, backlog_millis: 10, term_millis: served },
                Load { workers: 0, backlog_millis: 10, term_millis: waiting },
            ]
        };
        assert_eq!(apportion(&table(TERM_MILLIS, TERM_MILLIS)), [0, 1]);
        assert_eq!(apportion(&table(TERM_MILLIS - 1, TERM_MILLIS)), [1, 0]);
        assert_eq!(apportion(&table(TERM_MILLIS, TERM_MILLIS - 1)), [1, 0]);
    }

    #[test]
    fn a_new_worker_joins_the_shard_that_needs_it() {
        assert_eq!(newcomer(&loads([(1, 1_000_000), (0, 0), (0, 10)])), Some(2));
        assert_eq!(newcomer(&loads([(1, 10), (1, 20)])), Some(1));
        assert_eq!(newcomer(&loads([(2, 0), (1, 0), (1, 0)])), Some(1));
        assert_eq!(newcomer(&[]), None);
    }

    #[test]
    fn a_shard_outside_of_the_table_gives_nothing() {
        assert_eq!(gifts(&loads([(2, 0), (2, 40_000)]), 2), []);
        assert_eq!(gifts(&[], 0), []);
    }

    /// Properties of any table.
    #[test]
    fn random_tables_keep_the_promises() {
        let mut random = Random(1);
        for _ in 0..20_000 {
            let count = random.range(1, 12);
            let any = |random: &mut Random| {
                let workers = random.range(0, 100) as u32 * u32::from(random.percent(80));
                let backlog_millis = random.range(0, 1_000_000) * u64::from(random.percent(70));
                Load { workers, backlog_millis, term_millis: random.range(0, 2 * TERM_MILLIS) }
            };
            let table: Vec<Load> = (0..count).map(|_| any(&mut random)).collect();
            let seats = apportion(&table);
            let total: u32 = table.iter().map(|load| load.workers).sum();
            assert_eq!(seats.iter().sum::<u32>(), total, "{table:?}");
            let mut after: Vec<u32> = table.iter().map(|load| load.workers).collect();
            for from in 0..table.len() {
                for to in gifts(&table, from) {
                    (after[from], after[to]) = (after[from] - 1, after[to] + 1);
                }
            }
            assert_eq!(after, seats, "the owners together carry out the plan: {table:?}");
            let busy = table.iter().filter(|load| load.backlog_millis > 0).count();
            for (load, seats) in table.iter().zip(&seats) {
                let must_have = load.backlog_millis > 0 && total as usize >= busy || total as usize >= table.len();
                assert!(!must_have || *seats > 0, "a shard has no worker: {table:?}: {seats:?}");
            }
        }
    }
}
