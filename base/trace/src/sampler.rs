//! Which traces are recorded.

use std::sync::{Mutex, PoisonError};

use crate::TraceContext;

/// The traces that are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Share of the calls without a context that begin a trace, from 0 to 1.
    pub ratio: f64,
    /// Maximum number of traces that begin in a second, and of sampled traces of callers that
    /// continue here. Callers decide about their own traces, so without this limit they could have
    /// every call traced.
    pub traces_per_second: u32,
}

/// Decides about each call.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// A random number below this one begins a trace.
    below: u128,
    traces_per_second: u32,
    window: Mutex<Window>,
}

/// The traces of the current second.
#[derive(Debug, Default)]
struct Window {
    second: i64,
    traces: u32,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling) -> Self {
        let Sampling { ratio, traces_per_second } = sampling;
        // Two to the power of 64, because random numbers have 64 bits.
        let below = (ratio.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0) as u128;
        Self { below, traces_per_second, window: Mutex::default() }
    }

    /// Whether a call with this parent is recorded. `random` is a random number.
    pub(crate) fn samples(&self, parent: Option<TraceContext>, random: u64, now_micros: i64) -> bool {
        let is_wanted = match parent {
            Some(parent) => parent.is_sampled,
            None => u128::from(random) < self.below,
        };
        is_wanted && self.has_room(now_micros)
    }

    fn has_room(&self, now_micros: i64) -> bool {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now_micros.div_euclid(1_000_000);
        if window.second != second {
            *window = Window { second, traces: 0 };
        }
        window.traces = window.traces.saturating_add(1);
        window.traces <= self.traces_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpanId, TraceId, ids::mixed};

    fn sampler(ratio: f64, traces_per_second: u32) -> Sampler {
        Sampler::new(Sampling { ratio, traces_per_second })
    }

    fn parent(is_sampled: bool) -> Option<TraceContext> {
        Some(TraceContext { trace: TraceId([1; 16]), span: SpanId([1; 8]), is_sampled })
    }

    #[test]
    fn a_share_of_the_calls_without_a_context_is_sampled() {
        let sampler = sampler(0.25, u32::MAX);
        let sampled = (0..100_000).filter(|number| sampler.samples(None, mixed(*number), 0)).count();
        assert!((24_000..26_000).contains(&sampled), "{sampled}");
        let [none, all] = [0.0, 1.0].map(|ratio| self::sampler(ratio, u32::MAX));
        for random in [0, 1, u64::MAX] {
            assert!(!none.samples(None, random, 0) && all.samples(None, random, 0));
        }
    }

    #[test]
    fn the_caller_decides_about_its_own_trace() {
        let [none, all] = [0.0, 1.0].map(|ratio| sampler(ratio, u32::MAX));
        assert!(none.samples(parent(true), 0, 0));
        assert!(!all.samples(parent(false), 0, 0));
    }

    #[test]
    fn each_second_has_room_for_so_many_traces() {
        let sampler = sampler(1.0, 3);
        let in_second = |second: i64| {
            (0..10).filter(|number| sampler.samples(parent(true), 0, second * 1_000_000 + number)).count()
        };
        assert_eq!([in_second(5), in_second(6), in_second(6)], [3, 3, 0]);
    }
}
