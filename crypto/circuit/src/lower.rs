//! Programs to graphs, operation by operation.

use std::collections::HashMap;

use cloakwork_params::Encoding;

use crate::{
    Graph, Node, Output, Program, Table, Term, ValueId, gate, graph, program::Operation, wire::operation::Kind,
};

impl Program {
    /// The graph that computes the program.
    pub fn lower(&self) -> Graph {
        let mut lowering = Lowering {
            messages: match self.set.encoding {
                Encoding::Shortint { message_modulus, .. } => message_modulus as i64,
                Encoding::Boolean => 2,
            },
            tables: Vec::new(),
            known: HashMap::new(),
            nodes: Vec::new(),
            next: self.inputs.len(),
            values: (0..self.inputs.len()).collect(),
        };
        self.operations.iter().for_each(|operation| lowering.operation(operation));
        let output = |&value: &ValueId| Output {
            value: lowering.values[value],
            degree: self.values[value].degree as u32,
            noise_level: self.values[value].noise_level as u32,
        };
        Graph {
            set: self.set,
            inputs: self.inputs.len(),
            outputs: self.outputs.iter().map(output).collect(),
            tables: lowering.tables,
            nodes: lowering.nodes,
        }
    }
}

struct Lowering {
    messages: i64,
    tables: Vec<Table>,
    known: HashMap<Table, usize>,
    nodes: Vec<graph::Node>,
    /// Number of the next value of the graph.
    next: ValueId,
    /// The program's values by their numbers in the graph.
    values: Vec<ValueId>,
}

impl Lowering {
    fn operation(&mut self, operation: &Operation) {
        let arguments: Vec<ValueId> = operation.arguments.iter().map(|&value| self.values[value]).collect();
        let results = match (operation.kind, &arguments[..]) {
            (Kind::LookupBivariate, &[left, right]) => {
                let table = Table::Functions(operation.tables.clone());
                self.node(vec![term(left, self.messages), term(right, 1)], 0, Some(table))
            }
            (Kind::Lookup | Kind::LookupMany, &[argument]) => {
                self.node(vec![term(argument, 1)], 0, Some(Table::Functions(operation.tables.clone())))
            }
            (Kind::Not, &[bit]) => self.node(vec![term(bit, -1)], 0, None),
            (Kind::Mux, &[condition, yes, no]) => self.mux(condition, yes, no),
            (kind, &[left, right]) => self.gate(kind, term(left, 1), term(right, 1)),
            (kind, _) => unreachable!("{kind:?} was checked to have its arguments"),
        };
        self.values.extend(results);
    }

    /// A bit out of two by a third. The two products could be added without a third bootstrap, but the sum would have
    /// twice the noise that the sets' failure probability stands for.
    fn mux(&mut self, condition: ValueId, yes: ValueId, no: ValueId) -> std::ops::Range<ValueId> {
        let yes = self.gate(Kind::And, term(condition, 1), term(yes, 1)).start;
        let no = self.gate(Kind::And, term(condition, -1), term(no, 1)).start;
        self.gate(Kind::Or, term(yes, 1), term(no, 1))
    }

    fn gate(&mut self, kind: Kind, left: Term, right: Term) -> std::ops::Range<ValueId> {
        let (factor, constant) = gate::combination(kind).expect("a gate of two inputs");
        let times = |term: Term| Term { factor: term.factor * factor, ..term };
        self.node(vec![times(left), times(right)], constant, Some(Table::Sign))
    }

    fn node(&mut self, terms: Vec<Term>, constant: u64, table: Option<Table>) -> std::ops::Range<ValueId> {
        let first_value = self.next;
        self.next += table.as_ref().map_or(1, Table::outputs);
        let table = table.map(|table| self.table(table));
        self.nodes.push(Node { terms, constant, table, first_value });
        first_value..self.next
    }

    fn table(&mut self, table: Table) -> usize {
        if let Some(&index) = self.known.get(&table) {
            return index;
        }
        self.tables.push(table.clone());
        self.known.insert(table, self.tables.len() - 1);
        self.tables.len() - 1
    }
}

fn term(value: ValueId, factor: i64) -> Term {
    Term { value, factor }
}
