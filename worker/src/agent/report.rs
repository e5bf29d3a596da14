//! The worker's state, complete.

use cloakwork_params::{ParameterSet, Standing};
use cloakwork_proto::v1;

use super::Agent;
use crate::{cost, engine::preferred, locked::Locked as _};

/// Waves of work that the worker likes to hold: one computed, one next, and two on their way here or back.
const WAVES_WANTED: f64 = 4.0;

impl Agent {
    pub(super) fn report(&self) -> v1::AttachRequest {
        let info = self.device.describe();
        let waves = info.curve.iter().map(|point| v1::DeviceWave {
            parameter_set: point.set.name.to_owned(),
            width: point.width as u32,
            micros: point.time.as_micros() as u64,
        });
        let served: Vec<&'static ParameterSet> =
            info.sets.iter().copied().filter(|set| set.standing == Standing::Served).collect();
        let draining = self.is_draining();
        let wanted = |set: &&'static ParameterSet| preferred(&info, set) as f64 * cost::relative(set, &served);
        let resident = self.keys.sets();
        let widest = resident.iter().map(wanted).fold((info.tile * info.units) as f64, f64::max);
        v1::AttachRequest {
            worker_id: self.worker_id.clone(),
            name: self.options.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pool: self.options.pool.clone(),
            device: info.name.clone(),
            wanted_cost: if draining { 0 } else { (WAVES_WANTED * widest).ceil() as u64 },
            leases: self.leases(),
            resident_keys: self.keys.resident(),
            draining,
            waves: waves.collect(),
            parameter_sets: info.sets.iter().map(|set| set.name.to_owned()).collect(),
        }
    }

    fn leases(&self) -> Vec<v1::LeaseReport> {
        let held = self.held.locked();
        let report = |held: &std::sync::Arc<super::Held>| {
            let (stage, progress, rows_done) = held.status.read();
            v1::LeaseReport { lease: Some(held.lease.clone()), stage, progress, rows_done }
        };
        held.values().map(report).collect()
    }
}
