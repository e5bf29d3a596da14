//! Compiles trees to programs. The compiler infers types, widens narrower integers, turns numbers
//! into constants, and applies operations on an array to each element.

use cloakwork_client::{
    ClientError, Integer, Kind, LIMITS, Program, ProgramBuilder, ProgramError, Type, Value, params::ParameterSet,
};

use super::{
    Argument,
    argument::{DEFAULT, type_named},
    names::hint,
    operations,
};
use crate::{
    output::counted,
    syntax::{Node, NodeKind, Problem, at, parse_several},
};

/// Compiles expressions over named arguments. Each argument is a fresh input, and each expression
/// is an output.
pub(crate) fn compile(text: &str, set: &'static ParameterSet, arguments: &[Argument]) -> Result<Program, Problem> {
    let trees = parse_several(text)?;
    let mut builder = ProgramBuilder::new(set);
    let mut names: Vec<Name<'_>> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        if names.iter().any(|other| other.text == argument.name) {
            return Err(format!("'{}' is given twice", argument.name).into());
        }
        let (name, ty) = (&argument.name, argument.ty);
        if argument.length.is_some_and(|length| length.saturating_mul(ty.blocks()) > LIMITS.blocks) {
            return Err(format!(
                "the arrays of {name} are too long: a program takes {} blocks of two bits",
                LIMITS.blocks
            )
            .into());
        }
        let typed = |value| Typed { value, ty };
        let operand = match argument.length {
            None => Operand::One(typed(builder.fresh(name, ty))),
            Some(length) => Operand::Array(builder.fresh_array(name, ty, length).into_iter().map(typed).collect()),
        };
        names.push(Name { text: name, operand, is_used: false });
    }
    let mut compiler = Compiler { builder, names, places: Vec::new() };
    for tree in &trees {
        match compiler.operand(tree, None)? {
            Operand::One(typed) => compiler.builder.output(typed.value),
            Operand::Array(elements) => {
                compiler.builder.output_array(&elements.iter().map(|element| element.value).collect::<Vec<_>>());
            }
        }
    }
    if let Some(Name { text, .. }) = compiler.names.iter().find(|name| !name.is_used) {
        return Err(format!("'{text}' has a value, but the expression does not use it").into());
    }
    let places = compiler.places;
    compiler.builder.build().map_err(|error| match error {
        ClientError::Program(ProgramError::Operation { index, problem, .. }) => at(places[index], problem),
        other => other.to_string().into(),
    })
}

pub(super) struct Compiler<'a> {
    builder: ProgramBuilder,
    names: Vec<Name<'a>>,
    /// Place in the text of each operation.
    places: Vec<usize>,
}

struct Name<'a> {
    text: &'a str,
    operand: Operand,
    is_used: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Typed {
    pub(super) value: Value,
    pub(super) ty: Type,
}

/// Value of a node.
#[derive(Clone)]
pub(super) enum Operand {
    One(Typed),
    /// Elements of one type.
    Array(Vec<Typed>),
}

impl Operand {
    /// The single value, or all elements.
    pub(super) fn values(&self) -> &[Typed] {
        match self {
            Self::One(typed) => std::slice::from_ref(typed),
            Self::Array(elements) => elements,
        }
    }
}

/// Type of the indices of elements.
const INDEX: Type = Type::Uint(64);

impl Compiler<'_> {
    /// Compiles a node. A number has the type `wanted`, or 64 bits by default.
    pub(super) fn operand(&mut self, node: &Node, wanted: Option<Type>) -> Result<Operand, Problem> {
        if let Some(text) = literal(node) {
            return self.constant(node.place, &text, wanted.unwrap_or(DEFAULT)).map(Operand::One);
        }
        match &node.kind {
            NodeKind::Number(_) => unreachable!("a number is a literal"),
            NodeKind::Name(name) => self.name(node.place, name),
            NodeKind::Array(nodes) => self.array(node.place, nodes, wanted),
            NodeKind::Element(both) => self.element(node.place, &both[0], &both[1], wanted),
            NodeKind::Call(name, arguments) => match (type_named(name), &arguments[..]) {
                (Some(ty), [node]) => self.cast(node, ty),
                _ => operations::call(self, node.place, name, arguments, wanted)
                    .unwrap_or_else(|| Err(unknown(node.place, name, arguments.len()))),
            },
        }
    }

    fn name(&mut self, place: usize, name: &str) -> Result<Operand, Problem> {
        if let "true" | "false" = name {
            return self.constant(place, name, Type::Bool).map(Operand::One);
        }
        let known = self.names.iter_mut().find(|known| known.text == name);
        let known = known.ok_or_else(|| at(place, format!("'{name}' has no value: give it as {name}=u64:7")))?;
        known.is_used = true;
        Ok(known.operand.clone())
    }

    fn array(&mut self, place: usize, nodes: &[Node], wanted: Option<Type>) -> Result<Operand, Problem> {
        if nodes.is_empty() {
            return Err(at(place, "an array without elements"));
        }
        let elements = self.alike(place, nodes, wanted)?.into_iter().zip(nodes).map(|(element, node)| match element {
            Operand::One(typed) => Ok(typed),
            Operand::Array(_) => Err(at(node.place, "an array in an array: its elements are numbers")),
        });
        elements.collect::<Result<_, _>>().map(Operand::Array)
    }

    /// Compiles an element of an array. The index is known or encrypted; an encrypted index beyond
    /// the last element gives 0.
    fn element(&mut self, place: usize, array: &Node, index: &Node, wanted: Option<Type>) -> Result<Operand, Problem> {
        let Operand::Array(elements) = self.operand(array, wanted)? else {
            return Err(at(place, "only an array has elements"));
        };
        let Some(text) = literal(index) else {
            let place = index.place;
            let index = self.operand(index, None)?;
            if !matches!(index.values()[0].ty, Type::Uint(_)) {
                let ty = index.values()[0].ty;
                return Err(at(place, format!("the index of an element is an unsigned integer, not {ty}")));
            }
            return operations::numbered(self, place, &index, elements);
        };
        let number = Integer::parse(&text, INDEX).map(|number| number.display(INDEX));
        let element = number.ok().and_then(|number| elements.get(number.parse::<usize>().ok()?));
        let none = || at(index.place, format!("there is no element {text}: 0 to {}", elements.len() - 1));
        element.copied().map(Operand::One).ok_or_else(none)
    }

    pub(super) fn constant(&mut self, place: usize, text: &str, ty: Type) -> Result<Typed, Problem> {
        let advice = match ty {
            Type::Uint(bits @ ..=128) | Type::Int(bits @ ..=128) if !text.starts_with('-') => {
                let wide = if ty.is_signed() { Type::Int(2 * bits) } else { Type::Uint(2 * bits) };
                format!("; the other operand can be widened, as in {wide}(x)")
            }
            _ => String::new(),
        };
        let value = Integer::parse(text, ty).map_err(|problem| at(place, problem + &advice))?;
        self.places.push(place);
        Ok(Typed { value: self.builder.constant(ty, &value), ty })
    }

    fn cast(&mut self, node: &Node, ty: Type) -> Result<Operand, Problem> {
        let from = self.operand(node, Some(ty))?;
        self.each(node.place, &[from], |compiler, values| match (values[0], ty) {
            (from, _) if from.ty == ty => Ok(from),
            (from, Type::Bool) => Err(at(node.place, format!("{} is no bool: compare it, as in x != 0", from.ty))),
            (from, _) => Ok(compiler.cast_to(node.place, from, ty)),
        })
    }

    pub(super) fn cast_to(&mut self, place: usize, from: Typed, ty: Type) -> Typed {
        self.places.push(place);
        Typed { value: self.builder.cast(from.value, ty), ty }
    }

    /// Compiles operands to one type. Numbers take the type of the others, and narrower integers
    /// take the widest type.
    pub(super) fn alike<'n>(
        &mut self,
        place: usize,
        nodes: impl IntoIterator<Item = &'n Node>,
        wanted: Option<Type>,
    ) -> Result<Vec<Operand>, Problem> {
        let mut operands: Vec<(&Node, Option<Operand>)> = Vec::new();
        for node in nodes {
            let operand = if is_untyped(node) { None } else { Some(self.operand(node, wanted)?) };
            operands.push((node, operand));
        }
        let mut widest = None;
        for operand in operands.iter().filter_map(|(_, operand)| operand.as_ref()) {
            let ty = operand.values()[0].ty;
            widest = Some(match widest {
                None => ty,
                Some(other) => wider(other, ty).ok_or_else(|| {
                    let advice = if [other, ty].contains(&Type::Bool) {
                        "a comparison makes a bool, as in x != 0"
                    } else {
                        "cast one of the operands, as in i64(x)"
                    };
                    at(place, format!("{other} and {ty} do not go together: {advice}"))
                })?,
            });
        }
        let ty = widest.or(wanted);
        let one = |(node, operand): (&Node, Option<Operand>)| match (operand, ty) {
            (None, _) => self.operand(node, ty),
            (Some(operand), Some(ty)) => self.each(node.place, &[operand], |compiler, values| match values[0] {
                typed if typed.ty == ty => Ok(typed),
                typed => Ok(compiler.cast_to(node.place, typed, ty)),
            }),
            (Some(operand), None) => Ok(operand),
        };
        operands.into_iter().map(one).collect()
    }

    /// Applies an operation to values, and to the elements of arrays among them. A single value
    /// goes with each element.
    pub(super) fn each(
        &mut self,
        place: usize,
        operands: &[Operand],
        mut compute: impl FnMut(&mut Self, &[Typed]) -> Result<Typed, Problem>,
    ) -> Result<Operand, Problem> {
        let mut length = None;
        for operand in operands {
            let Operand::Array(elements) = operand else { continue };
            let (first, other) = (*length.get_or_insert(elements.len()), elements.len());
            if other != first {
                return Err(at(place, format!("arrays of {first} and {other} elements do not go together")));
            }
        }
        let mut at_index = |index: usize| {
            let value = |operand: &Operand| match operand {
                Operand::One(typed) => *typed,
                Operand::Array(elements) => elements[index],
            };
            compute(self, &operands.iter().map(value).collect::<Vec<_>>())
        };
        match length {
            None => at_index(0).map(Operand::One),
            Some(length) => (0..length).map(at_index).collect::<Result<_, _>>().map(Operand::Array),
        }
    }

    pub(super) fn apply(&mut self, place: usize, kind: Kind, arguments: &[Typed], ty: Type) -> Typed {
        self.places.push(place);
        let arguments: Vec<Value> = arguments.iter().map(|argument| argument.value).collect();
        Typed { value: self.builder.apply(kind, &arguments), ty }
    }
}

fn unknown(place: usize, name: &str, arguments: usize) -> Problem {
    let count = counted(arguments as u64, "argument");
    let problem = match hint(name) {
        Some(hint) => format!("'{name}' of {count} is not known: {hint}"),
        None => format!("'{name}' of {count} is not known: `cloakwork eval --help` lists the functions"),
    };
    at(place, problem)
}

/// The type that holds the values of both types, if there is one.
fn wider(left: Type, right: Type) -> Option<Type> {
    match (left, right) {
        (Type::Uint(left), Type::Uint(right)) => Some(Type::Uint(left.max(right))),
        (Type::Int(left), Type::Int(right)) => Some(Type::Int(left.max(right))),
        _ if left == right => Some(left),
        _ => None,
    }
}

/// Whether a node consists only of numbers, and so takes any wanted type.
fn is_untyped(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Number(_) => true,
        NodeKind::Name(_) => false,
        NodeKind::Array(elements) => elements.iter().all(is_untyped),
        NodeKind::Element(both) => is_untyped(&both[0]),
        NodeKind::Call(name, arguments) => {
            operations::deciding(name, arguments).is_some_and(|nodes| nodes.into_iter().all(is_untyped))
        }
    }
}

/// A number as written, with its sign.
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
