//! Lowering for boolean sets: every gate of two inputs is a bootstrap.

use super::gate;
use crate::{Graph, Node, Output, Program, Table, Term, ValueId, program::Operation, wire::operation::Kind};

/// The graph of a program of gates.
pub(super) fn lower(program: &Program) -> Graph {
    let inputs = program.input_values();
    let mut lowering = Lowering { inputs, nodes: Vec::new(), values: (0..inputs).collect() };
    program.operations.iter().for_each(|operation| lowering.operation(operation));
    let output = |&value: &ValueId| Output { value: lowering.values[value], degree: 1, noise_level: 1 };
    let outputs = program.outputs.iter().map(|returned| returned.values.iter().map(output).collect()).collect();
    let inputs = program.inputs.iter().map(|input| input.row.blocks()).collect();
    Graph { set: program.set, inputs, outputs, tables: vec![Table::Sign], nodes: lowering.nodes }
}

struct Lowering {
    inputs: usize,
    nodes: Vec<Node>,
    /// For each value of the program, its number in the graph.
    values: Vec<ValueId>,
}

impl Lowering {
    fn operation(&mut self, operation: &Operation) {
        let arguments: Vec<Term> = operation.arguments.iter().map(|&value| term(self.values[value], 1)).collect();
        let result = match (operation.kind, &arguments[..]) {
            (Kind::Not, &[bit]) => self.node(vec![opposite(bit)], 0, None),
            (Kind::Mux, &[condition, yes, no]) => self.mux(condition, yes, no),
            (kind, &[left, right]) => self.gate(kind, left, right),
            (kind, _) => unreachable!("{kind:?} was checked to have its arguments"),
        };
        self.values.push(result.value);
    }

    /// Selects one of two bits by a third. The sum of the two products could do without the third
    /// bootstrap, but would have twice the noise that the sets' failure probability assumes.
    fn mux(&mut self, condition: Term, yes: Term, no: Term) -> Term {
        let yes = self.gate(Kind::And, condition, yes);
        let no = self.gate(Kind::And, opposite(condition), no);
        self.gate(Kind::Or, yes, no)
    }

    fn gate(&mut self, kind: Kind, left: Term, right: Term) -> Term {
        let (factor, constant) = gate::combination(kind).expect("a gate of two inputs");
        let times = |term: Term| Term { factor: term.factor * factor, ..term };
        self.node(vec![times(left), times(right)], constant, Some(0))
    }

    fn node(&mut self, terms: Vec<Term>, constant: u64, table: Option<usize>) -> Term {
        let first_value = self.inputs + self.nodes.len();
        self.nodes.push(Node { terms, constant, table, first_value, may_be_noisier: false });
        term(first_value, 1)
    }
}

fn term(value: ValueId, factor: i64) -> Term {
    Term { value, factor }
}

fn opposite(bit: Term) -> Term {
    Term { factor: -bit.factor, ..bit }
}
