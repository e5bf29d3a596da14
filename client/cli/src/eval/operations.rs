//! Operators and named functions, and the operations that they make.

use cloakwork_client::{Kind, LIMITS, Type};

use super::{
    compile::{Compiler, Operand, Typed},
    derived,
};
use crate::syntax::{Node, Problem, at};

/// Result type of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// The type of the operands.
    Same,
    Bool,
    /// A number of bits.
    Count,
}

/// Type of the blocks and keys of a block cipher.
const BLOCK: Type = Type::Uint(128);

/// An operation: its name in expressions, its kind and its result type.
type Named = (&'static str, Kind, Returns);

/// Operations with one operand.
pub(crate) const OF_ONE: &[Named] = &[
    ("-", Kind::Negate, Returns::Same),
    ("!", Kind::Not, Returns::Same),
    ("abs", Kind::Absolute, Returns::Same),
    ("reverse_bits", Kind::ReverseBits, Returns::Same),
    ("count_ones", Kind::CountOnes, Returns::Count),
    ("count_zeros", Kind::CountZeros, Returns::Count),
    ("leading_ones", Kind::LeadingOnes, Returns::Count),
    ("leading_zeros", Kind::LeadingZeros, Returns::Count),
    ("trailing_ones", Kind::TrailingOnes, Returns::Count),
    ("trailing_zeros", Kind::TrailingZeros, Returns::Count),
];

/// Operations with two operands of one type.
pub(crate) const OF_TWO: &[Named] = &[
    ("+", Kind::Add, Returns::Same),
    ("-", Kind::Subtract, Returns::Same),
    ("*", Kind::Multiply, Returns::Same),
    ("/", Kind::Divide, Returns::Same),
    ("%", Kind::Remainder, Returns::Same),
    ("add_overflows", Kind::AddOverflows, Returns::Bool),
    ("sub_overflows", Kind::SubtractOverflows, Returns::Bool),
    ("mul_overflows", Kind::MultiplyOverflows, Returns::Bool),
    ("&", Kind::And, Returns::Same),
    ("&&", Kind::And, Returns::Same),
    ("|", Kind::Or, Returns::Same),
    ("||", Kind::Or, Returns::Same),
    ("^", Kind::Xor, Returns::Same),
    ("min", Kind::Min, Returns::Same),
    ("max", Kind::Max, Returns::Same),
    ("==", Kind::Equal, Returns::Bool),
    ("!=", Kind::NotEqual, Returns::Bool),
    ("<", Kind::Less, Returns::Bool),
    ("<=", Kind::LessOrEqual, Returns::Bool),
    (">", Kind::Greater, Returns::Bool),
    (">=", Kind::GreaterOrEqual, Returns::Bool),
];

/// Compiles an operator or a function. Returns `None` if no function of this name takes this many
/// arguments.
pub(super) fn call(
    compiler: &mut Compiler<'_>,
    place: usize,
    name: &str,
    arguments: &[Node],
    wanted: Option<Type>,
) -> Option<Result<Operand, Problem>> {
    Some(match (name, arguments) {
        ("<<" | ">>" | "rotl" | "rotr", [number, by]) => shift(compiler, place, name, [number, by], wanted),
        ("select", [condition, yes, no]) => select(compiler, place, condition, [yes, no], wanted),
        ("sum", [_, ..]) => sum(compiler, place, arguments, wanted),
        ("dot", [_, ..]) if arguments.len().is_multiple_of(2) => dot(compiler, place, arguments, wanted),
        ("is_one_of", [_, _, ..]) => is_one_of(compiler, place, arguments),
        ("match", [value, cases @ .., otherwise]) if cases.len() >= 2 && cases.len().is_multiple_of(2) => {
            matched(compiler, place, value, cases, otherwise, wanted)
        }
        ("lookup", [number, results @ ..]) if !results.is_empty() => lookup(compiler, place, number, results, wanted),
        // The operands are not widened, because a key that is too short is a mistake.
        ("aes128", [key, block]) => compiler.operand(key, Some(BLOCK)).and_then(|key| {
            let block = compiler.operand(block, Some(BLOCK))?;
            elementwise(compiler, place, Kind::Aes128Encrypt, Returns::Same, &[key, block])
        }),
        ("mul_div", [_, _, _]) => compiler.alike(place, arguments, wanted).and_then(|numbers| {
            compiler.each(place, &numbers, |compiler, numbers| derived::product_divided(compiler, place, numbers))
        }),
        ("is_odd" | "is_even", [number]) => compiler.operand(number, None).and_then(|number| {
            compiler.each(place, &[number], |compiler, numbers| {
                derived::parity(compiler, place, numbers[0], name == "is_odd")
            })
        }),
        ("ilog2", [number]) => compiler.operand(number, None).and_then(|number| {
            compiler.each(place, &[number], |compiler, numbers| derived::log2(compiler, place, numbers[0]))
        }),
        ("min" | "max", [array]) => extreme(compiler, place, name, array, wanted),
        (name, [node]) => {
            let (kind, returns) = known(OF_ONE, name)?;
            let node = compiler.operand(node, wanted.filter(|_| returns == Returns::Same));
            node.and_then(|node| elementwise(compiler, place, kind, returns, &[node]))
        }
        (name, [_, _]) => {
            let (kind, returns) = known(OF_TWO, name)?;
            let both = compiler.alike(place, arguments, wanted.filter(|_| returns == Returns::Same));
            both.and_then(|both| elementwise(compiler, place, kind, returns, &both))
        }
        _ => return None,
    })
}

/// The operands that decide the type of an operation; `None` if the operation has a type of its
/// own.
pub(super) fn deciding<'n>(name: &str, arguments: &'n [Node]) -> Option<Vec<&'n Node>> {
    match (name, arguments) {
        ("<<" | ">>" | "rotl" | "rotr", [number, _]) => Some(vec![number]),
        ("select", [_, results @ ..]) | ("lookup", [_, results @ ..]) => Some(results.iter().collect()),
        ("match", [_, cases @ .., otherwise]) => Some(cases.iter().skip(1).step_by(2).chain([otherwise]).collect()),
        ("sum" | "dot" | "min" | "max" | "mul_div", _) => Some(arguments.iter().collect()),
        _ => {
            let table = if arguments.len() == 1 { OF_ONE } else { OF_TWO };
            known(table, name).filter(|(_, returns)| *returns == Returns::Same)?;
            Some(arguments.iter().collect())
        }
    }
}

fn known(table: &[Named], name: &str) -> Option<(Kind, Returns)> {
    table.iter().find(|(known, ..)| *known == name).map(|(_, kind, returns)| (*kind, *returns))
}

fn elementwise(
    compiler: &mut Compiler<'_>,
    place: usize,
    kind: Kind,
    returns: Returns,
    operands: &[Operand],
) -> Result<Operand, Problem> {
    compiler.each(place, operands, |compiler, values| {
        let ty = match returns {
            Returns::Same => values[0].ty,
            Returns::Bool => Type::Bool,
            Returns::Count => Type::Uint(32),
        };
        Ok(compiler.apply(place, kind, values, ty))
    })
}

fn shift(
    compiler: &mut Compiler<'_>,
    place: usize,
    name: &str,
    [number, by]: [&Node; 2],
    wanted: Option<Type>,
) -> Result<Operand, Problem> {
    let kind = match name {
        "<<" => Kind::ShiftLeft,
        ">>" => Kind::ShiftRight,
        "rotl" => Kind::RotateLeft,
        _ => Kind::RotateRight,
    };
    let both = [compiler.operand(number, wanted)?, compiler.operand(by, Some(Type::Uint(32)))?];
    elementwise(compiler, place, kind, Returns::Same, &both)
}

fn select(
    compiler: &mut Compiler<'_>,
    place: usize,
    condition: &Node,
    results: [&Node; 2],
    wanted: Option<Type>,
) -> Result<Operand, Problem> {
    let mut operands = vec![compiler.operand(condition, Some(Type::Bool))?];
    operands.extend(compiler.alike(place, results, wanted)?);
    let apply =
        |compiler: &mut Compiler<'_>, values: &[Typed]| Ok(compiler.apply(place, Kind::Mux, values, values[1].ty));
    compiler.each(place, &operands, apply)
}

/// Sum of all operands, the elements of arrays included.
fn sum(compiler: &mut Compiler<'_>, place: usize, nodes: &[Node], wanted: Option<Type>) -> Result<Operand, Problem> {
    let operands = compiler.alike(place, nodes, wanted)?;
    if let [Operand::One(_)] = operands[..] {
        return Err(at(place, single("sum")));
    }
    let values = spread(&operands);
    Ok(Operand::One(compiler.apply(place, Kind::Sum, &values, values[0].ty)))
}

/// Whether the first operand, or each of its elements, equals one of the other operands or their
/// elements.
fn is_one_of(compiler: &mut Compiler<'_>, place: usize, nodes: &[Node]) -> Result<Operand, Problem> {
    let mut operands = compiler.alike(place, nodes, None)?;
    let others = spread(&operands.split_off(1));
    check_size(place, operands[0].values().len(), others.len())?;
    compiler.each(place, &operands, |compiler, value| {
        let all = [value, &others].concat();
        Ok(compiler.apply(place, Kind::IsOneOf, &all, Type::Bool))
    })
}

fn single(name: &str) -> String {
    format!("{name} of a single number: it takes several, or an array, as in x=u8:[1,2,3]; x=u8:1,2,3 is three rows")
}

fn spread(operands: &[Operand]) -> Vec<Typed> {
    operands.iter().flat_map(Operand::values).copied().collect()
}

/// Sum of the products of pairs: two arrays, element by element, or two numbers.
fn dot(compiler: &mut Compiler<'_>, place: usize, nodes: &[Node], wanted: Option<Type>) -> Result<Operand, Problem> {
    let mut pairs: Vec<Typed> = Vec::new();
    for both in compiler.alike(place, nodes, wanted)?.chunks(2) {
        let [left, right] = [&both[0], &both[1]].map(Operand::values);
        if left.len() != right.len() {
            return Err(at(place, format!("{} and {} elements do not go together", left.len(), right.len())));
        }
        pairs.extend(left.iter().zip(right).flat_map(|(left, right)| [*left, *right]));
    }
    Ok(Operand::One(compiler.apply(place, Kind::Dot, &pairs, pairs[0].ty)))
}

/// Minimum or maximum of an array. Neighbours are compared first, so that few operations depend on
/// each other.
fn extreme(
    compiler: &mut Compiler<'_>,
    place: usize,
    name: &str,
    array: &Node,
    wanted: Option<Type>,
) -> Result<Operand, Problem> {
    let kind = if name == "min" { Kind::Min } else { Kind::Max };
    let Operand::Array(mut level) = compiler.operand(array, wanted)? else {
        return Err(at(place, single(name)));
    };
    while level.len() > 1 {
        let pair = |pair: &[Typed]| match pair {
            [left, right] => compiler.apply(place, kind, &[*left, *right], left.ty),
            _ => pair[0],
        };
        level = level.chunks(2).map(pair).collect();
    }
    Ok(Operand::One(level[0]))
}

/// The result beside the first key that equals a value, or the last result if no key does.
fn matched(
    compiler: &mut Compiler<'_>,
    place: usize,
    value: &Node,
    cases: &[Node],
    otherwise: &Node,
    wanted: Option<Type>,
) -> Result<Operand, Problem> {
    let keys = [value].into_iter().chain(cases.iter().step_by(2));
    let results = cases.iter().skip(1).step_by(2).chain([otherwise]);
    let mut operands = compiler.alike(place, keys, None)?;
    let keys = operands.len();
    operands.extend(compiler.alike(place, results, wanted)?);
    let rows = operands.iter().map(|operand| operand.values().len()).max().unwrap_or(1);
    check_size(place, rows, operands.len())?;
    compiler.each(place, &operands, |compiler, values| {
        let (keys, results) = values.split_at(keys);
        Ok(choose(compiler, place, keys, results))
    })
}

/// The result at an index, counted from 0. An index beyond the last result gives 0.
fn lookup(
    compiler: &mut Compiler<'_>,
    place: usize,
    number: &Node,
    results: &[Node],
    wanted: Option<Type>,
) -> Result<Operand, Problem> {
    let number = compiler.operand(number, None)?;
    let results = spread(&compiler.alike(place, results, wanted)?);
    match results.len() {
        ..=RESULTS_MAX => numbered(compiler, place, &number, results),
        count => Err(at(place, format!("{count} results: at most {RESULTS_MAX}"))),
    }
}

/// Maximum number of results of `lookup`: the number of values of integers of eight bits.
const RESULTS_MAX: usize = 256;

/// The value at an index, counted from 0. An index beyond the last value gives 0.
pub(super) fn numbered(
    compiler: &mut Compiler<'_>,
    place: usize,
    number: &Operand,
    mut values: Vec<Typed>,
) -> Result<Operand, Problem> {
    let ty = number.values()[0].ty;
    let numbers = ty.bits().map_or(2, |bits| 1_usize.checked_shl(bits).unwrap_or(usize::MAX));
    if values.len() > numbers {
        return Err(at(place, format!("{} values for an index of type {ty}: at most {numbers}", values.len())));
    }
    check_size(place, number.values().len(), values.len())?;
    let keys = (0..values.len()).map(|key| compiler.constant(place, &key.to_string(), ty));
    let keys: Vec<Typed> = keys.collect::<Result<_, _>>()?;
    values.push(compiler.constant(place, "0", values[0].ty)?);
    compiler.each(place, std::slice::from_ref(number), |compiler, number| {
        let keys = [number, &keys].concat();
        Ok(choose(compiler, place, &keys, &values))
    })
}

/// Refuses an operation that is far too large for a program, before it is built. Each argument
/// takes at least one byte.
fn check_size(place: usize, each: usize, among: usize) -> Result<(), Problem> {
    if each.saturating_mul(among) <= LIMITS.bytes {
        return Ok(());
    }
    Err(at(place, format!("{each} values among {among} are too many for a program")))
}

/// Compiles a match. The first key is the searched value, and the other keys are the candidates.
fn choose(compiler: &mut Compiler<'_>, place: usize, keys: &[Typed], results: &[Typed]) -> Typed {
    let mut arguments = vec![keys[0]];
    arguments.extend(keys[1..].iter().zip(results).flat_map(|(key, result)| [*key, *result]));
    arguments.extend(results.last());
    compiler.apply(place, Kind::Match, &arguments, results[0].ty)
}
