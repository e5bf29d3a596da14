//! Puts the mutants of one file behind switches.

use std::{cmp::Reverse, ops::Range};

use syn::Expr;

use crate::{
    insertion::{Inserted, Insertion, Side, composed},
    mutant::Mutant,
    place::{Place, places},
};

/// The text of a file with a switch for each mutant that can have one, and the inserted texts. At
/// most one mutant is active, so a mutated copy of an expression holds no other switches.
pub(crate) fn switched(text: &str, mutants: &[Mutant]) -> syn::Result<(String, Vec<Inserted>)> {
    let tree = syn::parse_file(text)?;
    let places = places(text, &tree, mutants);
    let insertions = places.iter().flat_map(|(&index, place)| insertions(text, &mutants[index], place));
    let (edited, inserted) = composed(text, insertions.collect());
    // A fault of this program would otherwise look like a fault of some mutant.
    syn::parse_file(&edited)?;
    Ok((edited, inserted))
}

fn insertions(text: &str, mutant: &Mutant, place: &Place) -> Vec<Insertion> {
    let number = mutant.number;
    let insertion = |at, side, text| Insertion { number, at, side, text };
    match place {
        Place::Body(at) => {
            let value = format!("if crate::mutant({number}) {{ return {}; }} ", mutant.replacement);
            vec![insertion(*at, Side::Before(Reverse(usize::MAX)), value)]
        }
        Place::Arm(at) => vec![insertion(*at, Side::After(0), format!(" if !crate::mutant({number})"))],
        Place::Around(range) => {
            let mutated = mutated(text, mutant, range);
            // For example, `a as u64 < b` does not parse.
            if syn::parse_str::<Expr>(&mutated).is_err() {
                return Vec::new();
            }
            // Parentheses keep an expression that begins with a block in one piece.
            let before = format!("(if crate::mutant({number}) {{ ({mutated}) }} else {{ (");
            vec![
                insertion(range.start, Side::Before(Reverse(range.len())), before),
                insertion(range.end, Side::After(range.len()), ") })".to_owned()),
            ]
        }
    }
}

/// The part of the text in `range`, with the mutant's replacement.
fn mutated(text: &str, mutant: &Mutant, range: &Range<usize>) -> String {
    let replaced = mutant.range(text).expect("a mutant with a place has a range");
    format!("{} {} {}", &text[range.start..replaced.start], mutant.replacement, &text[replaced.end..range.end])
}

#[cfg(test)]
mod tests {
    use super::{Inserted, switched};
    use crate::mutant::{Genre, Mutant, Point, Span};

    /// Mutates the first `original` after a mark `/*N*/`, where N is the number.
    fn mutant(text: &str, number: u32, genre: Genre, original: &str, replacement: &str) -> Mutant {
        let mark = format!("/*{number}*/");
        let from = text.find(&mark).expect("a mark") + mark.len();
        let start = from + text[from..].find(original).expect("an original");
        let point = |offset: usize| {
            let before = &text[..offset];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            Point { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
        };
        let span = Span { start: point(start), end: point(start + original.len()) };
        Mutant { number, file: "lib.rs".into(), genre, span, replacement: replacement.to_owned() }
    }

    /// The edited text, without marks and with single spaces.
    fn edited(text: &str, mutants: &[Mutant]) -> String {
        let (edited, inserted) = switched(text, mutants).expect("the edited text parses");
        for Inserted { number, start, end } in inserted {
            let part = &edited[start..end];
            assert!(part.contains(&format!("crate::mutant({number})")) || part == ") })", "{number} inserted {part}");
        }
        let bare = (0..10).fold(edited, |edited, number| edited.replace(&format!("/*{number}*/"), ""));
        bare.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_function_returns_the_value() {
        let text = "fn f() -> u8 { /*1*/ g(); 3 }";
        let mutants = [mutant(text, 1, Genre::FnValue, "g(); 3", "0")];
        assert_eq!(edited(text, &mutants), "fn f() -> u8 { if crate::mutant(1) { return 0; } g(); 3 }");
    }

    #[test]
    fn an_operator_is_replaced() {
        let text = "fn f(mut a: u8) { g(/*1*/a - 1); /*2*/a += 2; }";
        let mutants =
            [mutant(text, 1, Genre::BinaryOperator, "-", "+"), mutant(text, 2, Genre::BinaryOperator, "+=", "*=")];
        let expected = "fn f(mut a: u8) { \
                        g((if crate::mutant(1) { (a + 1) } else { (a - 1) })); \
                        (if crate::mutant(2) { (a *= 2) } else { (a += 2) }); }";
        assert_eq!(edited(text, &mutants), expected);
    }

    #[test]
    fn an_operator_that_binds_less_regroups_the_expression_around_it() {
        let text = "fn f() -> bool { 5 - 3 /*1*/* 2 < 7 }";
        let mutants = [mutant(text, 1, Genre::BinaryOperator, "*", "+")];
        // Not `5 - (3 + 2)`.
        let expected = "fn f() -> bool { (if crate::mutant(1) { (5 - 3 + 2) } else { (5 - 3 * 2) }) < 7 }";
        assert_eq!(edited(text, &mutants), expected);
    }

    #[test]
    fn an_operator_that_binds_more_stays_in_its_expression() {
        let text = "fn f() -> bool { 5 - (3 /*1*/+ 2) * 4 < 7 }";
        let mutants = [mutant(text, 1, Genre::BinaryOperator, "+", "*")];
        let expected = "fn f() -> bool { 5 - ((if crate::mutant(1) { (3 * 2) } else { (3 + 2) })) * 4 < 7 }";
        assert_eq!(edited(text, &mutants), expected);
    }

    #[test]
    fn an_operator_is_deleted() {
        let text = "fn f(a: bool) -> bool { /*1*/!a }";
        let mutants = [mutant(text, 1, Genre::UnaryOperator, "!", "")];
        let expected = "fn f(a: bool) -> bool { (if crate::mutant(1) { ( a) } else { (!a) }) }";
        assert_eq!(edited(text, &mutants), expected);
    }

    #[test]
    fn an_arm_is_deleted() {
        let text = "fn f(a: u8) -> u8 { match a { /*1*/1 | 2 => 3, _ => 4 } }";
        let mutants = [mutant(text, 1, Genre::MatchArm, "1 | 2 => 3,", "")];
        let expected = "fn f(a: u8) -> u8 { match a { 1 | 2 if !crate::mutant(1) => 3, _ => 4 } }";
        assert_eq!(edited(text, &mutants), expected);
    }

    #[test]
    fn a_guard_is_replaced() {
        let text = "fn f(a: u8) -> u8 { match a { b if /*1*/b > 2 => 3, _ => 4 } }";
        let mutants = [mutant(text, 1, Genre::MatchArmGuard, "b > 2", "true")];
        let guard = "(if crate::mutant(1) { ( true ) } else { (b > 2) })";
        assert_eq!(edited(text, &mutants), format!("fn f(a: u8) -> u8 {{ match a {{ b if {guard} => 3, _ => 4 }} }}"));
    }

    #[test]
    fn mutants_lie_in_each_other() {
        let text = "fn f(a: u8) -> bool { /*1*//*2*//*3*/a > 1 && !(a == 7) }";
        let mutants = [
            mutant(text, 1, Genre::FnValue, "a > 1 && !(a == 7)", "true"),
            mutant(text, 2, Genre::BinaryOperator, ">", "=="),
            mutant(text, 3, Genre::BinaryOperator, "&&", "||"),
            mutant(text, 3, Genre::BinaryOperator, "==", "!="),
        ];
        let expected = "fn f(a: u8) -> bool { \
                        if crate::mutant(1) { return true; } \
                        (if crate::mutant(3) { (a > 1 || !(a == 7)) } else { (\
                        (if crate::mutant(2) { (a == 1) } else { (a > 1) }) \
                        && !((if crate::mutant(3) { (a != 7) } else { (a == 7) }))) }) }";
        assert_eq!(edited(text, &mutants), expected);
    }

    #[test]
    fn mutants_share_an_expression() {
        let text = "fn f(a: u8) -> u8 { /*1*//*2*/a + 1 }";
        let mutants =
            [mutant(text, 1, Genre::BinaryOperator, "+", "-"), mutant(text, 2, Genre::BinaryOperator, "+", "*")];
        let expected = "fn f(a: u8) -> u8 { (if crate::mutant(1) { (a - 1) } else { (\
                        (if crate::mutant(2) { (a * 1) } else { (a + 1) })) }) }";
        assert_eq!(edited(text, &mutants), expected);
    }

    #[test]
    fn a_mutant_without_a_place_changes_nothing() {
        let text =
            "fn f(a: Option<i8>) { if let /*1*/Some(-1) = a && g() { assert!(1 /*2*/+ 1 == 2); } /*3*/1 as u8 > 2 }";
        let mutants = [
            mutant(text, 1, Genre::UnaryOperator, "-", ""),
            mutant(text, 1, Genre::BinaryOperator, "&&", "||"),
            mutant(text, 2, Genre::BinaryOperator, "+", "*"),
            mutant(text, 1, Genre::Other, "g()", ""),
            mutant(text, 3, Genre::BinaryOperator, ">", "<"),
        ];
        let (edited, inserted) = switched(text, &mutants).expect("it parses");
        assert_eq!((edited.as_str(), inserted), (text, Vec::new()));
    }
}
