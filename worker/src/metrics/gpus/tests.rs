use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread::sleep,
};

use cloakwork_telemetry::{Format, never_recorded};

use super::*;

/// Sensors that report every value for the first GPU, and one value for any other GPU.
struct Fixed;

impl Sensors for Fixed {
    fn read(&self, gpu: &Description) -> Reading {
        if gpu.place != "00000000:3B:00.0" {
            return Reading { power: Some(70.25), ..Reading::default() };
        }
        Reading {
            busy: Some(0.97),
            memory_used: Some(3 << 30),
            power: Some(612.5),
            energy: Some(1234.5),
            clock: Some(1.755e9),
            temperature: Some(64),
            limited_by: Some(vec!["power_cap"]),
            errors: Some(2),
            last_error: Some(79),
        }
    }
}

fn gpu(place: &str) -> Description {
    Description {
        name: "a GPU".to_owned(),
        place: place.to_owned(),
        memory_bytes: 80 << 30,
        multiprocessors: 132,
        shared_bytes: 227 << 10,
        has_clusters: true,
    }
}

fn page(sensors: Arc<dyn Sensors>) -> String {
    let registry = Registry::new().expect("a registry");
    let gpus = vec![gpu("00000000:3B:00.0"), gpu("00000000:AF:00.0")];
    Gpus { gpus, sensors, latest: Mutex::default() }.observe(&registry);
    registry.scrape(Format::Prometheus)
}

#[test]
fn every_gpu_has_a_line_for_each_value_that_its_sensors_report() {
    let page = page(Arc::new(Fixed));
    for line in [
        "# TYPE cloakwork_gpu_energy_joules_total counter",
        "cloakwork_gpu_busy_ratio{gpu=\"0\",place=\"00000000:3B:00.0\"} 0.97",
        "cloakwork_gpu_memory_used_bytes{gpu=\"0\",place=\"00000000:3B:00.0\"} 3221225472",
        "cloakwork_gpu_power_watts{gpu=\"0\",place=\"00000000:3B:00.0\"} 612.5",
        "cloakwork_gpu_power_watts{gpu=\"1\",place=\"00000000:AF:00.0\"} 70.25",
        "cloakwork_gpu_energy_joules_total{gpu=\"0\",place=\"00000000:3B:00.0\"} 1234.5",
        "cloakwork_gpu_clock_hertz{gpu=\"0\",place=\"00000000:3B:00.0\"} 1755000000",
        "cloakwork_gpu_temperature_celsius{gpu=\"0\",place=\"00000000:3B:00.0\"} 64",
        "cloakwork_gpu_limited{by=\"power_cap\",gpu=\"0\",place=\"00000000:3B:00.0\"} 1",
        "cloakwork_gpu_limited{by=\"hardware\",gpu=\"0\",place=\"00000000:3B:00.0\"} 0",
        "cloakwork_gpu_errors_total{gpu=\"0\",place=\"00000000:3B:00.0\"} 2",
        "cloakwork_gpu_last_error_xid{gpu=\"0\",place=\"00000000:3B:00.0\"} 79",
        "cloakwork_gpu_memory_bytes{gpu=\"1\",place=\"00000000:AF:00.0\"} 85899345920",
    ] {
        assert!(page.lines().any(|found| found == line), "no '{line}' in\n{page}");
    }
    assert!(!page.contains("busy_ratio{gpu=\"1\""), "a value that a GPU does not report has no line");
    assert_eq!(never_recorded(&METRICS, &page), Vec::<&str>::new());
    for limit in LIMITS {
        assert!(LIMITED.help.contains(limit), "the documentation does not name the limit {limit}");
    }
}

/// Sensors that count how often the first GPU is read, and fail the second time.
#[derive(Default)]
struct Counted(AtomicU32);

impl Sensors for Counted {
    fn read(&self, gpu: &Description) -> Reading {
        if gpu.place.contains("3B") {
            assert!(self.0.fetch_add(1, Relaxed) == 0, "on purpose");
        }
        Reading::default()
    }
}

#[test]
fn an_export_reads_the_sensors_once_and_survives_their_failure() {
    let sensors = Arc::new(Counted::default());
    let registry = Registry::new().expect("a registry");
    let gpus = Gpus { gpus: vec![gpu("00000000:3B:00.0")], sensors: sensors.clone(), latest: Mutex::default() };
    gpus.observe(&registry);
    assert!(registry.scrape(Format::Prometheus).contains("cloakwork_gpu_memory_bytes{"));
    assert_eq!(sensors.0.load(Relaxed), 1);
    sleep(READINGS_LIFE);
    assert!(!registry.scrape(Format::Prometheus).contains("cloakwork_gpu_memory_bytes{"));
    assert_eq!(sensors.0.load(Relaxed), 2);
}
