//! Finds the place of each mutant's switch in the syntax tree of a file.

use std::{collections::BTreeMap, ops::Range};

use syn::{
    Arm, BinOp, Expr, ExprBinary, ExprUnary, File, Pat,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::mutant::{Genre, Mutant};

/// Where the switch of a mutant goes, in bytes.
#[derive(Debug, PartialEq)]
pub(crate) enum Place {
    /// Before the first statement of a function.
    Body(usize),
    /// Around an expression.
    Around(Range<usize>),
    /// After the pattern of an arm.
    Arm(usize),
}

/// The places of those mutants that can be switched, by the position of the mutant in the list.
pub(crate) fn places(text: &str, tree: &File, mutants: &[Mutant]) -> BTreeMap<usize, Place> {
    let ranges = mutants.iter().map(|mutant| mutant.range(text)).collect();
    let mut search = Search { text, mutants, ranges, found: BTreeMap::new() };
    search.visit_file(tree);
    for (index, range) in search.ranges.iter().enumerate() {
        if let (Genre::FnValue, Some(range)) = (mutants[index].genre, range) {
            search.found.insert(index, Place::Body(range.start));
        }
    }
    search.found
}

struct Search<'a> {
    text: &'a str,
    mutants: &'a [Mutant],
    ranges: Vec<Option<Range<usize>>>,
    found: BTreeMap<usize, Place>,
}

impl Search<'_> {
    /// Records the place of each mutant of a genre. `place` takes the mutant's bytes and its
    /// replacement. The first place of a mutant stands, because outer nodes are visited first.
    fn record(&mut self, genre: Genre, place: impl Fn(&Range<usize>, &str) -> Option<Place>) {
        for (index, (mutant, range)) in self.mutants.iter().zip(&self.ranges).enumerate() {
            let Some(range) = range.as_ref().filter(|_| mutant.genre == genre) else { continue };
            if let Some(place) = place(range, &mutant.replacement) {
                self.found.entry(index).or_insert(place);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let text = self.text;
        self.record(Genre::BinaryOperator, |range, replacement| {
            let regrouped = regrouped(binary, range.start, precedence(replacement), text)?;
            around(regrouped.span().byte_range(), [&*regrouped.left, &*regrouped.right])
        });
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        self.record(Genre::UnaryOperator, |range, _| {
            (start(&unary.op) == range.start).then(|| Place::Around(unary.span().byte_range()))
        });
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.record(Genre::MatchArm, |range, _| {
            let is_bare = arm.guard.is_none() && start(arm) == range.start;
            is_bare.then(|| Place::Arm(arm.pat.span().byte_range().end))
        });
        self.record(Genre::MatchArmGuard, |range, _| {
            let (_, guard) = arm.guard.as_ref()?;
            if start(&**guard) == range.start { around(range.clone(), [&**guard]) } else { None }
        });
        visit::visit_arm(self, arm);
    }

    /// Patterns are skipped, because they can have a minus but no switch.
    fn visit_pat(&mut self, _: &'ast Pat) {}
}

fn start(node: &impl Spanned) -> usize {
    node.span().byte_range().start
}

/// The expression that an operator at `at` belongs to, or the larger expression that a replacement
/// regroups. A replacement changes the text, so `a - b * c` becomes `(a - b) + c`.
fn regrouped<'a>(binary: &'a ExprBinary, at: usize, precedence: u8, text: &str) -> Option<&'a ExprBinary> {
    if start(&binary.op) == at {
        return Some(binary);
    }
    let inner = [&binary.left, &binary.right].into_iter().find_map(|side| match &**side {
        Expr::Binary(side) => regrouped(side, at, precedence, text),
        _ => None,
    })?;
    if self::precedence(operator(&binary.op, text)) >= precedence { Some(binary) } else { Some(inner) }
}

fn operator<'a>(operator: &BinOp, text: &'a str) -> &'a str {
    &text[operator.span().byte_range()]
}

/// Operators with a higher precedence bind tighter. The operators that assign have the lowest.
fn precedence(operator: &str) -> u8 {
    match operator {
        "*" | "/" | "%" => 9,
        "+" | "-" => 8,
        "<<" | ">>" => 7,
        "&" => 6,
        "^" => 5,
        "|" => 4,
        "==" | "!=" | "<" | ">" | "<=" | ">=" => 3,
        "&&" => 2,
        "||" => 1,
        _ => 0,
    }
}

/// A place around an expression. An expression that binds names with `let` has none, because its
/// names would be lost outside of the switch.
fn around<const N: usize>(range: Range<usize>, parts: [&Expr; N]) -> Option<Place> {
    (!parts.into_iter().any(binds)).then_some(Place::Around(range))
}

fn binds(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}
