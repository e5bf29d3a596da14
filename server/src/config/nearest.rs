//! The known name that somebody most likely meant.

/// The nearest of `names`, where one is near enough to be worth naming.
pub(super) fn nearest(wanted: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    // What comes from outside may be long, and the distance takes quadratic time.
    if wanted.len() > 100 {
        return None;
    }
    let best = names.into_iter().map(|name| (distance(wanted, &name), name)).min();
    best.filter(|(distance, name)| *distance <= name.len() / 3).map(|(_, name)| name)
}

/// Insertions, deletions and substitutions between two texts.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &r) in right.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(l != r)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_known_pairs() {
        let known = [("", "", 0), ("abc", "abc", 0), ("kitten", "sitting", 3), ("", "abc", 3), ("ab", "ba", 2)];
        for (left, right, expected) in known {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }

    #[test]
    fn names_only_what_is_near() {
        let names = || ["listen.address", "log.level"].map(String::from);
        assert_eq!(nearest("lisen.adress", names()).as_deref(), Some("listen.address"));
        assert_eq!(nearest("storage.directory", names()), None);
        assert_eq!(nearest(&"l".repeat(10_000), names()), None);
    }
}
