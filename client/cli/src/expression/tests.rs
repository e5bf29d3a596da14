use proptest::prelude::*;

use super::*;

fn value(text: &str, x: u64, y: u64) -> Result<u64, String> {
    text.parse::<Expression>()?.evaluate(Variables { x, y }, 16)
}

/// A tree: its text with every parenthesis written, and its mathematical value, if it has one.
#[derive(Clone, Debug)]
struct Sample {
    text: String,
    value: Option<i64>,
}

fn samples(x: i64, y: i64) -> impl Strategy<Value = Sample> {
    let leaf = prop_oneof![
        (0_i64..20).prop_map(|number| Sample { text: number.to_string(), value: Some(number) }),
        Just(Sample { text: "x".into(), value: Some(x) }),
        Just(Sample { text: "y".into(), value: Some(y) }),
    ];
    leaf.prop_recursive(5, 30, 2, |inner| {
        let operators = prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">="]);
        prop_oneof![
            inner.clone().prop_map(|one| Sample { text: format!("-({})", one.text), value: one.value.map(|v| -v) }),
            (inner.clone(), operators, inner).prop_map(|(left, operator, right)| {
                let text = format!("({} {operator} {})", left.text, right.text);
                let value = left.value.zip(right.value).and_then(|(a, b)| oracle(a, operator, b));
                Sample { text, value }
            }),
        ]
    })
}

/// An independent computation: division through floating point, which is exact for numbers this
/// small.
fn oracle(a: i64, operator: &str, b: i64) -> Option<i64> {
    let floor = || (b != 0).then(|| (a as f64 / b as f64).floor() as i64);
    match operator {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => floor(),
        "%" => floor().map(|quotient| a - quotient * b),
        "==" => Some(i64::from(a == b)),
        "!=" => Some(i64::from(a != b)),
        "<" => Some(i64::from(a < b)),
        "<=" => Some(i64::from(a <= b)),
        ">" => Some(i64::from(a > b)),
        _ => Some(i64::from(a >= b)),
    }
}

proptest! {
    #[test]
    fn expressions_have_their_mathematical_value(
        (x, y, sample) in (0_u64..16, 0_u64..16)
            .prop_flat_map(|(x, y)| (Just(x), Just(y), samples(x as i64, y as i64)))
    ) {
        // Beyond this bound, floating point is not exact.
        prop_assume!(sample.value.is_none_or(|value| value.abs() < 1 << 50));
        match sample.value {
            Some(expected) => prop_assert_eq!(value(&sample.text, x, y), Ok(expected.rem_euclid(16) as u64)),
            None => prop_assert!(value(&sample.text, x, y).is_err()),
        }
    }

    #[test]
    fn no_text_panics(text in "[xy0-9+*/%()<>=! -]{0,60}|.{0,20}") {
        let _ = value(&text, 3, 5);
    }

    #[test]
    fn spaces_are_ignored(x in 0_u64..16, spaces in prop::collection::vec(0_usize..3, 9)) {
        let words = ["x", "*", "x", "-", "3", "%", "2", "<", "7"];
        let text: String = words.iter().zip(spaces).map(|(word, count)| format!("{word}{}", " ".repeat(count))).collect();
        prop_assert_eq!(value(&text, x, 0), value("x*x-3%2<7", x, 0));
    }
}

#[test]
fn products_come_before_sums_and_sums_before_comparisons() {
    assert_eq!(value("2 + 3 * x", 4, 0), Ok(14));
    assert_eq!(value("(2 + 3) * x", 3, 0), Ok(15));
    assert_eq!(value("10 - 3 - 2", 0, 0), Ok(5));
    assert_eq!(value("x + 1 == y * 2", 5, 3), Ok(1));
    assert_eq!(value("-x", 1, 0), Ok(15));
    assert_eq!(value("--x", 1, 0), Ok(1));
    assert_eq!(value("-1 % 4", 0, 0), Ok(3));
    assert_eq!(value("x*x % 16", 5, 0), Ok(9));
}

#[test]
fn errors_name_the_problem_and_its_place() {
    let factor = "expected a number, a name, '-', '!', '(' or '['";
    let operations = "is no operation of tables: there are + - * / % == != < <= > >=";
    let problems = [
        ("", 0, factor),
        ("x +", 3, factor),
        ("(x", 2, "expected ')'"),
        ("x y", 2, "expected an operator, or the end"),
        ("x; y", 1, "expected an operator, or the end"),
        ("x < y < 1", 6, "comparisons cannot be chained: put one of them in parentheses"),
        ("x # 1", 2, "'#' is no part of an expression"),
        ("x & 1", 2, &format!("'&' {operations}")),
        ("max(x, y)", 0, &format!("'max' {operations}")),
        ("[x, y]", 0, "tables are of numbers: there are no arrays"),
        ("1 + x[0]", 5, "tables are of numbers: there are no arrays"),
        ("z", 0, "'z' is neither x nor y"),
        ("99999999999999999999", 0, "the number 99999999999999999999: number too large to fit in target type"),
    ];
    for (text, place, problem) in problems {
        assert_eq!(value(text, 0, 0), Err(at(place, problem).marked_in(text)), "{text}");
    }
    for (text, problem) in [
        ("1 / x", "division by zero at x = 0, y = 0"),
        ("9223372036854775807 + 1", "too large a number at x = 0, y = 0"),
    ] {
        assert_eq!(value(text, 0, 0), Err(problem.to_owned()), "{text}");
    }
    assert_eq!(value(&"(".repeat(500), 0, 0), Err("nested deeper than 100".to_owned()));
    assert!(value(&"-".repeat(2000), 0, 0).is_err_and(|problem| problem.contains("may have 1000")));
}
