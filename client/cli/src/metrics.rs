//! The server's metrics: a page from its admin port, and the changes between two pages.

use std::{collections::BTreeMap, io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Values of a Prometheus page by series, and the kind of each family.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Page {
    kinds: BTreeMap<String, String>,
    series: BTreeMap<String, f64>,
}

/// Change or value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// Current value of a gauge.
    Value(f64),
    /// Rate of a counter per second.
    Rate(f64),
    /// Mean of the values that a histogram received between two pages.
    Mean(f64),
}

/// Maximum size of a page in bytes.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// Prefix of the server's series. Other series are left out.
const PREFIX: &str = "cloakwork_";

/// Reads `/metrics` of `host:port` over plain HTTP.
pub(crate) async fn fetch(address: &str) -> io::Result<Page> {
    let work = async {
        let mut connection = TcpStream::connect(address).await?;
        // HTTP version 1.0, so that the answer comes in one piece and ends with the connection.
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\nAccept: text/plain\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.take(PAGE_BYTES_MAX).read_to_string(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer =
        timeout(Duration::from_secs(5), work).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.split(' ').nth(1) {
        Some("200") => Ok(Page::parse(body)),
        _ => Err(io::Error::other(format!("expected metrics, got '{}'", head.lines().next().unwrap_or_default()))),
    }
}

impl Page {
    /// Parses the text format. Lines of another form are left out.
    pub(crate) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                if let Some((name, kind)) = kind.split_once(' ') {
                    page.kinds.insert(name.to_owned(), kind.trim().to_owned());
                }
            } else if line.starts_with(PREFIX) {
                // A label's value may hold spaces, so the value follows the labels.
                let end = line.rfind('}').map_or(0, |end| end + 1);
                let Some(space) = line[end..].find(' ').map(|space| space + end) else { continue };
                let value = line[space..].split_whitespace().next().and_then(|value| value.parse().ok());
                if let Some(value) = value {
                    page.series.insert(line[..space].to_owned(), value);
                }
            }
        }
        page
    }

    /// Reading of each series since `before`: gauges as current values, counters per second,
    /// histograms by their mean.
    pub(crate) fn since(&self, before: &Self, elapsed: Duration) -> BTreeMap<String, Reading> {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        // A server that restarted meanwhile counts from zero.
        let grown = |series: &str| {
            let now = self.series.get(series).copied().unwrap_or(0.0);
            let then = before.series.get(series).copied().unwrap_or(0.0);
            if now >= then { now - then } else { now }
        };
        let mut readings = BTreeMap::new();
        for (series, &value) in &self.series {
            let (name, labels) = series.find('{').map_or((series.as_str(), ""), |at| series.split_at(at));
            let histogram = |suffix| name.strip_suffix(suffix).filter(|family| self.is(family, "histogram"));
            if self.is(name, "gauge") {
                readings.insert(series.clone(), Reading::Value(value));
            } else if self.is(name, "counter") {
                readings.insert(series.clone(), Reading::Rate(grown(series) / seconds));
            } else if let Some(family) = histogram("_count") {
                let count = grown(series);
                if count > 0.0 {
                    let mean = grown(&format!("{family}_sum{labels}")) / count;
                    readings.insert(format!("{family}{labels}"), Reading::Mean(mean));
                }
            }
        }
        readings
    }

    fn is(&self, name: &str, kind: &str) -> bool {
        self.kinds.get(name).is_some_and(|known| known == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
# TYPE cloakwork_jobs_queued gauge
cloakwork_jobs_queued{pool=\"cpu\"} 3
# TYPE cloakwork_pbs_total counter
cloakwork_pbs_total 100
# TYPE cloakwork_batch_size histogram
cloakwork_batch_size_bucket{le=\"1\"} 1
cloakwork_batch_size_sum{pool=\"a b\"} 10
cloakwork_batch_size_count{pool=\"a b\"} 1
process_cpu_seconds_total 5
nonsense
";

    #[test]
    fn two_pages_tell_values_rates_and_means() {
        let (before, mut after) = (Page::parse(BEFORE), Page::parse(BEFORE));
        for (series, value) in [
            ("cloakwork_jobs_queued{pool=\"cpu\"}", 7.0),
            ("cloakwork_pbs_total", 160.0),
            ("cloakwork_batch_size_sum{pool=\"a b\"}", 40.0),
            ("cloakwork_batch_size_count{pool=\"a b\"}", 4.0),
        ] {
            *after.series.get_mut(series).expect("a series of the page") = value;
        }
        let readings: Vec<_> = after.since(&before, Duration::from_secs(2)).into_iter().collect();
        let expected = [
            ("cloakwork_batch_size{pool=\"a b\"}".to_owned(), Reading::Mean(10.0)),
            ("cloakwork_jobs_queued{pool=\"cpu\"}".to_owned(), Reading::Value(7.0)),
            ("cloakwork_pbs_total".to_owned(), Reading::Rate(30.0)),
        ];
        assert_eq!(readings, expected);
        // After a restart, the rate covers the new count, and is not below zero.
        let restarted = before.since(&after, Duration::from_secs(1));
        assert_eq!(restarted["cloakwork_pbs_total"], Reading::Rate(100.0));
    }
}
