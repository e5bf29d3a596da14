//! Two sides in turn, in short slices, so that both meet the same weather.

use std::time::{Duration, Instant};

/// What a pair of sides took.
pub struct Measurement {
    /// Pairs of slices.
    pub pairs: usize,
    /// Median seconds of one of our slices.
    pub ours: f64,
    /// Median seconds of one of the peer's slices.
    pub peer: f64,
    /// The peer's time over ours, pair by pair: above 1, ours is faster.
    pub ratio: Spread,
}

/// Where a list of numbers lies.
pub struct Spread {
    pub least: f64,
    pub first_quartile: f64,
    pub median: f64,
    pub third_quartile: f64,
    pub most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { least: at(0.0), first_quartile: at(0.25), median: at(0.5), third_quartile: at(0.75), most: at(1.0) }
    }
}

/// Runs `pairs` slices of each side in turn. Who goes first alternates as well, since whoever follows finds
/// the other's key in the cache. The sides time themselves, so that they can leave out what is not theirs.
pub fn alternate(pairs: usize, mut ours: impl FnMut() -> Duration, mut peer: impl FnMut() -> Duration) -> Measurement {
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        if pair % 2 == 0 {
            our_times.push(ours().as_secs_f64());
            peer_times.push(peer().as_secs_f64());
        } else {
            peer_times.push(peer().as_secs_f64());
            our_times.push(ours().as_secs_f64());
        }
    }
    let ratios = peer_times.iter().zip(&our_times).map(|(peer, ours)| peer / ours).collect();
    Measurement {
        pairs,
        ours: Spread::of(our_times).median,
        peer: Spread::of(peer_times).median,
        ratio: Spread::of(ratios),
    }
}

/// How long `work` takes. What it answers is dropped afterwards.
pub fn time<R>(work: impl FnOnce() -> R) -> Duration {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    drop(result);
    took
}
