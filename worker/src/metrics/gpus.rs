//! Metrics of a worker's GPUs. Labels are a GPU's number and place, and fixed text of this file. No
//! input from a client creates a series.

use std::{fmt::Write as _, sync::Arc};

use cloakwork_cuda::{
    gpu::Description,
    sensors::{self, LIMITS, Reading, Sensors},
};

/// GPUs and the reader of their sensors.
pub(crate) struct Gpus {
    gpus: Vec<Description>,
    /// `None` if no sensors can be read.
    sensors: Option<Arc<dyn Sensors>>,
}

/// A metric with a value for each GPU.
struct Row {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Description, &Reading) -> Option<f64>,
}

const GPU_METRICS: [Row; 9] = [
    Row {
        name: "cloakwork_gpu_busy_ratio",
        kind: "gauge",
        help: "Share of the last moments in which a kernel ran",
        value: |_, reading| reading.busy,
    },
    Row {
        name: "cloakwork_gpu_memory_bytes",
        kind: "gauge",
        help: "Memory of the GPU, or of the slice that the worker has",
        value: |gpu, _| Some(gpu.memory_bytes as f64),
    },
    Row {
        name: "cloakwork_gpu_memory_used_bytes",
        kind: "gauge",
        help: "Memory in use on the whole GPU, by all processes",
        value: |_, reading| reading.memory_used.map(|bytes| bytes as f64),
    },
    Row {
        name: "cloakwork_gpu_power_watts",
        kind: "gauge",
        help: "Power of the GPU, including its memory",
        value: |_, reading| reading.power,
    },
    Row {
        name: "cloakwork_gpu_energy_joules_total",
        kind: "counter",
        help: "Energy that the GPU has used since the driver was loaded",
        value: |_, reading| reading.energy,
    },
    Row {
        name: "cloakwork_gpu_clock_hertz",
        kind: "gauge",
        help: "Clock of the multiprocessors",
        value: |_, reading| reading.clock,
    },
    Row {
        name: "cloakwork_gpu_temperature_celsius",
        kind: "gauge",
        help: "Temperature of the GPU",
        value: |_, reading| reading.temperature.map(f64::from),
    },
    Row {
        name: "cloakwork_gpu_errors_total",
        kind: "counter",
        help: "Critical errors (XID) since the worker started, and 1 for a GPU that is lost",
        value: |_, reading| reading.errors.map(|errors| errors as f64),
    },
    Row {
        name: "cloakwork_gpu_last_error_xid",
        kind: "gauge",
        help: "Number (XID) of the last critical error that has a number",
        value: |_, reading| reading.last_error.map(|xid| xid as f64),
    },
];

const LIMITED: &str = "cloakwork_gpu_limited";

impl Gpus {
    /// Opens the sensors of GPUs. If they cannot be read, the log gives the reason once.
    pub(crate) fn open(gpus: Vec<Description>) -> Self {
        let sensors = if gpus.is_empty() { Err("no GPU is used".to_owned()) } else { sensors::open(&gpus) };
        if let Err(error) = &sensors {
            tracing::warn!("no metrics of GPUs: {error}");
        }
        Self { gpus, sensors: sensors.ok() }
    }

    /// All values, in the text format of Prometheus.
    pub(super) fn page(&self) -> String {
        let Some(sensors) = &self.sensors else { return String::new() };
        let readings: Vec<Reading> = self.gpus.iter().map(|gpu| sensors.read(gpu)).collect();
        let gpus = || self.gpus.iter().zip(&readings).enumerate();
        let mut page = String::new();
        for Row { name, kind, help, value } in &GPU_METRICS {
            let values = gpus().filter_map(|(number, (gpu, reading))| {
                Some(format!("{name}{{gpu=\"{number}\",place=\"{}\"}} {}\n", gpu.place, value(gpu, reading)?))
            });
            metric(&mut page, name, kind, help, values);
        }
        let limits = gpus().flat_map(|(number, (gpu, reading))| {
            let sample = move |by: &Vec<&str>| {
                LIMITS.map(|limit| {
                    let (place, is) = (&gpu.place, u8::from(by.contains(&limit)));
                    format!("{LIMITED}{{gpu=\"{number}\",place=\"{place}\",by=\"{limit}\"}} {is}\n")
                })
            };
            reading.limited_by.as_ref().map(sample).into_iter().flatten()
        });
        metric(&mut page, LIMITED, "gauge", "1 while this limit keeps the clock below its maximum", limits);
        page
    }
}

/// Appends a metric with its samples, unless there are none.
fn metric(page: &mut String, name: &str, kind: &str, help: &str, values: impl Iterator<Item = String>) {
    let values: String = values.collect();
    if !values.is_empty() {
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{values}");
    }
}

#[cfg(test)]
mod tests;
