//! Argument and result types of operations.

use super::Type;
use crate::wire::operation::Kind;

/// Result type of operations that count bits.
const COUNT_TYPE: Type = Type::Uint(32);
/// Type of a block of AES-128, and of a key.
const AES_BLOCK_TYPE: Type = Type::Uint(128);

/// Result type of an operation with these arguments. `result` is the type that the message states
/// for CONSTANT and CAST.
///
/// Lookups are not handled here: they take blocks, and their results depend on their tables.
pub(super) fn result(kind: Kind, arguments: &[Type], result: Result<Type, String>) -> Result<Type, String> {
    let arity = |expected: usize| match arguments.len() == expected {
        true => Ok(()),
        false => Err(format!("{} arguments: it takes {expected}", arguments.len())),
    };
    match kind {
        Kind::Constant => arity(0).and(result).and_then(number_or_bit),
        Kind::Cast => {
            arity(1)?;
            number_or_bit(arguments[0])?;
            number(result?)
        }
        Kind::Not => arity(1).and_then(|()| number_or_bit(arguments[0])),
        Kind::Negate | Kind::ReverseBits => arity(1).and_then(|()| number(arguments[0])),
        Kind::CountOnes
        | Kind::CountZeros
        | Kind::LeadingOnes
        | Kind::LeadingZeros
        | Kind::TrailingOnes
        | Kind::TrailingZeros => {
            arity(1)?;
            number(arguments[0]).map(|_| COUNT_TYPE)
        }
        Kind::And | Kind::Nand | Kind::Nor | Kind::Or | Kind::Xnor | Kind::Xor => {
            arity(2)?;
            same(arguments).and_then(number_or_bit)
        }
        Kind::Mux => {
            arity(3)?;
            match arguments[0] {
                Type::Bool => same(&arguments[1..]).and_then(number_or_bit),
                other => Err(format!("its condition has the type {other}: expected bool")),
            }
        }
        Kind::Absolute => {
            arity(1)?;
            match arguments[0] {
                Type::Int(_) => Ok(arguments[0]),
                other => Err(format!("it takes signed integers, not {other}")),
            }
        }
        Kind::Add | Kind::Subtract | Kind::Multiply | Kind::Divide | Kind::Remainder | Kind::Min | Kind::Max => {
            arity(2)?;
            same(arguments).and_then(number)
        }
        Kind::Sum if arguments.is_empty() => Err("no arguments: it takes at least one".to_owned()),
        Kind::Sum => same(arguments).and_then(number),
        Kind::Dot if arguments.is_empty() || !arguments.len().is_multiple_of(2) => {
            Err(format!("{} arguments: it takes pairs", arguments.len()))
        }
        Kind::Dot => same(arguments).and_then(number),
        Kind::IsOneOf if arguments.len() < 2 => {
            Err(format!("{} arguments: it takes a value and what it may be", arguments.len()))
        }
        Kind::IsOneOf => same(arguments).and_then(number_or_bit).map(|_| Type::Bool),
        Kind::Match => matched(arguments),
        Kind::Equal | Kind::NotEqual => {
            arity(2)?;
            same(arguments).and_then(number_or_bit).map(|_| Type::Bool)
        }
        Kind::Less
        | Kind::LessOrEqual
        | Kind::Greater
        | Kind::GreaterOrEqual
        | Kind::AddOverflows
        | Kind::SubtractOverflows
        | Kind::MultiplyOverflows => {
            arity(2)?;
            same(arguments).and_then(number).map(|_| Type::Bool)
        }
        Kind::ShiftLeft | Kind::ShiftRight | Kind::RotateLeft | Kind::RotateRight => {
            arity(2)?;
            match arguments[1] {
                Type::Uint(_) => number(arguments[0]),
                other => Err(format!("it moves by an amount of type {other}: expected an unsigned integer")),
            }
        }
        Kind::Aes128Encrypt => {
            arity(2)?;
            match arguments.iter().find(|ty| **ty != AES_BLOCK_TYPE) {
                None => Ok(AES_BLOCK_TYPE),
                Some(other) => Err(format!("it takes a key and a block of type {AES_BLOCK_TYPE}, not {other}")),
            }
        }
        Kind::Rotate
        | Kind::Conjugate
        | Kind::Total
        | Kind::Polynomial
        | Kind::Chebyshev
        | Kind::Matrix
        | Kind::LevelDown
        | Kind::Bootstrap
        | Kind::BootstrapBoth => Err("it takes vectors, which only sets of CKKS have".to_owned()),
        Kind::Unspecified | Kind::Lookup | Kind::LookupBivariate | Kind::LookupMany => {
            Err("this version knows no such operation".to_owned())
        }
    }
}

/// Result type of MATCH, whose arguments are a value, keys and results in turn, and a default
/// result.
fn matched(arguments: &[Type]) -> Result<Type, String> {
    let (value, cases, otherwise) = match arguments {
        [value, cases @ .., otherwise] if !cases.is_empty() && cases.len().is_multiple_of(2) => {
            (value, cases, otherwise)
        }
        _ => {
            let got = arguments.len();
            return Err(format!("{got} arguments: it takes a value, keys with results, and one more result"));
        }
    };
    let keys: Vec<Type> = [value].into_iter().chain(cases.iter().step_by(2)).copied().collect();
    let results: Vec<Type> = cases.iter().skip(1).step_by(2).chain([otherwise]).copied().collect();
    same(&keys).and_then(number_or_bit)?;
    same(&results).and_then(number_or_bit)
}

/// The type that all types in the list equal.
fn same(types: &[Type]) -> Result<Type, String> {
    let first = types[0];
    match types.iter().find(|ty| **ty != first) {
        None => Ok(first),
        Some(other) => {
            Err(format!("arguments of the types {first} and {other}: expected one type; a cast makes it so"))
        }
    }
}

fn number(ty: Type) -> Result<Type, String> {
    match ty {
        Type::Uint(_) | Type::Int(_) => Ok(ty),
        Type::Bool => Err("it takes integers, not bool; a cast makes it one, as in u8(x)".to_owned()),
        other => Err(format!("it takes integers, not {other}")),
    }
}

fn number_or_bit(ty: Type) -> Result<Type, String> {
    match ty {
        Type::Block => Err("it takes integers and booleans, not blocks".to_owned()),
        other => Ok(other),
    }
}
