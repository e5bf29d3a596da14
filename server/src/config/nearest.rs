//! The known name that somebody most likely meant.

/// The nearest of `names`, where one is near enough to be worth naming.
pub(super) fn nearest(wanted: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    // What comes from outside may be long, and the distance takes quadratic time.
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
    fn names_only_what_is_near() {
        let names = || ["listen.address", "log.level"].map(String::from);
        assert_eq!(nearest("lisen.adress", names()).as_deref(), Some("listen.address"));
        assert_eq!(nearest("storage.directory", names()), None);
        assert_eq!(nearest(&"l".repeat(10_000), names()), None);
    }
}
