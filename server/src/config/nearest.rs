//! Suggestions for misspelt names.

/// Returns the name with the smallest edit distance to `wanted`, if at most a third of that name's
/// length differs.
pub(super) fn nearest(wanted: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    // The input may be long, and the distance takes quadratic time.
    if wanted.len() > 100 {
        return None;
    }
    let best = names.into_iter().map(|name| (strsim::osa_distance(wanted, &name), name)).min();
    best.filter(|(distance, name)| *distance <= name.len() / 3).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let names = || ["listen.address", "log.level"].map(String::from);
        assert_eq!(nearest("lisen.adress", names()).as_deref(), Some("listen.address"));
        assert_eq!(nearest("storage.directory", names()), None);
        assert_eq!(nearest(&"l".repeat(10_000), names()), None);
    }
}
