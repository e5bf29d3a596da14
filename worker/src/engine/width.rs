//! Choice of the width of waves.

use cloakwork_device::{CurvePoint, DeviceInfo};
use cloakwork_params::ParameterSet;

/// Relative gain in time per lane that justifies the longer wait for a wider wave.
const MIN_RELATIVE_GAIN: f64 = 0.02;

/// The narrowest whole width of the device that no wider width beats by [`MIN_RELATIVE_GAIN`], by
/// measured times. A width without a measurement is tried first.
pub(crate) fn preferred(info: &DeviceInfo, set: &'static ParameterSet) -> usize {
    let per_lane = |width| point(info, set, width).map(|point| point.time.as_secs_f64() / point.width as f64);
    let widths = widths(info);
    let mut measured = Vec::with_capacity(widths.len());
    for &width in &widths {
        match per_lane(width) {
            Some(time) => measured.push((width, time)),
            None => return width,
        }
    }
    let best = measured.iter().map(|(_, time)| *time).fold(f64::MAX, f64::min);
    let good = measured.iter().find(|(_, time)| *time <= best * (1.0 + MIN_RELATIVE_GAIN));
    good.map_or(info.tile * info.units, |(width, _)| *width)
}

/// The measurement for waves of about this width.
pub(super) fn point<'i>(info: &'i DeviceInfo, set: &ParameterSet, width: usize) -> Option<&'i CurvePoint> {
    info.curve.iter().find(|point| point.set.id == set.id && point.width == width.next_power_of_two())
}

/// Widths from one tile for every unit, doubled up to the maximum.
fn widths(info: &DeviceInfo) -> Vec<usize> {
    let least = (info.tile * info.units).clamp(1, info.width_max.max(1));
    std::iter::successors(Some(least), |width| Some(width * 2)).take_while(|width| *width <= info.width_max).collect()
}

/// Widest wave for which the device had enough memory.
pub(super) struct WidthLimit {
    most: usize,
    /// Number of consecutive successful waves of that width.
    good: u32,
}

/// Successful waves of the greatest width before a wave of twice the width is tried. A wave that
/// finds no memory has to be gathered again, but no computed work is lost.
const WAVES_BEFORE_WIDENING: u32 = 32;

impl Default for WidthLimit {
    fn default() -> Self {
        Self { most: usize::MAX, good: 0 }
    }
}

impl WidthLimit {
    /// Maximum number of bootstraps in a wave.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Records that there was no memory for a wave of `width`.
    pub(super) fn was_short(&mut self, width: usize) {
        *self = Self { most: (width / 2).max(1), good: 0 };
    }

    /// Records that a wave of `width` succeeded.
    pub(super) fn went_well(&mut self, width: usize) {
        if width < self.most {
            return;
        }
        self.good += 1;
        if self.good == WAVES_BEFORE_WIDENING {
            *self = Self { most: self.most.saturating_mul(2), good: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cloakwork_device::Capabilities;

    use super::*;

    #[test]
    fn the_width_limit_recovers_after_a_shortage() {
        let mut limit = WidthLimit::default();
        limit.went_well(1000);
        assert_eq!(limit.most(), usize::MAX);
        limit.was_short(100);
        assert_eq!(limit.most(), 50);
        // Waves narrower than the limit prove nothing.
        (0..1000).for_each(|_| limit.went_well(49));
        (0..WAVES_BEFORE_WIDENING - 1).for_each(|_| limit.went_well(50));
        assert_eq!(limit.most(), 50);
        limit.went_well(50);
        assert_eq!(limit.most(), 100);
        limit.was_short(100);
        (0..WAVES_BEFORE_WIDENING).for_each(|_| limit.went_well(50));
        assert_eq!(limit.most(), 100, "it is tried again");
        limit.was_short(1);
        assert_eq!(limit.most(), 1);
    }

    #[test]
    fn unmeasured_widths_are_tried_and_the_narrowest_good_width_wins() {
        let set = &cloakwork_params::table::SETS[0];
        let point = |width: usize, micros: u64| CurvePoint { set, width, time: Duration::from_micros(micros) };
        let mut info = DeviceInfo {
            kind: "cpu",
            name: String::new(),
            sets: vec![set],
            units: 2,
            tile: 16,
            width_max: 128,
            result_class: String::new(),
            capabilities: Capabilities::default(),
            curve: Vec::new(),
        };
        assert_eq!(preferred(&info, set), 32);
        info.curve = vec![point(32, 3300)];
        assert_eq!(preferred(&info, set), 64, "the next one is tried");
        info.curve = vec![point(32, 3300), point(64, 6450), point(128, 12_800)];
        assert_eq!(preferred(&info, set), 64, "128 saves less than two in a hundred");
        info.curve = vec![point(32, 3210), point(64, 6450), point(128, 12_800)];
        assert_eq!(preferred(&info, set), 32);
        assert_eq!(preferred(&info, &cloakwork_params::table::SETS[1]), 32, "sets have curves of their own");
    }
}
