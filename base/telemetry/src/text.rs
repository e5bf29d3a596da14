//! The text formats: the one of Prometheus, and OpenMetrics 1.0, which also has exemplars.

use std::fmt::Write as _;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use crate::exemplars::{Exemplar, Exemplars};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus.
    Prometheus,
    /// OpenMetrics, which has exemplars.
    OpenMetrics,
}

impl Format {
    /// The format that a caller prefers, by the `Accept` header of its request.
    pub fn accepted(accept: Option<&str>) -> Self {
        let accepts = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if accepts { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `Content-Type` header of an answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes metrics as text.
pub(crate) fn encode(families: &[MetricFamily], format: Format, exemplars: &Exemplars) -> String {
    let is_open = format == Format::OpenMetrics;
    let exemplars = is_open.then_some(exemplars);
    let mut text = String::new();
    for family in families {
        let name = family.name();
        let (kind, declared) = match family.get_field_type() {
            // OpenMetrics declares a counter without the suffix that the sample has.
            MetricType::COUNTER if is_open => ("counter", name.strip_suffix("_total").unwrap_or(name)),
            MetricType::COUNTER => ("counter", name),
            MetricType::HISTOGRAM => ("histogram", name),
            _ => ("gauge", name),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {declared} {}\n# TYPE {declared} {kind}", family.help());
        for metric in family.get_metric() {
            match family.get_field_type() {
                MetricType::COUNTER => sample(&mut text, name, metric, metric.get_counter().get_value()),
                MetricType::HISTOGRAM => histogram(&mut text, name, metric, exemplars),
                _ => sample(&mut text, name, metric, metric.get_gauge().get_value()),
            }
        }
    }
    if is_open {
        text.push_str("# EOF\n");
    }
    text
}

fn sample(text: &mut String, name: &str, metric: &Metric, value: f64) {
    let _ = writeln!(text, "{name}{} {value}", Labels(metric.get_label(), None));
}

fn histogram(text: &mut String, name: &str, metric: &Metric, exemplars: Option<&Exemplars>) {
    let (labels, histogram) = (metric.get_label(), metric.get_histogram());
    let values: Vec<&str> = labels.iter().map(LabelPair::value).collect();
    let mut exemplars = exemplars.map(|all| all.of(name, &values)).unwrap_or_default().into_iter();
    let bounds = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
    let bounds = bounds.map(|bucket| (bucket.upper_bound().to_string(), bucket.cumulative_count()));
    for (bound, count) in bounds.chain([("+Inf".to_owned(), histogram.get_sample_count())]) {
        let _ = write!(text, "{name}_bucket{} {count}", Labels(labels, Some(&bound)));
        if let Some(Exemplar { value, trace }) = exemplars.next().flatten() {
            let _ = write!(text, " # {{trace_id=\"{trace}\"}} {value}");
        }
        text.push('\n');
    }
    let (labels, count, sum) = (Labels(labels, None), histogram.get_sample_count(), histogram.get_sample_sum());
    let _ = writeln!(text, "{name}_count{labels} {count}\n{name}_sum{labels} {sum}");
}

/// Labels of a sample, and the upper bound of its bucket.
struct Labels<'a>(&'a [LabelPair], Option<&'a str>);

impl std::fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(pairs, bound) = self;
        let pairs = pairs.iter().map(|pair| (pair.name(), pair.value())).chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in pairs {
            write!(f, "{separator}{name}=\"{}\"", escaped(value))?;
            separator = ',';
        }
        if separator == ',' { f.write_str("}") } else { Ok(()) }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "tables are public")]
mod tests {
    use cloakwork_trace::TraceId;

    use crate::{Format, Registry};

    crate::metrics! {
        calls: Counter ["method"] "calls_total" "calls" "Calls";
        queued: Gauge [] "queued" "jobs" "Jobs that wait";
        time: Histogram ["tenant", "set"] "time_seconds" "seconds" "Time of a job", &[0.5, 2.0];
    }

    #[test]
    fn every_kind_has_its_lines_and_traced_values_are_exemplars() {
        let registry = Registry::new().expect("a registry");
        let metrics = Metrics::new(&registry);
        metrics.calls.add(3, ["a\\b"]);
        metrics.queued.set_f64(2.5, []);
        metrics.time.record(0.25, ["t", "s"]);
        metrics.time.record_traced(1.5, ["t", "s"], Some(TraceId([0x1f; 16])));
        metrics.time.record_traced(7.0, ["t", "s"], None);
        let text = registry.scrape(Format::OpenMetrics);
        let trace = "1f".repeat(16);
        let expected = format!(
            "# HELP cloakwork_calls Calls\n\
             # TYPE cloakwork_calls counter\n\
             cloakwork_calls_total{{method=\"a\\\\b\"}} 3\n\
             # HELP cloakwork_queued Jobs that wait\n\
             # TYPE cloakwork_queued gauge\n\
             cloakwork_queued 2.5\n\
             # HELP cloakwork_time_seconds Time of a job\n\
             # TYPE cloakwork_time_seconds histogram\n\
             cloakwork_time_seconds_bucket{{set=\"s\",tenant=\"t\",le=\"0.5\"}} 1\n\
             cloakwork_time_seconds_bucket{{set=\"s\",tenant=\"t\",le=\"2\"}} 2 # {{trace_id=\"{trace}\"}} 1.5\n\
             cloakwork_time_seconds_bucket{{set=\"s\",tenant=\"t\",le=\"+Inf\"}} 3\n\
             cloakwork_time_seconds_count{{set=\"s\",tenant=\"t\"}} 3\n\
             cloakwork_time_seconds_sum{{set=\"s\",tenant=\"t\"}} 8.75\n\
             # EOF\n"
        );
        assert_eq!(text, expected);
        let plain = registry.scrape(Format::Prometheus);
        let without_exemplars = expected.replace(&format!(" # {{trace_id=\"{trace}\"}} 1.5"), "");
        let declared = without_exemplars.replace("cloakwork_calls C", "cloakwork_calls_total C");
        let declared = declared.replace("cloakwork_calls counter", "cloakwork_calls_total counter");
        assert_eq!(plain, declared.replace("# EOF\n", ""));
    }

    #[test]
    fn a_scrape_has_the_format_that_the_caller_accepts() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::accepted(Some("text/plain")), Format::Prometheus);
        assert_eq!(Format::accepted(None), Format::Prometheus);
    }
}
