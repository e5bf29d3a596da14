//! Symbols to a tree, by recursive descent.

use super::{
    Node, NodeKind, at,
    lexer::{Symbol, symbols},
};

/// Parses a whole text.
pub(crate) fn parse(text: &str) -> Result<Node, String> {
    if text.len() > TEXT_MAX {
        return Err(format!("{} characters: an expression may have {TEXT_MAX}", text.len()));
    }
    let mut parser = Parser { symbols: &symbols(text)?, end: text.len(), depth: 0 };
    let node = parser.rank(0)?;
    match parser.symbols.first() {
        None => Ok(node),
        Some((place, Symbol::Mark(mark))) if COMPARISONS.contains(mark) => {
            Err(at(*place, "comparisons cannot be chained: put one of them in parentheses"))
        }
        Some((place, _)) => Err(at(*place, "expected an operator, or the end")),
    }
}

struct Parser<'a> {
    symbols: &'a [(usize, Symbol)],
    end: usize,
    depth: usize,
}

/// Expressions are typed by people.
const TEXT_MAX: usize = 1000;
/// Bounds how deep brackets nest; how long a chain of operators can be, the text's length bounds.
const DEPTH_MAX: usize = 100;

/// Operators of two operands, those that bind least first.
const RANKS: [&[&str]; 9] =
    [&["||"], &["&&"], COMPARISONS, &["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];
/// They cannot be chained.
const COMPARISONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];

impl Parser<'_> {
    /// Operands of a rank, between its operators, from the left.
    fn rank(&mut self, rank: usize) -> Result<Node, String> {
        let Some(operators) = RANKS.get(rank) else { return self.factor() };
        let mut node = self.rank(rank + 1)?;
        while let Some((place, operator)) = self.mark(operators) {
            let right = self.rank(rank + 1)?;
            node = call(place, operator, vec![node, right]);
            if *operators == COMPARISONS {
                break;
            }
        }
        Ok(node)
    }

    fn factor(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        let node = match self.next() {
            Some((place, Symbol::Number(text))) => Node { place, kind: NodeKind::Number(text) },
            Some((place, Symbol::Name(name))) => match self.mark(&["("]) {
                Some(_) => Node { place, kind: NodeKind::Call(name, self.arguments()?) },
                None => Node { place, kind: NodeKind::Name(name) },
            },
            Some((place, Symbol::Mark("-"))) => call(place, "-", vec![self.factor()?]),
            Some((place, Symbol::Mark("!"))) => call(place, "!", vec![self.factor()?]),
            Some((_, Symbol::Mark("("))) => {
                let inner = self.rank(0)?;
                self.close()?;
                inner
            }
            other => return Err(at(self.place(other), "expected a number, a name, '-', '!' or '('")),
        };
        self.depth -= 1;
        Ok(node)
    }

    /// What stands between the parentheses of a function.
    fn arguments(&mut self) -> Result<Vec<Node>, String> {
        if self.mark(&[")"]).is_some() {
            return Ok(Vec::new());
        }
        let mut arguments = vec![self.rank(0)?];
        while self.mark(&[","]).is_some() {
            arguments.push(self.rank(0)?);
        }
        self.close()?;
        Ok(arguments)
    }

    fn close(&mut self) -> Result<(), String> {
        match self.mark(&[")"]) {
            Some(_) => Ok(()),
            None => Err(at(self.symbols.first().map_or(self.end, |(place, _)| *place), "expected ')'")),
        }
    }

    fn mark(&mut self, among: &[&str]) -> Option<(usize, &'static str)> {
        match self.symbols {
            [(place, Symbol::Mark(mark)), rest @ ..] if among.contains(mark) => {
                self.symbols = rest;
                Some((*place, mark))
            }
            _ => None,
        }
    }

    fn next(&mut self) -> Option<(usize, Symbol)> {
        let (first, rest) = self.symbols.split_first()?;
        self.symbols = rest;
        Some(first.clone())
    }

    fn place(&self, symbol: Option<(usize, Symbol)>) -> usize {
        symbol.map_or(self.end, |(place, _)| place)
    }
}

fn call(place: usize, name: &str, arguments: Vec<Node>) -> Node {
    Node { place, kind: NodeKind::Call(name.to_owned(), arguments) }
}
