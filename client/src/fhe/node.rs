//! Expressions, and the programs that they become.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use crate::{Encrypted, Input, Integer, Kind, ProgramBuilder, Type, Value};

/// A value, and what it comes from.
pub struct Node {
    ty: Type,
    origin: Origin,
    /// Where it is, once it has been computed.
    computed: OnceLock<Stored>,
}

pub(super) enum Origin {
    Fresh(Encrypted),
    Stored(Stored),
    Constant(Integer),
    Cast(Arc<Node>),
    Operation(Kind, Vec<Arc<Node>>),
}

/// A value on the server.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) noise_level: u32,
}

impl Node {
    pub(super) fn new(ty: Type, origin: Origin) -> Self {
        Self { ty, origin, computed: OnceLock::new() }
    }

    pub(super) fn ty(&self) -> Type {
        self.ty
    }

    /// Does it have to be computed?
    pub(super) fn is_open(&self) -> bool {
        matches!(self.origin, Origin::Cast(_) | Origin::Operation(..)) && self.computed.get().is_none()
    }

    /// It has been computed. If somebody else had it computed meanwhile, either will do.
    pub(super) fn settle(&self, stored: Stored) {
        let _ = self.computed.set(stored);
    }

    pub(super) fn stored(&self) -> Option<&Stored> {
        match &self.origin {
            Origin::Stored(stored) => Some(stored),
            _ => self.computed.get(),
        }
    }

    /// As the input of a job, where it can be one.
    pub(super) fn leaf(&self) -> Option<Input> {
        match (&self.origin, self.stored()) {
            (Origin::Fresh(list), _) => Some(Input::Encrypted(list.clone())),
            (_, Some(stored)) => Some(Input::Name(stored.name.clone())),
            _ => None,
        }
    }

    pub(super) fn constant(&self) -> Option<Integer> {
        if let Origin::Constant(value) = &self.origin { Some(*value) } else { None }
    }

    /// What has to be computed before it.
    fn operands(&self) -> &[Arc<Node>] {
        match &self.origin {
            _ if !self.is_open() => &[],
            Origin::Cast(operand) => std::slice::from_ref(operand),
            Origin::Operation(_, operands) => operands,
            Origin::Fresh(_) | Origin::Stored(_) | Origin::Constant(_) => &[],
        }
    }
}

/// Expressions may be chains of many thousands: what only one of them holds is let go of here, not by each in turn.
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
            Origin::Fresh(_) | Origin::Stored(_) | Origin::Constant(_) => Vec::new(),
        }
    }
}

/// Writes the program that returns `wanted`, and gives the inputs that it takes.
pub(super) fn write(builder: &mut ProgramBuilder, wanted: &[&Arc<Node>]) -> Vec<Input> {
    let order = order(wanted);
    let mut values: HashMap<*const Node, Value> = HashMap::with_capacity(order.len());
    let mut inputs = Vec::new();
    // Inputs come before all operations.
    for &node in &order {
        let Some(input) = node.leaf() else { continue };
        let name = format!("x{}", inputs.len());
        let value = match node.stored() {
            Some(stored) => builder.stored(&name, node.ty, stored.noise_level),
            None => builder.fresh(&name, node.ty),
        };
        values.insert(Arc::as_ptr(node), value);
        inputs.push(input);
    }
    for &node in &order {
        let value = match &node.origin {
            _ if values.contains_key(&Arc::as_ptr(node)) => continue,
            Origin::Constant(value) => builder.constant(node.ty, value),
            Origin::Cast(operand) => builder.cast(values[&Arc::as_ptr(operand)], node.ty),
            Origin::Operation(kind, operands) => {
                let operands: Vec<Value> = operands.iter().map(|operand| values[&Arc::as_ptr(operand)]).collect();
                builder.apply(*kind, &operands)
            }
            Origin::Fresh(_) | Origin::Stored(_) => continue,
        };
        values.insert(Arc::as_ptr(node), value);
    }
    for &node in wanted {
        builder.output(values[&Arc::as_ptr(node)]);
    }
    inputs
}

/// Everything that `wanted` needs, each once and behind what it needs itself.
fn order<'n>(wanted: &[&'n Arc<Node>]) -> Vec<&'n Arc<Node>> {
    let (mut order, mut seen) = (Vec::new(), HashMap::<*const Node, bool>::new());
    let mut left: Vec<&Arc<Node>> = wanted.to_vec();
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
