//! Expressions in x and y, for lookup tables.

use std::str::FromStr;

use crate::syntax::{self, NodeKind, Problem, at};

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression(Node);

/// Values of the variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables {
    pub(crate) x: u64,
    pub(crate) y: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Number(i64),
    X,
    Y,
    Negative(Box<Node>),
    Operation(Box<Node>, Operator, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expression {
    /// The expression's value modulo `modulus`. Division and `%` round down, so -1 % 4 is 3.
    /// Division by zero is an error.
    pub(crate) fn evaluate(&self, variables: Variables, modulus: u64) -> Result<u64, String> {
        let Variables { x, y } = variables;
        let value = self.0.value(variables).map_err(|problem| format!("{problem} at x = {x}, y = {y}"))?;
        Ok(value.rem_euclid(modulus as i64) as u64)
    }

    /// Whether the expression contains y.
    pub(crate) fn uses_y(&self) -> bool {
        self.0.uses_y()
    }
}

impl FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        syntax::parse(text).and_then(|node| translate(&node)).map(Self).map_err(|problem| problem.marked_in(text))
    }
}

/// Translates a syntax tree. Tables allow numbers, x, y, and the operations of `Operator`.
fn translate(node: &syntax::Node) -> Result<Node, Problem> {
    let place = node.place;
    match &node.kind {
        NodeKind::Number(text) => {
            text.parse().map(Node::Number).map_err(|error| at(place, format!("the number {text}: {error}")))
        }
        NodeKind::Name(name) => match &name[..] {
            "x" => Ok(Node::X),
            "y" => Ok(Node::Y),
            other => Err(at(place, format!("'{other}' is neither x nor y"))),
        },
        NodeKind::Call(name, arguments) => match (&name[..], &arguments[..]) {
            ("-", [inner]) => Ok(Node::Negative(Box::new(translate(inner)?))),
            (name, [left, right]) => {
                let operator = Operator::named(name).ok_or_else(|| no_operation(place, name))?;
                Ok(Node::Operation(Box::new(translate(left)?), operator, Box::new(translate(right)?)))
            }
            (name, _) => Err(no_operation(place, name)),
        },
        NodeKind::Array(_) | NodeKind::Element(_) => Err(at(place, "tables are of numbers: there are no arrays")),
    }
}

fn no_operation(place: usize, name: &str) -> Problem {
    at(place, format!("'{name}' is no operation of tables: there are + - * / % == != < <= > >="))
}

impl Node {
    fn value(&self, variables: Variables) -> Result<i64, String> {
        Ok(match self {
            Self::Number(number) => *number,
            Self::X => variables.x as i64,
            Self::Y => variables.y as i64,
            Self::Negative(inner) => inner.value(variables)?.checked_neg().ok_or("too large a number")?,
            Self::Operation(left, operator, right) => {
                operator.apply(left.value(variables)?, right.value(variables)?)?
            }
        })
    }

    fn uses_y(&self) -> bool {
        match self {
            Self::Y => true,
            Self::Number(_) | Self::X => false,
            Self::Negative(inner) => inner.uses_y(),
            Self::Operation(left, _, right) => left.uses_y() || right.uses_y(),
        }
    }
}

impl Operator {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "%" => Self::Modulo,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    fn apply(self, left: i64, right: i64) -> Result<i64, &'static str> {
        let sized = |value: Option<i64>| value.ok_or("too large a number");
        match self {
            Self::Add => sized(left.checked_add(right)),
            Self::Subtract => sized(left.checked_sub(right)),
            Self::Multiply => sized(left.checked_mul(right)),
            Self::Divide | Self::Modulo if right == 0 => Err("division by zero"),
            Self::Divide => floor_divide(left, right),
            Self::Modulo => {
                let back = floor_divide(left, right)?.checked_mul(right);
                sized(back.and_then(|back| left.checked_sub(back)))
            }
            Self::Equal => Ok((left == right).into()),
            Self::NotEqual => Ok((left != right).into()),
            Self::Less => Ok((left < right).into()),
            Self::LessOrEqual => Ok((left <= right).into()),
            Self::Greater => Ok((left > right).into()),
            Self::GreaterOrEqual => Ok((left >= right).into()),
        }
    }
}

fn floor_divide(left: i64, right: i64) -> Result<i64, &'static str> {
    let quotient = left.checked_div(right).ok_or("too large a number")?;
    let inexact = quotient * right != left;
    Ok(if inexact && (left < 0) != (right < 0) { quotient - 1 } else { quotient })
}

#[cfg(test)]
mod tests;
