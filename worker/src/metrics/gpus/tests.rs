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

fn gpus() -> Gpus {
    Gpus { gpus: vec![gpu("00000000:3B:00.0"), gpu("00000000:AF:00.0")], sensors: Some(Arc::new(Fixed)) }
}

#[test]
fn every_gpu_has_a_line_for_each_value_that_its_sensors_report() {
    let page = gpus().page();
    for line in [
        "# TYPE cloakwork_gpu_energy_joules_total counter",
        "cloakwork_gpu_busy_ratio{gpu=\"0\",place=\"00000000:3B:00.0\"} 0.97",
        "cloakwork_gpu_memory_used_bytes{gpu=\"0\",place=\"00000000:3B:00.0\"} 3221225472",
        "cloakwork_gpu_power_watts{gpu=\"0\",place=\"00000000:3B:00.0\"} 612.5",
        "cloakwork_gpu_power_watts{gpu=\"1\",place=\"00000000:AF:00.0\"} 70.25",
        "cloakwork_gpu_energy_joules_total{gpu=\"0\",place=\"00000000:3B:00.0\"} 1234.5",
        "cloakwork_gpu_clock_hertz{gpu=\"0\",place=\"00000000:3B:00.0\"} 1755000000",
        "cloakwork_gpu_temperature_celsius{gpu=\"0\",place=\"00000000:3B:00.0\"} 64",
        "cloakwork_gpu_limited{gpu=\"0\",place=\"00000000:3B:00.0\",by=\"power_cap\"} 1",
        "cloakwork_gpu_limited{gpu=\"0\",place=\"00000000:3B:00.0\",by=\"hardware\"} 0",
        "cloakwork_gpu_errors_total{gpu=\"0\",place=\"00000000:3B:00.0\"} 2",
        "cloakwork_gpu_last_error_xid{gpu=\"0\",place=\"00000000:3B:00.0\"} 79",
        "cloakwork_gpu_memory_bytes{gpu=\"1\",place=\"00000000:AF:00.0\"} 85899345920",
    ] {
        assert!(page.lines().any(|found| found == line), "no '{line}' in\n{page}");
    }
    assert!(!page.contains("busy_ratio{gpu=\"1\""), "a value that a GPU does not report has no line");
}

#[test]
fn a_worker_without_gpus_serves_an_empty_page() {
    let gpus = Gpus::open(Vec::new());
    assert_eq!(gpus.page(), "");
}

#[test]
fn the_page_for_operators_lists_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/gpu.md");
    let document = std::fs::read_to_string(path).expect("a document");
    for name in GPU_METRICS.iter().map(|row| row.name).chain([LIMITED]) {
        assert!(document.contains(&format!("`{name}`")), "docs/gpu.md does not explain {name}");
    }
    for limit in LIMITS {
        assert!(document.contains(limit), "docs/gpu.md does not name the limit {limit}");
    }
}
