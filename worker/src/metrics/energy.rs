//! The energy that the machine's processors use, from the counters of the Linux power capping
//! framework. Since 2020, Linux lets only root read them, unless the operator permits more.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use cloakwork_telemetry::{Kind, Metric, Registry};

pub(super) const METRIC: Metric = Metric {
    name: "cloakwork_worker_cpu_energy_joules_total",
    kind: Kind::Counter,
    unit: "joules",
    help: "Energy that the processor packages of the machine have used since the worker started, if the system lets the \
           worker read it",
    labels: &[],
    buckets: &[],
};

/// Exports the energy, if the counters can be read.
pub(super) fn observe(registry: &Registry) {
    observe_in(Path::new("/sys/class/powercap"), registry);
}

fn observe_in(directory: &Path, registry: &Registry) {
    let zones = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let packages: Vec<_> = zones.filter_map(|zone| Package::open(&zone)).collect();
    if packages.is_empty() {
        return;
    }
    let packages = Mutex::new(packages);
    registry.observe(&METRIC, move |record| {
        let mut packages = packages.lock().unwrap_or_else(PoisonError::into_inner);
        record(packages.iter_mut().map(Package::joules).sum(), []);
    });
}

/// A counter that starts again at 0 after its maximum.
struct Package {
    counter: PathBuf,
    max_micros: u64,
    latest_micros: u64,
    /// Microjoules since the counter was opened.
    used_micros: u64,
}

impl Package {
    /// The counter of a zone, if the zone is a processor package: `intel-rapl:0`, for processors of
    /// AMD as well. Zones within a package have a second number.
    fn open(zone: &Path) -> Option<Self> {
        let name = zone.file_name()?.to_str()?;
        let number = name.strip_prefix("intel-rapl:")?;
        let is_package = number.bytes().all(|byte| byte.is_ascii_digit());
        let counter = zone.join("energy_uj");
        let (latest_micros, max_micros) = (number_in(&counter)?, number_in(&zone.join("max_energy_range_uj"))?);
        is_package.then_some(Self { counter, max_micros, latest_micros, used_micros: 0 })
    }

    /// Joules since the counter was opened. A counter that can no longer be read keeps its value.
    fn joules(&mut self) -> f64 {
        if let Some(now_micros) = number_in(&self.counter) {
            let grown = now_micros.checked_sub(self.latest_micros);
            let to_max = self.max_micros.saturating_sub(self.latest_micros);
            self.used_micros += grown.unwrap_or_else(|| to_max.saturating_add(now_micros));
            self.latest_micros = now_micros;
        }
        self.used_micros as f64 / 1e6
    }
}

fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use cloakwork_telemetry::Format;

    use super::*;

    #[test]
    fn packages_are_added_up_and_their_counters_start_again_at_zero() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |zone: &str, file: &str, value: u64| {
            fs::create_dir_all(directory.path().join(zone)).expect("a directory");
            fs::write(directory.path().join(zone).join(file), format!("{value}\n")).expect("a file");
        };
        // The zone of the cores is a part of its package.
        for (zone, micros) in [("intel-rapl:0", 7_000_000), ("intel-rapl:1", 9_000_000), ("intel-rapl:0:0", 1_000_000)]
        {
            write(zone, "energy_uj", micros);
            write(zone, "max_energy_range_uj", 10_000_000);
        }
        write("dtpm", "energy_uj", 0);
        let registry = Registry::new().expect("a registry");
        observe_in(directory.path(), &registry);
        let shows = |joules: f64| {
            let scrape = registry.scrape(Format::Prometheus);
            let line = format!("cloakwork_worker_cpu_energy_joules_total {joules}");
            assert!(scrape.lines().any(|found| found == line), "no {line}:\n{scrape}");
        };
        shows(0.0);
        write("intel-rapl:0", "energy_uj", 8_600_000);
        write("intel-rapl:0:0", "energy_uj", 6_000_000);
        shows(1.6);
        write("intel-rapl:0", "energy_uj", 9_000_000);
        write("intel-rapl:1", "energy_uj", 2_000_000);
        shows(5.0);
    }

    #[test]
    fn a_machine_without_counters_has_no_metric() {
        let registry = Registry::new().expect("a registry");
        observe_in(Path::new("/nonexistent"), &registry);
        assert!(!registry.scrape(Format::Prometheus).contains("energy"));
    }
}
