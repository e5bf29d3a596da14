//! The energy that the machine's processors use, from the counters of the Linux power capping
//! framework. Since 2020, Linux lets only root read them, unless the operator permits more.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::Metrics;

/// Counters of the processor packages.
pub(super) struct Energy(Mutex<Vec<Package>>);

/// A counter that starts again at 0 after its maximum.
struct Package {
    counter: PathBuf,
    max_micros: u64,
    latest_micros: u64,
    /// Microjoules that are not whole joules yet.
    rest_micros: u64,
}

const DIRECTORY: &str = "/sys/class/powercap";

impl Energy {
    /// Opens the counters that can be read.
    pub(super) fn open() -> Self {
        Self::in_directory(Path::new(DIRECTORY))
    }

    fn in_directory(directory: &Path) -> Self {
        let zones = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        Self(Mutex::new(zones.filter_map(|zone| Package::open(&zone)).collect()))
    }

    /// Adds the energy since the last call.
    pub(super) fn record(&self, metrics: &Metrics) {
        let mut packages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        packages.iter_mut().for_each(|package| metrics.cpu_energy.add(package.joules(), []));
    }
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
        is_package.then_some(Self { counter, max_micros, latest_micros, rest_micros: 0 })
    }

    /// Whole joules since the last call.
    fn joules(&mut self) -> u64 {
        let Some(now_micros) = number_in(&self.counter) else { return 0 };
        let grown = now_micros.checked_sub(self.latest_micros);
        let micros = grown.unwrap_or_else(|| (self.max_micros - self.latest_micros.min(self.max_micros)) + now_micros);
        self.latest_micros = now_micros;
        self.rest_micros += micros;
        let joules = self.rest_micros / 1_000_000;
        self.rest_micros %= 1_000_000;
        joules
    }
}

fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use cloakwork_telemetry::{Format, Registry};

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
        let energy = Energy::in_directory(directory.path());
        let registry = Registry::new().expect("a registry");
        let metrics = Metrics::new(&registry);
        let shows = |joules: u64| {
            energy.record(&metrics);
            let scrape = registry.scrape(Format::Prometheus);
            let line = format!("cloakwork_worker_cpu_energy_joules_total {joules}");
            assert!(scrape.lines().any(|found| found == line), "no {line}:\n{scrape}");
        };
        shows(0);
        write("intel-rapl:0", "energy_uj", 8_600_000);
        write("intel-rapl:0:0", "energy_uj", 6_000_000);
        shows(1);
        write("intel-rapl:0", "energy_uj", 9_000_000);
        write("intel-rapl:1", "energy_uj", 2_000_000);
        shows(5);
    }

    #[test]
    fn a_machine_without_counters_has_no_metric() {
        let energy = Energy::in_directory(Path::new("/nonexistent"));
        let registry = Registry::new().expect("a registry");
        energy.record(&Metrics::new(&registry));
        assert!(!registry.scrape(Format::Prometheus).contains("energy"));
    }
}
