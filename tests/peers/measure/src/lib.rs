//! Two sides measured in turn, in short slices, so that other load on the machine affects both
//! alike.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Times of pairs of slices.
pub struct Measurement {
    /// Number of pairs of slices.
    pub pairs: usize,
    /// Median seconds of one of our operations.
    pub ours: f64,
    /// Median seconds of one of the peer's operations.
    pub peer: f64,
    /// Least seconds of one of our operations and of the peer's, over all slices.
    pub least: (f64, f64),
    /// The peer's time divided by ours, pair by pair: above 1, ours is faster.
    pub ratio: Spread,
    /// The ratio of processor times, which a busy machine disturbs less.
    pub cpu_ratio: Spread,
}

/// Quartiles and extremes of a list of numbers.
pub struct Spread {
    pub least: f64,
    pub first_quartile: f64,
    pub median: f64,
    pub third_quartile: f64,
    pub most: f64,
}

impl Spread {
    /// Computes the spread of a list that is not empty.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { least: at(0.0), first_quartile: at(0.25), median: at(0.5), third_quartile: at(0.75), most: at(1.0) }
    }
}

/// Duration of one slice.
#[derive(Clone, Copy)]
pub struct Slice {
    /// Seconds of wall-clock time.
    pub wall: f64,
    /// Seconds of processor time, over all threads of the process.
    pub cpu: f64,
}

/// Pairs of slices, ours first.
pub struct Slices {
    pub pairs: Vec<(Slice, Slice)>,
    /// Operations in each slice.
    pub operations: usize,
}

/// Times `work`. Its result is dropped after the measurement.
pub fn time<R>(work: impl FnOnce() -> R) -> Slice {
    let cpu = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let (wall_start, cpu_start) = (Instant::now(), cpu());
    let result = work();
    let slice = Slice { wall: wall_start.elapsed().as_secs_f64(), cpu: (cpu() - cpu_start).as_secs_f64() };
    drop(result);
    slice
}

/// Runs `pairs` slices of each side in turn. Returns pairs with our slice first. The side that goes
/// first alternates as well, because the second side finds the other's key in the cache.
pub fn alternate<A, B>(pairs: usize, mut ours: impl FnMut() -> A, mut peer: impl FnMut() -> B) -> Vec<(Slice, Slice)> {
    let slices = |pair| {
        if pair % 2 == 0 {
            let ours = time(&mut ours);
            (ours, time(&mut peer))
        } else {
            let peer = time(&mut peer);
            (time(&mut ours), peer)
        }
    };
    (0..pairs).map(slices).collect()
}

impl Measurement {
    /// Computes the measurement from pairs of slices.
    pub fn of(Slices { pairs, operations }: Slices) -> Self {
        let spread = |value: fn(&(Slice, Slice)) -> f64| Spread::of(pairs.iter().map(value).collect());
        let (ours, peer) = (spread(|(ours, _)| ours.wall), spread(|(_, peer)| peer.wall));
        let operations = operations as f64;
        Self {
            pairs: pairs.len(),
            ours: ours.median / operations,
            peer: peer.median / operations,
            least: (ours.least / operations, peer.least / operations),
            ratio: spread(|(ours, peer)| peer.wall / ours.wall),
            cpu_ratio: spread(|(ours, peer)| peer.cpu / ours.cpu),
        }
    }
}
