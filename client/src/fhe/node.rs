//! Expressions, and their conversion to programs.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use cloakwork_circuit::LIMITS;

use crate::{Digest, Encrypted, Input, Integer, Kind, ProgramBuilder, ProgramError, Result, Type, Value};

/// A value and its origin.
pub struct Node {
    ty: Type,
    origin: Origin,
    /// Location of the value, once it has been computed.
    computed: OnceLock<Element>,
}

pub(super) enum Origin {
    Element(Element),
    Constant(Integer),
    Cast(Arc<Node>),
    Operation(Kind, Vec<Arc<Node>>),
}

/// A single value, or an element of an array.
#[derive(Clone)]
pub(super) struct Element {
    pub(super) list: Arc<List>,
    pub(super) index: usize,
}

/// A list of ciphertexts, which is one input of a job.
pub struct List {
    pub(super) source: Source,
    /// Number of elements, for an array.
    pub(super) length: Option<usize>,
}

pub(super) enum Source {
    Fresh(Encrypted),
    /// A list on the server.
    Stored {
        name: String,
        digest: Digest,
        noise_level: u32,
    },
}

impl List {
    /// The nodes of the list's values.
    pub(super) fn nodes(self: &Arc<Self>, ty: Type) -> Vec<Arc<Node>> {
        let node = |index| Arc::new(Node::new(ty, Origin::Element(Element { list: self.clone(), index })));
        (0..self.length.unwrap_or(1)).map(node).collect()
    }

    /// The name of a list on the server.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.source {
            Source::Stored { name, .. } => Some(name),
            Source::Fresh(_) => None,
        }
    }

    fn input(&self) -> Input {
        match &self.source {
            Source::Fresh(list) => Input::Encrypted(list.clone()),
            Source::Stored { name, digest, .. } => Input::Known { name: name.clone(), digest: *digest },
        }
    }

    fn declare(&self, builder: &mut ProgramBuilder, name: &str, ty: Type) -> Vec<Value> {
        match (&self.source, self.length) {
            (Source::Fresh(_), None) => vec![builder.fresh(name, ty)],
            (Source::Fresh(_), Some(length)) => builder.fresh_array(name, ty, length),
            (Source::Stored { noise_level, .. }, None) => vec![builder.stored(name, ty, *noise_level)],
            (Source::Stored { noise_level, .. }, Some(length)) => builder.stored_array(name, ty, length, *noise_level),
        }
    }
}

/// Refuses a length above the limit on blocks of a program.
pub(super) fn check_length(length: usize, ty: Type) -> Result<()> {
    let (max, got) = (LIMITS.blocks, length.saturating_mul(ty.blocks()));
    if got <= max {
        return Ok(());
    }
    Err(ProgramError::TooMany { what: "blocks of an array", max: max as u64, got: got as u64 }.into())
}

impl Node {
    pub(super) fn new(ty: Type, origin: Origin) -> Self {
        Self { ty, origin, computed: OnceLock::new() }
    }

    pub(super) fn ty(&self) -> Type {
        self.ty
    }

    /// Whether the node still has to be computed.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.origin, Origin::Cast(_) | Origin::Operation(..)) && self.computed.get().is_none()
    }

    /// Records the location of the computed value. If another task has recorded one in the
    /// meantime, that location stays, because both are valid.
    pub(super) fn settle(&self, element: Element) {
        if self.is_open() {
            let _ = self.computed.set(element);
        }
    }

    /// Location of the value, in this process or on the server.
    pub(super) fn element(&self) -> Option<&Element> {
        match &self.origin {
            Origin::Element(element) => Some(element),
            _ => self.computed.get(),
        }
    }

    pub(super) fn constant(&self) -> Option<Integer> {
        if let Origin::Constant(value) = &self.origin { Some(*value) } else { None }
    }

    /// Operands that have to be computed first.
    fn operands(&self) -> &[Arc<Node>] {
        match &self.origin {
            _ if !self.is_open() => &[],
            Origin::Cast(operand) => std::slice::from_ref(operand),
            Origin::Operation(_, operands) => operands,
            Origin::Element(_) | Origin::Constant(_) => &[],
        }
    }
}

/// Drops operands in a loop. Expressions may be chains of many thousands of nodes, and recursive
/// drops would overflow the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut left = self.take_operands();
        while let Some(node) = left.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                left.append(&mut node.take_operands());
            }
        }
    }
}

impl Node {
    fn take_operands(&mut self) -> Vec<Arc<Self>> {
        match std::mem::replace(&mut self.origin, Origin::Constant(Integer::default())) {
            Origin::Cast(operand) => vec![operand],
            Origin::Operation(_, operands) => operands,
            Origin::Element(_) | Origin::Constant(_) => Vec::new(),
        }
    }
}

/// Values that a program returns as one list.
#[derive(Clone, Copy)]
pub enum Wanted<'n> {
    Value(&'n Arc<Node>),
    /// The elements of an array, and the place for the list that will hold them.
    Array(&'n [Arc<Node>], &'n OnceLock<Arc<List>>),
}

impl<'n> Wanted<'n> {
    pub(super) fn nodes(self) -> &'n [Arc<Node>] {
        match self {
            Self::Value(node) => std::slice::from_ref(node),
            Self::Array(nodes, _) => nodes,
        }
    }

    /// Whether any of the values still has to be computed.
    pub(super) fn is_open(&self) -> bool {
        self.nodes().iter().any(|node| node.is_open())
    }

    /// Records the location of the computed values on the server.
    pub(super) fn settle(self, source: Source) {
        let length = if let Self::Array(nodes, _) = self { Some(nodes.len()) } else { None };
        let list = Arc::new(List { source, length });
        for (index, node) in self.nodes().iter().enumerate() {
            node.settle(Element { list: list.clone(), index });
        }
        if let Self::Array(_, place) = self {
            let _ = place.set(list);
        }
    }
}

/// Writes the program that returns `wanted`, and returns the program's inputs.
pub(super) fn write(builder: &mut ProgramBuilder, wanted: &[Wanted<'_>]) -> Vec<Input> {
    let order = order(wanted);
    let mut lists: HashMap<*const List, Vec<Value>> = HashMap::new();
    let mut inputs = Vec::new();
    // All inputs must come before the operations.
    for (list, ty) in order.iter().filter_map(|node| Some((&node.element()?.list, node.ty))) {
        lists.entry(Arc::as_ptr(list)).or_insert_with(|| {
            let name = format!("x{}", inputs.len());
            inputs.push(list.input());
            list.declare(builder, &name, ty)
        });
    }
    let mut values: HashMap<*const Node, Value> = HashMap::with_capacity(order.len());
    for &node in &order {
        let value = match (node.element(), &node.origin) {
            (Some(Element { list, index }), _) | (_, Origin::Element(Element { list, index })) => {
                lists[&Arc::as_ptr(list)][*index]
            }
            (None, Origin::Constant(value)) => builder.constant(node.ty, value),
            (None, Origin::Cast(operand)) => builder.cast(values[&Arc::as_ptr(operand)], node.ty),
            (None, Origin::Operation(kind, operands)) => {
                let operands: Vec<Value> = operands.iter().map(|operand| values[&Arc::as_ptr(operand)]).collect();
                builder.apply(*kind, &operands)
            }
        };
        values.insert(Arc::as_ptr(node), value);
    }
    for wanted in wanted {
        let own: Vec<Value> = wanted.nodes().iter().map(|node| values[&Arc::as_ptr(node)]).collect();
        match wanted {
            Wanted::Value(_) => builder.output(own[0]),
            Wanted::Array(..) => builder.output_array(&own),
        }
    }
    inputs
}

/// All nodes that `wanted` depends on, in topological order and without duplicates.
fn order<'n>(wanted: &[Wanted<'n>]) -> Vec<&'n Arc<Node>> {
    let (mut order, mut seen) = (Vec::new(), HashMap::<*const Node, bool>::new());
    let mut left: Vec<&Arc<Node>> = wanted.iter().flat_map(|wanted| wanted.nodes()).collect();
    while let Some(&node) = left.last() {
        let is_written = seen.entry(Arc::as_ptr(node)).or_insert(false);
        if *is_written {
            left.pop();
            continue;
        }
        let before = left.len();
        left.extend(node.operands().iter().filter(|operand| seen.get(&Arc::as_ptr(operand)) != Some(&true)));
        if left.len() == before {
            seen.insert(Arc::as_ptr(node), true);
            order.push(node);
            left.pop();
        }
    }
    order
}
