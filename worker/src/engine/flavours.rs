//! Choice of a wave's key: the key of its set, or the key of the set's companion.

use cloakwork_device::{DeviceInfo, KeySlot};
use cloakwork_params::{ParameterSet, table::companion_of};

use super::{group::Group, job::LaneId, width::point};

/// Counts the choices that compared two measured times.
#[derive(Default)]
pub(super) struct WaveKeys {
    choices: u64,
}

/// Key of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaveKey {
    pub(super) key: KeySlot,
    pub(super) is_companion: bool,
}

/// Once in this many choices the slower key is used, to measure it again: an earlier measurement
/// may have been disturbed.
const REMEASURE_PERIOD_CHOICES: u64 = 256;

impl WaveKeys {
    /// Chooses the key for lanes of a group, `width` of which are bootstraps. Returns `None` if all
    /// their jobs are gone.
    pub(super) fn choose(
        &mut self,
        info: &DeviceInfo,
        group: &Group,
        lanes: &[LaneId],
        width: usize,
    ) -> Option<WaveKey> {
        let jobs = || lanes.iter().filter_map(|lane| group.jobs.get(&lane.job).map(|job| (&job.job, lane.node)));
        let (job, _) = jobs().next()?;
        let own = WaveKey { key: job.key.slot(), is_companion: false };
        let companion = companion_of(group.set).map(|companion| companion.set);
        let lease = jobs().find_map(|(job, _)| job.companion.as_ref().filter(|lease| !lease.is_wanted_back()));
        let (Some(set), Some(lease)) = (companion, lease) else { return Some(own) };
        let may_be_noisier = jobs().all(|(job, node)| job.plan.graph.nodes[node as usize].may_be_noisier);
        let is_companion = width > 0 && may_be_noisier && self.is_faster(info, group.set, set, width);
        Some(if is_companion { WaveKey { key: lease.slot(), is_companion } } else { own })
    }

    /// Whether to use the companion, by measured times of waves of this width. A key without a
    /// measurement is tried first.
    fn is_faster(&mut self, info: &DeviceInfo, set: &ParameterSet, companion: &ParameterSet, width: usize) -> bool {
        let [own, other] = [set, companion].map(|set| point(info, set, width).map(|point| point.time));
        let (Some(own), Some(other)) = (own, other) else { return own.is_some() };
        self.choices += 1;
        (other < own) != self.choices.is_multiple_of(REMEASURE_PERIOD_CHOICES)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cloakwork_device::{Capabilities, CurvePoint};
    use cloakwork_params::table::by_name;

    use super::*;

    #[test]
    fn the_faster_key_is_used_by_width_and_the_slower_key_is_measured_again() {
        let set = by_name("TOY_MESSAGE_2_CARRY_2_N2048").expect("a set");
        let companion = companion_of(set).expect("a companion").set;
        let point = |set, width, micros| CurvePoint { set, width, time: Duration::from_micros(micros) };
        let mut info = DeviceInfo {
            kind: "test",
            name: String::new(),
            sets: vec![set, companion],
            units: 1,
            tile: 1,
            width_max: 64,
            result_class: String::new(),
            capabilities: Capabilities::default(),
            curve: Vec::new(),
        };
        let mut wave_keys = WaveKeys::default();
        let mut takes = |info: &DeviceInfo, width| wave_keys.is_faster(info, set, companion, width);
        assert!(!takes(&info, 1), "its own key is measured first");
        info.curve = vec![point(set, 1, 900)];
        assert!(takes(&info, 1) && !takes(&info, 2), "then the companion's, width by width");
        info.curve.extend([point(companion, 1, 300), point(set, 64, 1000), point(companion, 64, 4000)]);
        let taken =
            [1, 64].map(|width| (0..10 * REMEASURE_PERIOD_CHOICES).filter(|_| takes(&info, width)).count() as u64);
        assert_eq!(taken, [10 * (REMEASURE_PERIOD_CHOICES - 1), 10], "33 to 64 are one width");
        info.curve = vec![point(set, 1, 200), point(companion, 1, 300)];
        assert!(!takes(&info, 1));
    }
}
