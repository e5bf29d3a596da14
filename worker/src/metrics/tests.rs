use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use cloakwork_params::table;

use super::*;

fn worker() -> (Arc<Registry>, Arc<Metrics>) {
    let registry = Arc::new(Registry::new().expect("a registry"));
    let metrics = register(&registry, Vec::new());
    (registry, metrics)
}

fn ask(address: SocketAddr, request: &str) -> String {
    let (mut answer, mut caller) = (String::new(), TcpStream::connect(address).expect("a connection"));
    // A caller that is cut off may fail while writing or while reading, and gets no answer.
    let _ = caller.write_all(request.as_bytes());
    let _ = caller.read_to_string(&mut answer);
    answer
}

#[test]
fn the_port_answers_scrapes_and_nothing_else() {
    let (registry, metrics) = worker();
    metrics.key_bytes.set(5, []);
    let address = serve(registry, "127.0.0.1:0".parse().expect("an address")).expect("a port");
    for _ in 0..3 {
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.lines().any(|line| line == "cloakwork_worker_key_bytes 5"), "{body}");
    }
    assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert_eq!(ask(address, &"x".repeat(1 << 16)), "", "more than a request has");
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").contains("worker_key_bytes 5"), "it goes on");
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
fn a_wave_is_recorded_with_its_set_cut_width_and_stages() {
    let (registry, metrics) = worker();
    let set = &table::SETS[0];
    let began = Instant::now();
    let [key_switch, blind_rotate, other] = [1, 3, 1].map(Duration::from_secs);
    let stats = WorkStats { began, ended: began + Duration::from_secs(5), key_switch, blind_rotate, other };
    let wave = EndedWave { set, width: 6, preferred: 8, cut: WaveCut::Idle, stats };
    metrics.wave(&wave);
    metrics.wave(&EndedWave { width: 8, cut: WaveCut::Full, ..wave });
    let page = registry.scrape(Format::Prometheus);
    let name = set.name;
    for line in [
        format!("cloakwork_worker_waves_total{{cut=\"idle\",parameter_set=\"{name}\"}} 1"),
        format!("cloakwork_worker_waves_total{{cut=\"full\",parameter_set=\"{name}\"}} 1"),
        format!("cloakwork_worker_bootstraps_total{{parameter_set=\"{name}\"}} 14"),
        format!("cloakwork_worker_wave_width_sum{{parameter_set=\"{name}\"}} 14"),
        format!("cloakwork_worker_wave_fill_ratio_sum{{parameter_set=\"{name}\"}} 1.75"),
        format!("cloakwork_worker_wave_seconds_sum{{parameter_set=\"{name}\"}} 10"),
        "cloakwork_worker_stage_seconds_total{stage=\"blind_rotate\"} 6".to_owned(),
    ] {
        assert!(page.lines().any(|found| found == line), "no {line}:\n{page}");
    }
}

#[test]
fn cuts_of_waves_have_different_names() {
    let cuts = [WaveCut::Full, WaveCut::Deadline, WaveCut::Idle, WaveCut::OtherKey, WaveCut::Drain];
    let names = ["full", "deadline", "idle", "other_key", "drain"];
    assert_eq!(cuts.map(cut_name), names);
}
