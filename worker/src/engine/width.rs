//! How wide a wave should be.

use cloakwork_device::{CurvePoint, DeviceInfo};
use cloakwork_params::ParameterSet;

/// What a wider wave must save to be worth its longer wait.
const WORTH: f64 = 0.02;

/// The narrowest of the device's whole widths that no wider one beats by [`WORTH`], by what has been measured. A width
/// that was never measured is tried.
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
    let good = measured.iter().find(|(_, time)| *time <= best * (1.0 + WORTH));
    good.map_or(info.tile * info.units, |(width, _)| *width)
}

/// What was measured of waves about as wide as this one.
pub(super) fn point<'i>(info: &'i DeviceInfo, set: &ParameterSet, width: usize) -> Option<&'i CurvePoint> {
    info.curve.iter().find(|point| point.set.id == set.id && point.width == width.next_power_of_two())
}

/// A tile for every unit, doubled up to the widest.
fn widths(info: &DeviceInfo) -> Vec<usize> {
    let least = (info.tile * info.units).clamp(1, info.width_max.max(1));
    std::iter::successors(Some(least), |width| Some(width * 2)).take_while(|width| *width <= info.width_max).collect()
}

/// Widest wave that a device has had the memory for.
pub(super) struct WidthLimit {
    most: usize,
    /// Waves of that width that went well one after the other.
    good: u32,
}

/// So many waves of the greatest width go well before one of twice as many lanes is tried: one that finds no memory has to be
/// gathered again, but nothing of it was computed.
const GOOD_WAVES: u32 = 32;

impl Default for WidthLimit {
    fn default() -> Self {
        Self { most: usize::MAX, good: 0 }
    }
}

impl WidthLimit {
    /// Bootstraps that a wave may have.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// There was no memory for so many.
    pub(super) fn was_short(&mut self, width: usize) {
        *self = Self { most: (width / 2).max(1), good: 0 };
    }

    /// There was for so many.
    pub(super) fn went_well(&mut self, width: usize) {
        if width < self.most {
            return;
        }
        self.good += 1;
        if self.good == GOOD_WAVES {
            *self = Self { most: self.most.saturating_mul(2), good: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_without_memory_is_not_for_ever() {
        let mut limit = WidthLimit::default();
        limit.went_well(1000);
        assert_eq!(limit.most(), usize::MAX);
        limit.was_short(100);
        assert_eq!(limit.most(), 50);
        // Narrower ones prove nothing.
        (0..1000).for_each(|_| limit.went_well(49));
        (0..GOOD_WAVES - 1).for_each(|_| limit.went_well(50));
        assert_eq!(limit.most(), 50);
        limit.went_well(50);
        assert_eq!(limit.most(), 100);
        limit.was_short(100);
        (0..GOOD_WAVES).for_each(|_| limit.went_well(50));
        assert_eq!(limit.most(), 100, "it is tried again");
        limit.was_short(1);
        assert_eq!(limit.most(), 1);
    }

    #[test]
    fn tries_what_it_does_not_know_and_takes_the_narrowest_good_one() {
        let set = &cloakwork_params::table::SETS[0];
        let point = |width: usize, micros: u64| CurvePoint { set, width, time: Duration::from_micros(micros) };
        let mut info = DeviceInfo {
            kind: "cpu",
            name: String::new(),
            sets: vec![set],
            units: 2,
            tile: 16,
            width_max: 128,
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
