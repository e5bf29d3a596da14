//! Traced values of histograms. An exemplar leads from a bucket of a histogram to the trace of a
//! value in the bucket.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use cloakwork_trace::TraceId;

/// The latest traced value of each bucket. Only sampled values come here, so their rate is low.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<HashMap<Series, Vec<Option<Exemplar>>>>);

/// A histogram's name, and the values of its labels in the order in which they are exported: by the
/// names of the labels.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Series(&'static str, Vec<&'static str>);

/// A traced value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exemplar {
    pub(crate) value: f64,
    pub(crate) trace: TraceId,
}

impl Exemplars {
    /// Keeps a traced value. `buckets` are the upper bounds of the histogram's buckets.
    pub(crate) fn keep(
        &self,
        name: &'static str,
        labels: &[&'static str],
        buckets: &[f64],
        value: f64,
        trace: TraceId,
    ) {
        let index = buckets.partition_point(|bound| *bound < value);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(Series(name, labels.to_vec())).or_insert_with(|| vec![None; buckets.len() + 1]);
        kept[index] = Some(Exemplar { value, trace });
    }

    /// The exemplars of a series by bucket. The last one is that of the values above all bounds.
    pub(crate) fn of(&self, name: &str, labels: &[&str]) -> Vec<Option<Exemplar>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|(series, _)| series.0 == name && series.1 == labels);
        found.map(|(_, kept)| kept.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_value_of_each_bucket_is_kept() {
        let exemplars = Exemplars::default();
        let (first, second) = (TraceId([1; 16]), TraceId([2; 16]));
        for (value, trace) in [(0.5, first), (1.0, second), (3.0, first)] {
            exemplars.keep("h", &["a"], &[1.0, 2.0], value, trace);
        }
        let kept = |value, trace| Some(Exemplar { value, trace });
        assert_eq!(exemplars.of("h", &["a"]), [kept(1.0, second), None, kept(3.0, first)]);
        assert!(exemplars.of("h", &["b"]).is_empty() && exemplars.of("i", &["a"]).is_empty());
    }
}
