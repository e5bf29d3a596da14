//! Trees to programs: types are found, narrower integers made wider, and numbers made constants.

use cloakwork_client::{
    ClientError, Integer, Kind, Program, ProgramBuilder, ProgramError, Type, Value, params::ParameterSet,
};

use super::{Argument, argument::type_named, names::hint};
use crate::syntax::{Node, NodeKind, at, parse};

/// An expression as a program of one output.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) program: Program,
    pub(crate) output: Type,
}

/// Compiles a text whose names stand for these arguments, each a fresh input.
pub(crate) fn compile(text: &str, set: &'static ParameterSet, arguments: &[Argument]) -> Result<Compiled, String> {
    let tree = parse(text)?;
    let mut builder = ProgramBuilder::new(set);
    let names = arguments.iter().map(|argument| (argument, builder.fresh(&argument.name, argument.ty)));
    let names: Vec<(&Argument, Value)> = names.collect();
    for (index, (argument, _)) in names.iter().enumerate() {
        if names[..index].iter().any(|(other, _)| other.name == argument.name) {
            return Err(format!("'{}' is given twice", argument.name));
        }
    }
    let mut compiler = Compiler { builder, names, places: Vec::new() };
    let result = compiler.typed(&tree, None)?;
    compiler.builder.output(result.value);
    let places = compiler.places;
    let program = compiler.builder.build().map_err(|error| match error {
        ClientError::Program(ProgramError::Operation { index, problem, .. }) => at(places[index], problem),
        other => other.to_string(),
    })?;
    Ok(Compiled { program, output: result.ty })
}

pub(super) struct Compiler<'a> {
    builder: ProgramBuilder,
    names: Vec<(&'a Argument, Value)>,
    /// Where in the text each operation stands.
    places: Vec<usize>,
}

#[derive(Clone, Copy)]
pub(super) struct Typed {
    pub(super) value: Value,
    pub(super) ty: Type,
}

impl Compiler<'_> {
    /// A node's value. A number is of the type that is `wanted`.
    pub(super) fn typed(&mut self, node: &Node, wanted: Option<Type>) -> Result<Typed, String> {
        if let Some(text) = literal(node) {
            let untyped = || at(node.place, format!("{text} of which type? Write u64({text}), for one"));
            return self.constant(node.place, &text, wanted.ok_or_else(untyped)?);
        }
        match &node.kind {
            NodeKind::Number(_) => unreachable!("a number is a literal"),
            NodeKind::Name(name) => self.name(node.place, name),
            NodeKind::Call(name, arguments) => self.call(node.place, name, arguments, wanted),
        }
    }

    fn name(&mut self, place: usize, name: &str) -> Result<Typed, String> {
        if let "true" | "false" = name {
            return self.constant(place, name, Type::Bool);
        }
        let known = self.names.iter().find(|(argument, _)| argument.name == name);
        let (argument, value) =
            known.ok_or_else(|| at(place, format!("'{name}' has no value: give it as {name}=u64:7")))?;
        Ok(Typed { value: *value, ty: argument.ty })
    }

    pub(super) fn constant(&mut self, place: usize, text: &str, ty: Type) -> Result<Typed, String> {
        let value = Integer::parse(text, ty).map_err(|problem| at(place, problem))?;
        self.places.push(place);
        Ok(Typed { value: self.builder.constant(ty, &value), ty })
    }

    fn call(&mut self, place: usize, name: &str, arguments: &[Node], wanted: Option<Type>) -> Result<Typed, String> {
        if let (Some(ty), [node]) = (type_named(name), arguments) {
            return self.cast(node, ty);
        }
        let result = match (name, arguments) {
            ("<<" | ">>" | "rotl" | "rotr", [number, by]) => {
                let number = self.typed(number, wanted)?;
                let by = self.typed(by, Some(Type::Uint(16)))?;
                let kind = match name {
                    "<<" => Kind::ShiftLeft,
                    ">>" => Kind::ShiftRight,
                    "rotl" => Kind::RotateLeft,
                    _ => Kind::RotateRight,
                };
                self.apply(place, kind, &[number, by], number.ty)
            }
            ("select", [condition, yes, no]) => {
                let condition = self.typed(condition, Some(Type::Bool))?;
                let both = self.alike(place, &[yes, no], wanted)?;
                self.apply(place, Kind::Mux, &[condition, both[0], both[1]], both[0].ty)
            }
            ("sum", [_, ..]) => self.of_many(place, Kind::Sum, arguments, Returns::Same, wanted)?,
            ("dot", [_, _, ..]) => self.of_many(place, Kind::Dot, arguments, Returns::Same, wanted)?,
            ("is_one_of", [_, _, ..]) => self.of_many(place, Kind::IsOneOf, arguments, Returns::Bool, None)?,
            ("match", [value, cases @ .., otherwise]) if cases.len() >= 2 && cases.len().is_multiple_of(2) => {
                self.matched(place, value, cases, otherwise, wanted)?
            }
            ("lookup", [number, results @ ..]) if !results.is_empty() => {
                self.looked_up(place, number, results, wanted)?
            }
            ("mul_div", [one, other, by]) => self.product_divided(place, [one, other, by], wanted)?,
            ("is_odd" | "is_even", [number]) => self.parity(place, number, name == "is_odd")?,
            ("ilog2", [number]) => self.log2(place, number)?,
            (name, [node]) => {
                let (kind, returns) = known(OF_ONE, name).ok_or_else(|| unknown(place, name, 1))?;
                let node = self.typed(node, wanted.filter(|_| returns == Returns::Same))?;
                self.apply(place, kind, &[node], returns.of(node.ty))
            }
            (name, [left, right]) => {
                let (kind, returns) = known(OF_TWO, name).ok_or_else(|| unknown(place, name, 2))?;
                let both = self.alike(place, &[left, right], wanted.filter(|_| returns == Returns::Same))?;
                self.apply(place, kind, &both, returns.of(both[0].ty))
            }
            _ => return Err(unknown(place, name, arguments.len())),
        };
        Ok(result)
    }

    /// An operation on any number of operands of one type.
    fn of_many(
        &mut self,
        place: usize,
        kind: Kind,
        nodes: &[Node],
        returns: Returns,
        wanted: Option<Type>,
    ) -> Result<Typed, String> {
        let all = self.alike(place, &nodes.iter().collect::<Vec<_>>(), wanted)?;
        Ok(self.apply(place, kind, &all, returns.of(all[0].ty)))
    }

    fn cast(&mut self, node: &Node, ty: Type) -> Result<Typed, String> {
        let from = self.typed(node, Some(ty))?;
        match ty {
            _ if from.ty == ty => Ok(from),
            Type::Bool => Err(at(node.place, format!("{} is no bool: compare it, as in x != 0", from.ty))),
            _ => Ok(self.cast_to(node.place, from, ty)),
        }
    }

    pub(super) fn cast_to(&mut self, place: usize, from: Typed, ty: Type) -> Typed {
        self.places.push(place);
        Typed { value: self.builder.cast(from.value, ty), ty }
    }

    /// Operands as values of one type: numbers take that of the others, narrower integers that of the widest.
    pub(super) fn alike(&mut self, place: usize, nodes: &[&Node], wanted: Option<Type>) -> Result<Vec<Typed>, String> {
        let mut typed: Vec<Option<Typed>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            typed.push(if literal(node).is_some() { None } else { Some(self.typed(node, wanted)?) });
        }
        let mut widest = None;
        for ty in typed.iter().flatten().map(|typed| typed.ty) {
            widest = Some(match widest {
                None => ty,
                Some(other) => wider(other, ty).ok_or_else(|| {
                    let advice = if [other, ty].contains(&Type::Bool) {
                        "a comparison makes a bool, as in x != 0"
                    } else {
                        "a cast makes one the other, as in i64(x)"
                    };
                    at(place, format!("{other} and {ty} do not go together: {advice}"))
                })?,
            });
        }
        let ty = widest.or(wanted);
        let one = |(node, typed): (&&Node, Option<Typed>)| match (typed, ty) {
            (None, _) => self.typed(node, ty),
            (Some(typed), Some(ty)) if typed.ty != ty => Ok(self.cast_to(node.place, typed, ty)),
            (Some(typed), _) => Ok(typed),
        };
        nodes.iter().zip(typed).map(one).collect()
    }

    pub(super) fn apply(&mut self, place: usize, kind: Kind, arguments: &[Typed], ty: Type) -> Typed {
        self.places.push(place);
        let arguments: Vec<Value> = arguments.iter().map(|argument| argument.value).collect();
        Typed { value: self.builder.apply(kind, &arguments), ty }
    }
}

/// What an operation returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// The type of its operands.
    Same,
    Bool,
    /// A number of bits.
    Count,
}

impl Returns {
    fn of(self, operands: Type) -> Type {
        match self {
            Self::Same => operands,
            Self::Bool => Type::Bool,
            Self::Count => Type::Uint(32),
        }
    }
}

/// Operations by the name that expressions have for them.
type Named = (&'static str, Kind, Returns);

/// Of one operand.
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

/// Of two operands of one type.
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
    ("aes128", Kind::Aes128Encrypt, Returns::Same),
    ("min", Kind::Min, Returns::Same),
    ("max", Kind::Max, Returns::Same),
    ("==", Kind::Equal, Returns::Bool),
    ("!=", Kind::NotEqual, Returns::Bool),
    ("<", Kind::Less, Returns::Bool),
    ("<=", Kind::LessOrEqual, Returns::Bool),
    (">", Kind::Greater, Returns::Bool),
    (">=", Kind::GreaterOrEqual, Returns::Bool),
];

fn known(table: &[Named], name: &str) -> Option<(Kind, Returns)> {
    table.iter().find(|(known, ..)| *known == name).map(|(_, kind, returns)| (*kind, *returns))
}

fn unknown(place: usize, name: &str, arguments: usize) -> String {
    let problem = match hint(name) {
        Some(hint) => format!("'{name}' of {arguments} arguments is not known: {hint}"),
        None => format!("'{name}' of {arguments} arguments is not known: `cloakwork eval --help` lists what is"),
    };
    at(place, problem)
}

/// The type that has the values of both.
fn wider(left: Type, right: Type) -> Option<Type> {
    match (left, right) {
        (Type::Uint(left), Type::Uint(right)) => Some(Type::Uint(left.max(right))),
        (Type::Int(left), Type::Int(right)) => Some(Type::Int(left.max(right))),
        _ if left == right => Some(left),
        _ => None,
    }
}

/// A number as it was written, with its sign.
fn literal(node: &Node) -> Option<String> {
    match &node.kind {
        NodeKind::Number(text) => Some(text.clone()),
        NodeKind::Call(name, arguments) if name == "-" => match &arguments[..] {
            [Node { kind: NodeKind::Number(text), .. }] => Some(format!("-{text}")),
            _ => None,
        },
        _ => None,
    }
}
