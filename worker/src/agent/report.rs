//! The worker's report of its complete state.

use std::time::Duration;

use cloakwork_device::DeviceInfo;
use cloakwork_params::{ParameterSet, Standing};
use cloakwork_proto::v1::{self, LeaseStage};

use super::Agent;
use crate::{engine::preferred, executable, locked::Locked as _, metrics::Metrics};

/// Waves of work that the worker wants to hold: one in computation, one next, and two being fetched
/// or committed.
const WAVES_WANTED: u64 = 4;
/// Upper bound of the factor for deep work. A job of successive bootstraps fills a wave only
/// together with as many more jobs as it is deep. The bound exists because no other worker computes
/// the work that this worker holds.
const DEPTH_MAX: f64 = 8.0;
/// A device counts as hung if it is at work for this long without ending a wave.
const DEVICE_HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// A job on vectors counts as hung if it runs for this long without ending a step. The longest step
/// is a bootstrap on a slow processor.
const VECTORS_HANG_TIMEOUT: Duration = Duration::from_secs(300);

/// Which engines count as hung.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hung {
    pub(super) blocks: bool,
    pub(super) vectors: bool,
}

impl Agent {
    pub(super) fn report(&self) -> v1::AttachRequest {
        let vectors = self.vectors.as_ref().is_some_and(|vectors| vectors.silent_for() >= VECTORS_HANG_TIMEOUT);
        self.report_with(Hung { blocks: self.engine.silent_for() >= DEVICE_HANG_TIMEOUT, vectors })
    }

    /// Builds a report. A hung engine gets no more work. Jobs that wait for a hung engine are
    /// reported as computing, so that the server sees them stall. Otherwise they would wait there
    /// until their deadlines.
    pub(super) fn report_with(&self, hung: Hung) -> v1::AttachRequest {
        let info = self.device.describe();
        let waves = info.curve.iter().map(|point| v1::DeviceWave {
            parameter_set: point.set.name.to_owned(),
            width: point.width as u32,
            micros: point.time.as_micros() as u64,
        });
        let draining = self.is_draining();
        let (leases, resident_keys) = (self.leases(hung), self.resident_keys());
        if let Some(metrics) = &self.options.metrics {
            record(metrics, &leases, &resident_keys);
        }
        v1::AttachRequest {
            worker_id: self.worker_id.clone(),
            name: self.options.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pool: self.options.pool.clone(),
            device: info.name.clone(),
            wanted_cost: if draining || hung.blocks || self.attestor.check().is_err() {
                0
            } else {
                wanted_cost(&info, &self.keys.sets(), self.crowd.depth())
            },
            leases,
            resident_keys,
            draining,
            waves: waves.collect(),
            parameter_sets: self.sets(&info, hung),
            attestation_key: self.attestor.public_key(),
            possession: self.attestor.possession(),
            certificate: self.attestor.latest_certificate(),
            result_class: result_class(&info),
        }
    }

    fn resident_keys(&self) -> Vec<v1::ResidentKey> {
        let of_vectors = self.vectors.iter().flat_map(|vectors| vectors.keys.resident());
        self.keys.resident().into_iter().chain(of_vectors).collect()
    }

    fn sets(&self, info: &DeviceInfo, hung: Hung) -> Vec<String> {
        let vectors = self.vectors.iter().filter(|_| !hung.vectors);
        let of_vectors = vectors.flat_map(|vectors| vectors.sets()).map(|set| set.name);
        info.sets.iter().map(|set| set.name).chain(of_vectors).map(str::to_owned).collect()
    }

    fn leases(&self, hung: Hung) -> Vec<v1::LeaseReport> {
        let held = self.held.locked();
        let report = |held: &std::sync::Arc<super::Held>| {
            let (stage, progress, rows_done) = held.status.read();
            let waits = stage == LeaseStage::Waiting as i32;
            let hung = if held.is_on_vectors { hung.vectors } else { hung.blocks };
            let stage = if waits && hung { LeaseStage::Computing as i32 } else { stage };
            v1::LeaseReport { lease: Some(held.lease.clone()), stage, progress, rows_done }
        };
        held.values().map(report).collect()
    }
}

/// Records the jobs and keys of a report.
fn record(metrics: &Metrics, leases: &[v1::LeaseReport], keys: &[v1::ResidentKey]) {
    for (stage, name) in [
        (LeaseStage::Fetching, "fetching"),
        (LeaseStage::LoadingKey, "loading_key"),
        (LeaseStage::Waiting, "waiting"),
        (LeaseStage::Computing, "computing"),
        (LeaseStage::Committing, "committing"),
    ] {
        metrics.jobs.set(leases.iter().filter(|lease| lease.stage() == stage).count() as u64, [name]);
    }
    metrics.key_bytes.set(keys.iter().map(|key| key.bytes).sum(), []);
}

/// Class of the workers whose results have the same bits. Another build may lower programs in
/// another way.
fn result_class(info: &DeviceInfo) -> String {
    match (info.result_class.as_str(), executable::digest()) {
        ("", _) | (_, None) => String::new(),
        (class, Some(build)) => format!("{build} {class}"),
    }
}

/// Work that keeps the device busy, in the server's unit of job cost. In any other unit, the server
/// would assign too few jobs to fill a wave, or far too many.
fn wanted_cost(info: &DeviceInfo, resident: &[&'static ParameterSet], depth: f64) -> u64 {
    let cost = |width: usize, set: &ParameterSet| width as u64 * set.bootstrap_weight();
    let served = info.sets.iter().filter(|set| set.standing == Standing::Served);
    // Before any key is resident, enough work for the cheapest set suffices.
    let least = served.map(|set| cost(info.tile * info.units, set)).min().unwrap_or(1);
    let wave = resident.iter().map(|&set| cost(preferred(info, set), set)).fold(least, u64::max);
    (depth.min(DEPTH_MAX) * (WAVES_WANTED * wave) as f64) as u64
}

#[cfg(test)]
mod tests {
    use cloakwork_device::Capabilities;
    use cloakwork_params::table::{SETS, by_name};

    use super::*;

    #[test]
    fn the_wanted_cost_covers_enough_single_bootstraps() {
        let sets = SETS.iter().collect();
        let info = DeviceInfo {
            kind: "cpu",
            name: String::new(),
            sets,
            units: 2,
            tile: 16,
            width_max: 128,
            result_class: String::new(),
            capabilities: Capabilities::default(),
            curve: Vec::new(),
        };
        for name in ["V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", "TOY_MESSAGE_2_CARRY_2"] {
            let set = by_name(name).expect("a set");
            let jobs = wanted_cost(&info, &[set], 1.0) / set.bootstrap_weight();
            assert!(jobs >= WAVES_WANTED * 32, "room for {jobs} jobs of one bootstrap under {name}");
            assert_eq!(wanted_cost(&info, &[set], 3.0), 3 * wanted_cost(&info, &[set], 1.0), "{name}");
        }
        assert!(wanted_cost(&info, &[], 1.0) > 0, "a worker without keys takes jobs");
    }
}
