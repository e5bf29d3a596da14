//! Metrics of a worker's GPUs, which are read from their sensors at each export. Labels are a GPU's
//! number and place, and fixed text of this file. No input from a client creates a series.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use cloakwork_cuda::{
    gpu::Description,
    sensors::{self, LIMITS, Reading, Sensors},
};
use cloakwork_device::panic_message;
use cloakwork_telemetry::{Kind, Metric, Registry};

/// A metric with at most one value for each GPU.
struct Row {
    metric: Metric,
    value: fn(&Description, &Reading) -> Option<f64>,
}

const ROWS: [Row; 9] = [
    Row {
        metric: gauge("cloakwork_gpu_busy_ratio", "ratio", "Share of the last moments in which a kernel ran"),
        value: |_, reading| reading.busy,
    },
    Row {
        metric: gauge("cloakwork_gpu_memory_bytes", "bytes", "Memory of the GPU, or of the slice that the worker has"),
        value: |gpu, _| Some(gpu.memory_bytes as f64),
    },
    Row {
        metric: gauge("cloakwork_gpu_memory_used_bytes", "bytes", "Memory in use on the whole GPU, by all processes"),
        value: |_, reading| reading.memory_used.map(|bytes| bytes as f64),
    },
    Row {
        metric: gauge("cloakwork_gpu_power_watts", "watts", "Power of the GPU, including its memory"),
        value: |_, reading| reading.power,
    },
    Row {
        metric: counter(
            "cloakwork_gpu_energy_joules_total",
            "joules",
            "Energy that the GPU has used since the driver was loaded",
        ),
        value: |_, reading| reading.energy,
    },
    Row {
        metric: gauge("cloakwork_gpu_clock_hertz", "hertz", "Clock of the multiprocessors"),
        value: |_, reading| reading.clock,
    },
    Row {
        metric: gauge("cloakwork_gpu_temperature_celsius", "celsius", "Temperature of the GPU"),
        value: |_, reading| reading.temperature.map(f64::from),
    },
    Row {
        metric: counter(
            "cloakwork_gpu_errors_total",
            "errors",
            "Critical errors (XID) since the worker started, and 1 for a GPU that is lost",
        ),
        value: |_, reading| reading.errors.map(|errors| errors as f64),
    },
    Row {
        metric: gauge(
            "cloakwork_gpu_last_error_xid",
            "number",
            "Number (XID) of the last critical error that has a number",
        ),
        value: |_, reading| reading.last_error.map(|xid| xid as f64),
    },
];

/// A metric with a value for each GPU and limit.
const LIMITED: Metric = Metric {
    labels: &["gpu", "place", "by"],
    ..gauge(
        "cloakwork_gpu_limited",
        "",
        "1 while the limit `by` keeps the clock below its maximum (power_cap, hardware, software_thermal, \
         hardware_thermal, power_brake, sync_boost, application_clocks, display_clocks)",
    )
};

/// Every metric of this file, in the order of the documentation.
pub(super) const METRICS: [Metric; ROWS.len() + 1] = {
    let mut all = [LIMITED; ROWS.len() + 1];
    let mut row = 0;
    while row < ROWS.len() {
        all[row] = ROWS[row].metric;
        row += 1;
    }
    all
};

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit, help, labels: &["gpu", "place"], buckets: &[] }
}

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    Metric { kind: Kind::Counter, ..gauge(name, unit, help) }
}

/// Exports the readings of these GPUs. If their sensors cannot be read, the log gives the reason.
pub(super) fn observe(registry: &Registry, gpus: Vec<Description>) {
    if gpus.is_empty() {
        return;
    }
    match sensors::open(&gpus) {
        Ok(sensors) => Gpus { gpus, sensors, latest: Mutex::default() }.observe(registry),
        Err(error) => tracing::warn!("no metrics of GPUs: {error}"),
    }
}

/// GPUs and the reader of their sensors.
struct Gpus {
    gpus: Vec<Description>,
    sensors: Arc<dyn Sensors>,
    latest: Mutex<Option<Latest>>,
}

/// The readings of all GPUs at one time, or none if the driver failed.
struct Latest {
    time: Instant,
    readings: Arc<[Reading]>,
}

/// Time for which readings are used again. All metrics of an export have values of the same
/// readings, because a reading may take milliseconds.
const READINGS_LIFE: Duration = Duration::from_millis(500);

impl Gpus {
    fn observe(self, registry: &Registry) {
        let all = Arc::new(self);
        for Row { metric, value } in &ROWS {
            let all = all.clone();
            registry.observe(metric, move |record| {
                for (number, gpu, reading) in all.numbered(&all.readings()) {
                    if let Some(value) = value(gpu, reading) {
                        record(value, [&number, &gpu.place]);
                    }
                }
            });
        }
        registry.observe(&LIMITED, move |record| {
            for (number, gpu, reading) in all.numbered(&all.readings()) {
                let Some(limits) = &reading.limited_by else { continue };
                for by in LIMITS {
                    record(f64::from(u8::from(limits.contains(&by))), [&number, &gpu.place, by]);
                }
            }
        });
    }

    /// Each GPU with its number and its reading.
    fn numbered<'a>(&'a self, readings: &'a [Reading]) -> impl Iterator<Item = (String, &'a Description, &'a Reading)> {
        self.gpus.iter().zip(readings).enumerate().map(|(number, (gpu, reading))| (number.to_string(), gpu, reading))
    }

    fn readings(&self) -> Arc<[Reading]> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Latest { time, readings }) = &*latest
            && time.elapsed() < READINGS_LIFE
        {
            return readings.clone();
        }
        // A library of the driver reads the sensors. After a panic there, the registry could not
        // be read any more.
        let read = || self.gpus.iter().map(|gpu| self.sensors.read(gpu)).collect();
        let readings: Arc<[Reading]> = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
            tracing::error!(cause = panic_message(&*panic), "the sensors of the GPUs could not be read");
            Arc::default()
        });
        *latest = Some(Latest { time: Instant::now(), readings: readings.clone() });
        readings
    }
}

#[cfg(test)]
mod tests;
