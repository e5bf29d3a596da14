//! Metrics whose values are read at each export, such as those of sensors.

use opentelemetry::{KeyValue, metrics::AsyncInstrument};

use crate::{Kind, Metric, Registry};

impl Registry {
    /// Exports a gauge or a counter without a handle. At each export, `read` calls its argument
    /// with each value and the values of the labels, in the order of the table. The values of a
    /// counter must not fall.
    ///
    /// # Panics
    ///
    /// If the metric is a histogram.
    pub fn observe<const N: usize>(
        &self,
        metric: &Metric,
        read: impl Fn(&mut dyn FnMut(f64, [&str; N])) + Send + Sync + 'static,
    ) {
        let Metric { name, kind, help, labels, .. } = *metric;
        let values = move |observer: &dyn AsyncInstrument<f64>| {
            read(&mut |value, values| {
                let pairs = labels.iter().zip(values).map(|(label, value)| KeyValue::new(*label, value.to_owned()));
                observer.observe(value, &pairs.collect::<Vec<_>>());
            });
        };
        let meter = self.meter();
        match kind {
            Kind::Gauge => _ = meter.f64_observable_gauge(name).with_description(help).with_callback(values).build(),
            Kind::Counter => {
                _ = meter.f64_observable_counter(name).with_description(help).with_callback(values).build();
            }
            Kind::Histogram => panic!("{name}: the values of a histogram are recorded, and not read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        sync::atomic::{AtomicU32, Ordering::Relaxed},
        thread,
        time::Duration,
    };

    use super::*;
    use crate::{Collector, Format, Protocol, Service};

    const HEAT: Metric = Metric {
        name: "cloakwork_heat_celsius",
        kind: Kind::Gauge,
        unit: "celsius",
        help: "Temperature",
        labels: &["place"],
        buckets: &[],
    };

    #[test]
    fn values_are_read_at_each_scrape() {
        let registry = Registry::new().expect("a registry");
        let scrapes = AtomicU32::new(0);
        registry.observe(&HEAT, move |record| record(f64::from(scrapes.fetch_add(1, Relaxed)) + 0.5, ["a\"b"]));
        let turns = Metric { name: "cloakwork_turns_total", kind: Kind::Counter, labels: &[], ..HEAT };
        registry.observe(&turns, |record| record(2.25, []));
        let nothing = Metric { name: "cloakwork_nothing_celsius", ..HEAT };
        registry.observe::<1>(&nothing, |_| {});
        for heat in ["0.5", "1.5"] {
            let page = registry.scrape(Format::Prometheus);
            let lines: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
            let heat = format!("cloakwork_heat_celsius{{place=\"a\\\"b\"}} {heat}");
            assert_eq!(lines, [&heat, "cloakwork_turns_total 2.25"]);
            assert!(page.contains("# TYPE cloakwork_turns_total counter\n"), "{page}");
        }
    }

    #[test]
    fn values_are_read_for_a_collector() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let _entered = runtime.enter();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let request = thread::spawn(move || {
            let (mut caller, _) = listener.accept().expect("a caller");
            let (mut request, mut part) = (Vec::new(), [0; 4096]);
            // The exporter may send the request in parts.
            while !String::from_utf8_lossy(&request).contains("behind the door") {
                match caller.read(&mut part).expect("a request") {
                    0 => break,
                    length => request.extend(&part[..length]),
                }
            }
            caller.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("an answer");
            String::from_utf8_lossy(&request).into_owned()
        });
        let collector = Collector { endpoint, protocol: Protocol::Http, ca_file: None, headers_file: None };
        let service = Service { name: "test", version: "0", instance: "a".into() };
        let registry = Registry::exporting(&collector, &service, Duration::from_secs(3600)).expect("a registry");
        registry.observe(&HEAT, |record| record(21.0, ["behind the door"]));
        registry.close();
        let request = request.join().expect("a request");
        assert!(request.contains(HEAT.name) && request.contains("behind the door"), "{request}");
    }
}
