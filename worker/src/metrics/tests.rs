use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

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

fn metrics() -> Metrics {
    Metrics { gpus: vec![gpu("00000000:3B:00.0"), gpu("00000000:AF:00.0")], sensors: Some(Arc::new(Fixed)) }
}

fn ask(address: SocketAddr, request: &str) -> String {
    let (mut answer, mut caller) = (String::new(), TcpStream::connect(address).expect("a connection"));
    // A caller that is cut off may fail while writing or while reading, and gets no answer.
    let _ = caller.write_all(request.as_bytes());
    let _ = caller.read_to_string(&mut answer);
    answer
}

#[test]
fn every_gpu_has_a_line_for_each_value_that_its_sensors_report() {
    let page = metrics().page();
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
fn the_port_answers_scrapes_and_nothing_else() {
    let address = metrics().serve("127.0.0.1:0".parse().expect("an address")).expect("a port");
    for _ in 0..3 {
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert_eq!(body, metrics().page());
    }
    assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert_eq!(ask(address, &"x".repeat(1 << 16)), "", "more than a request has");
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").contains("gpu=\"1\""), "it goes on");
}

#[test]
fn a_scrape_that_panics_does_not_close_the_port() {
    let scrapes = std::sync::atomic::AtomicU32::new(0);
    let page = move || {
        assert!(scrapes.fetch_add(1, std::sync::atomic::Ordering::Relaxed) != 0, "on purpose");
        "a page\n".to_owned()
    };
    let address = port::serve(SocketAddr::from(([127, 0, 0, 1], 0)), page).expect("a port");
    assert_eq!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n"), "", "the first scrape has no answer");
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("a page\n"));
}

#[test]
fn a_worker_without_gpus_serves_an_empty_page() {
    let metrics = Metrics::open(Vec::new());
    assert_eq!(metrics.page(), "");
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
