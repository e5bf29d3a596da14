//! Names that become values of labels.

use std::{
    collections::HashSet,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The label of all names for which there is no room.
pub const OTHER: &str = "_other";

/// Names that may be the value of a label, such as tenants. Each name makes new time series, in
/// this process and in the database of Prometheus, so their number is limited. The first names get
/// labels of their own.
#[derive(Debug)]
pub struct Names {
    /// Labels are fixed text, so a name is never freed.
    labels: RwLock<HashSet<&'static str>>,
    max: usize,
    /// Whether a name had no room.
    has_others: AtomicBool,
}

impl Names {
    /// Room for `max` names.
    pub fn new(max: usize) -> Self {
        Self { labels: RwLock::default(), max, has_others: AtomicBool::new(false) }
    }

    /// The label for `name`: the name itself if there is room for it, and [`OTHER`] if not.
    pub fn label(&self, name: &str) -> &'static str {
        if let Some(label) = self.labels.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return label;
        }
        let mut labels = self.labels.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = labels.get(name) {
            return label;
        }
        if labels.len() >= self.max {
            self.has_others.store(true, Relaxed);
            return OTHER;
        }
        let label: &'static str = name.to_owned().leak();
        labels.insert(label);
        label
    }

    /// All labels that were returned so far.
    pub fn all(&self) -> Vec<&'static str> {
        let other = self.has_others.load(Relaxed).then_some(OTHER);
        self.labels.read().unwrap_or_else(PoisonError::into_inner).iter().copied().chain(other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_names_are_labels() {
        let names = Names::new(2);
        assert_eq!(["a", "b"].map(|name| names.label(name)), ["a", "b"]);
        assert!(!names.all().contains(&OTHER));
        let labels = ["a", "b", "c", "a", "d", "b"].map(|name| names.label(name));
        assert_eq!(labels, ["a", "b", OTHER, "a", OTHER, "b"]);
        let mut all = names.all();
        all.sort();
        assert_eq!(all, [OTHER, "a", "b"]);
        assert_eq!(Names::new(0).label("a"), OTHER);
    }
}
