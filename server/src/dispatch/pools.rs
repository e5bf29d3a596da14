//! The view of the attached workers that clients see, by kind of worker. Making the view takes time
//! in proportion to the workers' reports, and its size is limited, whatever the workers report.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use cloakwork_params::{ParameterSet, SetId};
use cloakwork_proto::v1;

use super::{WavePoint, WorkerReport};

/// Workers of one kind, as clients see them.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolView {
    /// The kind, for example `cpu`.
    pub kind: String,
    /// Number of its workers.
    pub workers: usize,
    /// Measured points of the workers' wave-time curves, by set and width. The time of a point is
    /// the one of the slowest worker.
    pub waves: Vec<v1::DeviceWave>,
    /// Groups whose keys are resident, each with the name of its worker. A group has at most
    /// `HOLDERS_MAX` entries in all pools together.
    pub resident: Vec<(Bytes, Arc<str>)>,
    /// Number of resident keys.
    pub resident_keys: u64,
    /// Bytes that the resident keys take.
    pub resident_bytes: u64,
    /// Whether each worker has another worker whose results have the same bits.
    pub verifiable: bool,
}

/// Maximum number of points of the time curve of one pool and set. Workers round widths to powers
/// of two, so their curves are shorter.
const POINTS_MAX: usize = 64;

/// Maximum number of points in the view, unless two for each curve are more. The curves share the
/// points evenly.
const VIEW_POINTS_MAX: usize = 4096;

/// Points that each curve keeps: estimates need the narrowest and the widest.
const CURVE_POINTS_MIN: usize = 2;

/// Maximum number of workers that the view names as holders of one group's key.
const HOLDERS_MAX: usize = 64;

/// Makes the view from the latest reports of the attached workers.
pub(super) fn view<'r>(reports: impl Iterator<Item = &'r WorkerReport>) -> Vec<PoolView> {
    let mut classes: HashMap<&str, usize> = HashMap::new();
    let mut pools: BTreeMap<&str, Pool<'_>> = BTreeMap::new();
    let mut holders: HashMap<&Bytes, usize> = HashMap::new();
    for report in reports {
        pools.entry(&report.report.pool).or_default().add(report, &mut holders);
        // A worker that leaves computes no rows a second time.
        *classes.entry(&report.report.class).or_default() += usize::from(!report.report.draining);
    }
    let curves: usize = pools.values().map(|pool| pool.curves.len()).sum();
    let points = (VIEW_POINTS_MAX / curves.max(1)).clamp(CURVE_POINTS_MIN, POINTS_MAX);
    pools.into_iter().map(|(kind, pool)| pool.view(kind, points, &classes)).collect()
}

/// Workers of one kind.
#[derive(Default)]
struct Pool<'r> {
    workers: usize,
    /// Classes of the workers' results.
    classes: BTreeSet<&'r str>,
    curves: BTreeMap<SetId, Curve>,
    resident: Vec<(Bytes, Arc<str>)>,
    resident_keys: u64,
    resident_bytes: u64,
}

impl<'r> Pool<'r> {
    fn add(&mut self, report: &'r WorkerReport, holders: &mut HashMap<&'r Bytes, usize>) {
        let WorkerReport { name, waves, resident, resident_bytes, .. } = report;
        self.workers += 1;
        if !report.report.draining {
            self.classes.insert(&report.report.class);
        }
        for WavePoint { set, width, micros } in waves {
            self.curves.entry(set.id).or_insert_with(|| Curve::new(set)).add(*width, *micros);
        }
        for group in resident {
            let named = holders.entry(group).or_default();
            if *named < HOLDERS_MAX {
                *named += 1;
                self.resident.push((group.clone(), name.clone()));
            }
        }
        self.resident_keys += resident.len() as u64;
        // Workers may report any number.
        self.resident_bytes = self.resident_bytes.saturating_add(*resident_bytes);
    }

    /// The view of the pool. `classes` counts the workers of each class in all pools.
    fn view(self, kind: &str, points: usize, classes: &HashMap<&str, usize>) -> PoolView {
        let has_second = |class: &&str| !class.is_empty() && classes.get(class).is_some_and(|workers| *workers > 1);
        let verifiable = self.classes.iter().all(has_second);
        PoolView {
            kind: kind.to_owned(),
            workers: self.workers,
            waves: self.curves.into_values().flat_map(|curve| curve.waves(points)).collect(),
            resident: self.resident,
            resident_keys: self.resident_keys,
            resident_bytes: self.resident_bytes,
            verifiable,
        }
    }
}

/// The wave-time curve of a set.
struct Curve {
    set: &'static ParameterSet,
    /// Time of a wave in microseconds, by the width of the wave.
    micros: BTreeMap<u32, u64>,
}

impl Curve {
    fn new(set: &'static ParameterSet) -> Self {
        Self { set, micros: BTreeMap::new() }
    }

    fn add(&mut self, width: u32, micros: u64) {
        let slowest = self.micros.entry(width).or_default();
        *slowest = micros.max(*slowest);
        self.shorten(POINTS_MAX);
    }

    /// Drops wide points except the widest, until at most `points` are left. The remaining points
    /// do not depend on the order in which the points came.
    fn shorten(&mut self, points: usize) {
        while self.micros.len() > points {
            let Some(width) = self.micros.keys().nth_back(1).copied() else { return };
            self.micros.remove(&width);
        }
    }

    fn waves(mut self, points: usize) -> impl Iterator<Item = v1::DeviceWave> {
        self.shorten(points);
        let wave = |(width, micros)| v1::DeviceWave { parameter_set: self.set.name.to_owned(), width, micros };
        self.micros.into_iter().map(wave)
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table;
    use cloakwork_scheduler::{Report, WorkerId};

    use super::*;

    fn point(width: u32, micros: u64) -> WavePoint {
        WavePoint { set: &table::SETS[0], width, micros }
    }

    fn report(number: u32, pool: &str) -> WorkerReport {
        WorkerReport {
            worker: WorkerId(number.into()),
            name: format!("worker {number}").into(),
            report: Report { pool: pool.to_owned(), ..Report::default() },
            waves: Vec::new(),
            resident: Vec::new(),
            resident_bytes: 0,
        }
    }

    fn widths(pool: &PoolView) -> Vec<u32> {
        pool.waves.iter().map(|wave| wave.width).collect()
    }

    #[test]
    fn a_point_has_the_time_of_the_slowest_worker() {
        let [mut first, mut second] = [report(1, "cpu"), report(2, "cpu")];
        first.waves = vec![point(4, 40), point(1, 20)];
        second.waves = vec![point(4, 30), point(1, 50)];
        let gpu = report(3, "gpu");
        let [cpu, gpu] = &view([&first, &second, &gpu].into_iter())[..] else { panic!("two pools") };
        let name = table::SETS[0].name;
        let wave = |width, micros| v1::DeviceWave { parameter_set: name.to_owned(), width, micros };
        assert_eq!(cpu.waves, [wave(1, 50), wave(4, 40)]);
        assert_eq!((cpu.workers, gpu.workers, gpu.waves.len()), (2, 1, 0));
    }

    /// The time for each further point depends on the length of the curve. Without the limit, a few
    /// dishonest workers could occupy the dispatcher with the view.
    #[test]
    fn a_curve_is_short_and_keeps_its_ends_whatever_workers_measure() {
        let mut reports: Vec<_> = (0..32).map(|number| report(number, "cpu")).collect();
        for (index, report) in (0..).zip(&mut reports) {
            report.waves = (0..1024).map(|number| point(1 + index + 32 * number, 1)).collect();
        }
        let [pool] = &view(reports.iter())[..] else { panic!("one pool") };
        let narrow: Vec<u32> = (1..64).collect();
        assert_eq!(widths(pool), [&narrow[..], &[32 * 1024]].concat());
        let [again] = &view(reports.iter().rev())[..] else { panic!("one pool") };
        assert_eq!(again.waves, pool.waves, "in any order");
    }

    /// GetCapabilities sends all points in one message.
    #[test]
    fn many_pools_share_the_points_of_the_view() {
        let mut reports: Vec<_> = (0..256).map(|number| report(number, &format!("pool {number}"))).collect();
        for report in &mut reports {
            let points = table::SETS.iter().flat_map(|set| (1..=64).map(move |width| (set, width)));
            report.waves = points.map(|(set, width)| WavePoint { set, width, micros: 1 }).collect();
        }
        let pools = view(reports.iter());
        let curves = pools.len() * table::SETS.len();
        let points: usize = pools.iter().map(|pool| pool.waves.len()).sum();
        assert!(points <= VIEW_POINTS_MAX.max(CURVE_POINTS_MIN * curves), "{points} points");
        assert!(pools.iter().all(|pool| widths(pool)[..1] == [1] && widths(pool).ends_with(&[64])));
    }

    #[test]
    fn a_group_has_few_named_holders_and_all_its_keys_count() {
        let mut reports: Vec<_> = (0..256).map(|number| report(number, "cpu")).collect();
        for report in &mut reports {
            report.resident = vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")];
        }
        let [pool] = &view(reports.iter())[..] else { panic!("one pool") };
        assert_eq!((pool.resident.len(), pool.resident_keys), (2 * HOLDERS_MAX, 512));
    }

    #[test]
    fn a_pool_is_verifiable_if_each_worker_has_a_second_one_of_its_class() {
        let with = |classes: &[(&str, &str)]| {
            let reports: Vec<WorkerReport> = classes
                .iter()
                .zip(1..)
                .map(|((pool, class), number)| {
                    let mut report = report(number, pool);
                    report.report.draining = class.starts_with("leaving ");
                    report.report.class = class.trim_start_matches("leaving ").to_owned();
                    report
                })
                .collect();
            view(reports.iter()).into_iter().map(|pool| pool.verifiable).collect::<Vec<_>>()
        };
        assert_eq!(with(&[("cpu", "a")]), [false]);
        assert_eq!(with(&[("cpu", "a"), ("cpu", "a")]), [true]);
        assert_eq!(with(&[("cpu", "a"), ("cpu", "a"), ("cpu", "b")]), [false]);
        assert_eq!(with(&[("cpu", "a"), ("cpu", "leaving a")]), [false]);
        assert_eq!(with(&[("cpu", "a"), ("cpu", "a"), ("cpu", "leaving b")]), [true]);
        assert_eq!(with(&[("cpu", "a"), ("gpu", ""), ("gpu", ""), ("other", "a")]), [true, false, true]);
    }

    #[test]
    fn sums_of_reported_sizes_do_not_overflow() {
        let mut reports = [report(1, "cpu"), report(2, "cpu")];
        reports.iter_mut().for_each(|report| report.resident_bytes = u64::MAX);
        let [pool] = &view(reports.iter())[..] else { panic!("one pool") };
        assert_eq!(pool.resident_bytes, u64::MAX);
    }
}
