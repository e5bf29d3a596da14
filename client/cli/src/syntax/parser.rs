//! Builds a tree from symbols, by recursive descent.

use super::{
    Node, NodeKind, Problem, at,
    lexer::{Symbol, symbols},
};

/// Parses a text with a single expression.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    let symbols = symbols_of(text)?;
    let mut parser = Parser::new(text, &symbols);
    let node = parser.rank(0)?;
    parser.end()?;
    Ok(node)
}

/// Parses a text of expressions that semicolons separate.
pub(crate) fn parse_several(text: &str) -> Result<Vec<Node>, Problem> {
    let symbols = symbols_of(text)?;
    let mut parser = Parser::new(text, &symbols);
    let mut nodes = vec![parser.rank(0)?];
    while parser.mark(&[";"]).is_some() {
        nodes.push(parser.rank(0)?);
    }
    parser.end()?;
    Ok(nodes)
}

fn symbols_of(text: &str) -> Result<Vec<(usize, Symbol)>, Problem> {
    match text.len() {
        ..=TEXT_MAX => symbols(text),
        length => {
            Err(format!("{length} bytes: an expression may have {TEXT_MAX}; a long table may be an array").into())
        }
    }
}

struct Parser<'a> {
    symbols: &'a [(usize, Symbol)],
    end: usize,
    depth: usize,
}

/// Maximum length of a text in bytes. People type expressions.
const TEXT_MAX: usize = 1000;
/// Maximum depth of nested brackets. The length of the text bounds chains of operators.
const DEPTH_MAX: usize = 100;

/// Operators with two operands, from the lowest precedence to the highest.
const RANKS: [&[&str]; 9] =
    [&["||"], &["&&"], COMPARISONS, &["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];
/// Comparisons, which cannot be chained.
const COMPARISONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];

impl<'a> Parser<'a> {
    fn new(text: &str, symbols: &'a [(usize, Symbol)]) -> Self {
        Self { symbols, end: text.len(), depth: 0 }
    }

    /// Checks that no symbol is left.
    fn end(&self) -> Result<(), Problem> {
        match self.symbols.first() {
            None => Ok(()),
            Some((place, Symbol::Mark(mark))) if COMPARISONS.contains(mark) => {
                Err(at(*place, "comparisons cannot be chained: put one of them in parentheses"))
            }
            Some((place, Symbol::Name(name))) if name == "and" => Err(at(*place, "'and' is written &&")),
            Some((place, Symbol::Name(name))) if name == "or" => Err(at(*place, "'or' is written ||")),
            Some((place, _)) => Err(at(*place, "expected an operator, or the end")),
        }
    }

    /// Parses the operands between the operators of a rank, from the left.
    fn rank(&mut self, rank: usize) -> Result<Node, Problem> {
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

    fn factor(&mut self) -> Result<Node, Problem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}").into());
        }
        let node = match self.mark(&["-", "!"]) {
            Some((place, sign)) => call(place, sign, vec![self.factor()?]),
            None => self.element()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn element(&mut self) -> Result<Node, Problem> {
        let mut node = self.operand()?;
        while let Some((place, _)) = self.mark(&["["]) {
            let index = self.rank(0)?;
            self.close("]")?;
            node = Node { place, kind: NodeKind::Element(Box::new([node, index])) };
        }
        Ok(node)
    }

    fn operand(&mut self) -> Result<Node, Problem> {
        match self.next() {
            Some((place, Symbol::Number(text))) => Ok(Node { place, kind: NodeKind::Number(text) }),
            Some((place, Symbol::Name(name))) => match self.mark(&["("]) {
                Some(_) => Ok(Node { place, kind: NodeKind::Call(name, self.list(")")?) }),
                None => Ok(Node { place, kind: NodeKind::Name(name) }),
            },
            Some((place, Symbol::Mark("["))) => Ok(Node { place, kind: NodeKind::Array(self.list("]")?) }),
            Some((_, Symbol::Mark("("))) => {
                let inner = self.rank(0)?;
                self.close(")")?;
                Ok(inner)
            }
            other => Err(at(self.place(other), "expected a number, a name, '-', '!', '(' or '['")),
        }
    }

    /// Parses the list between the brackets of a function or an array.
    fn list(&mut self, bracket: &str) -> Result<Vec<Node>, Problem> {
        if self.mark(&[bracket]).is_some() {
            return Ok(Vec::new());
        }
        let mut nodes = vec![self.rank(0)?];
        while self.mark(&[","]).is_some() {
            nodes.push(self.rank(0)?);
        }
        self.close(bracket)?;
        Ok(nodes)
    }

    fn close(&mut self, bracket: &str) -> Result<(), Problem> {
        match self.mark(&[bracket]) {
            Some(_) => Ok(()),
            None => {
                let place = self.symbols.first().map_or(self.end, |(place, _)| *place);
                Err(at(place, format!("expected '{bracket}'")))
            }
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
