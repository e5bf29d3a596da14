//! Measured times of waves, by set and width. A device builds its time curve from them.

use std::{collections::BTreeMap, time::Duration};

use cloakwork_params::{ParameterSet, SetId};

use crate::CurvePoint;

/// Exponential moving averages, one for each set and power of two: a few hundred at most.
#[derive(Default)]
pub struct Curve {
    points: BTreeMap<(SetId, usize), (&'static ParameterSet, f64)>,
}

/// Share of a new measurement in the average.
const WEIGHT: f64 = 0.2;

impl Curve {
    /// Records the time for which a wave of `width` kept the device busy.
    pub fn record(&mut self, set: &'static ParameterSet, width: usize, time: Duration) {
        if width == 0 {
            return;
        }
        let rounded = width.next_power_of_two();
        let seconds = time.as_secs_f64() * rounded as f64 / width as f64;
        let entry = self.points.entry((set.id, rounded)).or_insert((set, seconds));
        entry.1 += WEIGHT * (seconds - entry.1);
    }

    /// The averages, as points of the curve.
    pub fn points(&self) -> Vec<CurvePoint> {
        let point = |(&(_, width), &(set, seconds)): (&(SetId, usize), &(&'static ParameterSet, f64))| CurvePoint {
            set,
            width,
            time: Duration::from_secs_f64(seconds),
        };
        self.points.iter().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_round_up_to_a_power_of_two_and_averages_converge() {
        let set = &cloakwork_params::table::SETS[0];
        let mut curve = Curve::default();
        curve.record(set, 0, Duration::from_secs(1));
        assert!(curve.points().is_empty());
        curve.record(set, 12, Duration::from_millis(12));
        let [point] = curve.points()[..] else { panic!("one point") };
        assert_eq!((point.width, point.time), (16, Duration::from_millis(16)));
        (0..100).for_each(|_| curve.record(set, 16, Duration::from_millis(32)));
        let [point] = curve.points()[..] else { panic!("one point") };
        assert!((31..33).contains(&point.time.as_millis()), "{point:?}");
    }
}
