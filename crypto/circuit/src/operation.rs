//! The operation that a program is known by, for people and for metrics.

use crate::wire::operation::Kind;

/// A program with operations of different kinds.
const SEVERAL: &str = "SEVERAL";
/// A program that computes nothing.
const NONE: &str = "NONE";

/// The kind of a program's operations if they are of one kind, as in `Operation.Kind` without its
/// prefix. Constants and casts do not count: `x + 3` is an ADD.
pub(crate) fn of(kinds: impl Iterator<Item = Kind>) -> &'static str {
    let mut kinds = kinds.filter(|kind| !matches!(kind, Kind::Constant | Kind::Cast));
    match kinds.next() {
        None => NONE,
        Some(first) if kinds.all(|kind| kind == first) => name(first),
        Some(_) => SEVERAL,
    }
}

/// The fixed text that equals a stored one, if the text names an operation.
pub fn operation_named(text: &str) -> Option<&'static str> {
    let kind = || Kind::from_str_name(&format!("{PREFIX}{text}")).map(name);
    [SEVERAL, NONE].into_iter().find(|fixed| *fixed == text).or_else(kind)
}

const PREFIX: &str = "KIND_";

fn name(kind: Kind) -> &'static str {
    let name = kind.as_str_name();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_only_kind_of_operation() {
        let of = |kinds: &[Kind]| of(kinds.iter().copied());
        assert_eq!(of(&[Kind::Constant, Kind::Add, Kind::Cast, Kind::Add]), "ADD");
        assert_eq!(of(&[Kind::LookupMany]), "LOOKUP_MANY");
        assert_eq!(of(&[Kind::Add, Kind::Multiply]), SEVERAL);
        assert_eq!(of(&[Kind::Cast]), NONE);
    }

    #[test]
    fn every_name_is_found_again() {
        for name in [SEVERAL, NONE, "ADD", "LOOKUP_BIVARIATE"] {
            assert_eq!(operation_named(name), Some(name));
        }
        for other in ["", "add", "KIND_ADD"] {
            assert_eq!(operation_named(other), None);
        }
    }
}
