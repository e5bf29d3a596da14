//! Symbols to a tree, by recursive descent.

use super::{
    Node, Operator,
    lexer::{Symbol, symbols},
};

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    if text.len() > TEXT_MAX {
        return Err(format!("{} characters: an expression may have {TEXT_MAX}", text.len()));
    }
    let mut parser = Parser { symbols: &symbols(text)?, end: text.len(), depth: 0 };
    let node = parser.comparison()?;
    match parser.symbols.first() {
        None => Ok(node),
        Some((place, _)) => Err(format!("expected the end at {place}")),
    }
}

struct Parser<'a> {
    symbols: &'a [(usize, Symbol)],
    end: usize,
    depth: usize,
}

/// Expressions are typed by people.
const TEXT_MAX: usize = 1000;
/// Bounds the recursion, here and in the evaluation.
const DEPTH_MAX: usize = 100;

impl Parser<'_> {
    fn comparison(&mut self) -> Result<Node, String> {
        use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let left = self.sum()?;
        match self.operator(&[Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]) {
            Some(operator) => Ok(Node::Operation(Box::new(left), operator, Box::new(self.sum()?))),
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.chain(&[Operator::Add, Operator::Subtract], Self::product)
    }

    fn product(&mut self) -> Result<Node, String> {
        self.chain(&[Operator::Multiply, Operator::Divide, Operator::Modulo], Self::factor)
    }

    /// Operands between operators of one rank, from the left.
    fn chain(
        &mut self,
        operators: &[Operator],
        operand: fn(&mut Self) -> Result<Node, String>,
    ) -> Result<Node, String> {
        let mut node = operand(self)?;
        while let Some(operator) = self.operator(operators) {
            node = Node::Operation(Box::new(node), operator, Box::new(operand(self)?));
        }
        Ok(node)
    }

    fn factor(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        let node = match self.next() {
            Some((_, Symbol::Number(number))) => Node::Number(number),
            Some((_, Symbol::X)) => Node::X,
            Some((_, Symbol::Y)) => Node::Y,
            Some((_, Symbol::Operator(Operator::Subtract))) => Node::Negative(Box::new(self.factor()?)),
            Some((_, Symbol::Open)) => {
                let inner = self.comparison()?;
                match self.next() {
                    Some((_, Symbol::Close)) => inner,
                    other => return Err(format!("expected ')' at {}", self.place(other))),
                }
            }
            other => return Err(format!("expected a number, x, y, '-' or '(' at {}", self.place(other))),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn operator(&mut self, among: &[Operator]) -> Option<Operator> {
        match self.symbols {
            [(_, Symbol::Operator(operator)), rest @ ..] if among.contains(operator) => {
                self.symbols = rest;
                Some(*operator)
            }
            _ => None,
        }
    }

    fn next(&mut self) -> Option<(usize, Symbol)> {
        let (first, rest) = self.symbols.split_first()?;
        self.symbols = rest;
        Some(*first)
    }

    fn place(&self, symbol: Option<(usize, Symbol)>) -> usize {
        symbol.map_or(self.end, |(place, _)| place)
    }
}
