//! What devices compute: linear combinations and lookup tables, in an order that can be followed.

use cloakwork_params::ParameterSet;

/// Number of a value: the inputs first, then the results of each node in turn.
pub type ValueId = usize;

/// A program lowered to bootstraps. Every row of inputs passes through the same graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// Blocks of each of the program's inputs. Together they are the first values.
    pub inputs: Vec<usize>,
    /// Distinct tables.
    pub tables: Vec<Table>,
    /// Nodes, each behind those whose results it uses, and those with the longest chain of bootstraps behind them first.
    pub nodes: Vec<Node>,
    /// The values to return: blocks of each of the program's outputs.
    pub outputs: Vec<Vec<Output>>,
}

/// A value to return, and what is known of it whatever the inputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The value.
    pub value: ValueId,
    /// Largest plaintext it can have.
    pub degree: u32,
    /// Largest noise level it can have.
    pub noise_level: u32,
}

/// What a graph takes for one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of bootstraps.
    pub pbs_count: u64,
    /// Bootstraps that must follow one another: the length of the longest chain.
    pub depth: u32,
}

/// One step: a linear combination, then a bootstrap where there is a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What is added up.
    pub terms: Vec<Term>,
    /// Added on top, as a fraction of the torus in units of 2^-64.
    pub constant: u64,
    /// Index of the table that the sum is looked up in. Without one, the sum is the result.
    pub table: Option<usize>,
    /// Number of the node's first result. A table of several functions has as many results.
    pub first_value: ValueId,
    /// May the set's companion bootstrap it, whose results have more noise? Or are they looked up in a sum that could not bear it.
    pub may_be_noisier: bool,
}

/// A multiple of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The value.
    pub value: ValueId,
    /// The factor.
    pub factor: i64,
}

/// What a bootstrap looks its input up in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// 1/8 for the lower half of the torus, -1/8 for the upper one: boolean gates.
    Sign,
    /// Functions of a block, entry by entry, in halves of a step. Each has as many entries as the set has values, divided
    /// by the number of functions. A single function reaches around the torus: its entries come once more behind the
    /// last one, negated.
    Functions(Vec<Vec<i64>>),
}

impl Table {
    /// Functions that share one bootstrap, each with as many entries as it has.
    pub(crate) fn functions<'f>(functions: impl ExactSizeIterator<Item = &'f [i64]>, values: i64) -> Self {
        let entries = values as usize / functions.len().max(1);
        let pad = |function: &[i64]| function.iter().copied().chain(std::iter::repeat(0)).take(entries).collect();
        Self::Functions(functions.map(pad).collect())
    }

    /// Results of one bootstrap.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Sign => 1,
            Self::Functions(functions) => functions.len(),
        }
    }
}

impl Graph {
    /// Blocks of all inputs.
    pub fn input_blocks(&self) -> usize {
        self.inputs.iter().sum()
    }

    /// Bootstraps for one row.
    pub fn pbs_count(&self) -> u64 {
        self.nodes.iter().filter(|node| node.table.is_some()).count() as u64
    }

    /// What one row takes.
    pub fn cost(&self) -> Cost {
        Cost { pbs_count: self.pbs_count(), depth: self.depth() }
    }

    /// Results of node `index`.
    pub fn results(&self, index: usize) -> std::ops::Range<ValueId> {
        let node = &self.nodes[index];
        let count = node.table.map_or(1, |table| self.tables[table].outputs());
        node.first_value..node.first_value + count
    }

    /// Number of values: inputs and results.
    pub fn values(&self) -> usize {
        self.nodes.len().checked_sub(1).map_or(self.input_blocks(), |last| self.results(last).end)
    }

    /// Bootstraps that must follow one another: the length of the longest chain.
    pub fn depth(&self) -> u32 {
        let mut depths = vec![0; self.values()];
        for (index, node) in self.nodes.iter().enumerate() {
            let before = node.terms.iter().map(|term| depths[term.value]).max().unwrap_or(0);
            depths[self.results(index)].fill(before + u32::from(node.table.is_some()));
        }
        depths.into_iter().max().unwrap_or(0)
    }
}
