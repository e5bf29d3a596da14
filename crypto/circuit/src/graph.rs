//! The form of programs that devices compute: linear combinations and lookup tables, in topological
//! order.

use cloakwork_params::ParameterSet;

/// Number of a value: the inputs come first, then the results of each node in turn.
pub type ValueId = usize;

/// A program lowered to bootstraps. Every row of inputs passes through the same graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// Number of blocks of each of the program's inputs. Together these blocks are the first
    /// values.
    pub inputs: Vec<usize>,
    /// Distinct tables.
    pub tables: Vec<Table>,
    /// Nodes in topological order. Among these orders, nodes that start the longest chain of
    /// bootstraps come first.
    pub nodes: Vec<Node>,
    /// The values to return: the blocks of each output of the program.
    pub outputs: Vec<Vec<Output>>,
}

/// A value to return, with bounds that hold for all inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The value.
    pub value: ValueId,
    /// Largest plaintext of the value.
    pub degree: u32,
    /// Largest noise level of the value.
    pub noise_level: u32,
}

/// Cost of a graph for one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of bootstraps.
    pub pbs_count: u64,
    /// Length of the longest chain of dependent bootstraps.
    pub depth: u32,
}

/// One step: a linear combination, followed by a bootstrap if there is a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Terms of the linear combination.
    pub terms: Vec<Term>,
    /// Constant that is added to the terms, as a fraction of the torus in units of 2^-64.
    pub constant: u64,
    /// Index of the table that the sum is looked up in. Without a table, the sum is the result.
    pub table: Option<usize>,
    /// Number of the node's first result. A table of several functions has as many results.
    pub first_value: ValueId,
    /// Whether the set's companion may compute this bootstrap. Its results have more noise, and if
    /// this is false, a later lookup of a sum that contains the result could not bear that noise.
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

/// Lookup table of a bootstrap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// 1/8 for the lower half of the torus, -1/8 for the upper one: boolean gates.
    Sign,
    /// Functions of a block, entry by entry, in halves of a plaintext step. Each has as many
    /// entries as the set has values, divided by the number of functions. A single function covers
    /// the whole torus: its negated entries follow behind the last entry.
    Functions(Vec<Vec<i64>>),
}

impl Table {
    /// Functions that share one bootstrap, each padded with zeros to the number of entries that it
    /// may have.
    pub(crate) fn functions<'f>(functions: impl ExactSizeIterator<Item = &'f [i64]>, values: i64) -> Self {
        let entries = values as usize / functions.len().max(1);
        let pad = |function: &[i64]| function.iter().copied().chain(std::iter::repeat(0)).take(entries).collect();
        Self::Functions(functions.map(pad).collect())
    }

    /// Number of results of one bootstrap.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Sign => 1,
            Self::Functions(functions) => functions.len(),
        }
    }
}

impl Graph {
    /// Number of blocks of all inputs.
    pub fn input_blocks(&self) -> usize {
        self.inputs.iter().sum()
    }

    /// Number of bootstraps for one row.
    pub fn pbs_count(&self) -> u64 {
        self.nodes.iter().filter(|node| node.table.is_some()).count() as u64
    }

    /// Cost of one row.
    pub fn cost(&self) -> Cost {
        Cost { pbs_count: self.pbs_count(), depth: self.depth() }
    }

    /// Values that node `index` returns.
    pub fn results(&self, index: usize) -> std::ops::Range<ValueId> {
        let node = &self.nodes[index];
        let count = node.table.map_or(1, |table| self.tables[table].outputs());
        node.first_value..node.first_value + count
    }

    /// Number of values: inputs and results.
    pub fn values(&self) -> usize {
        self.nodes.len().checked_sub(1).map_or(self.input_blocks(), |last| self.results(last).end)
    }

    /// Length of the longest chain of dependent bootstraps.
    pub fn depth(&self) -> u32 {
        let mut depths = vec![0; self.values()];
        for (index, node) in self.nodes.iter().enumerate() {
            let before = node.terms.iter().map(|term| depths[term.value]).max().unwrap_or(0);
            depths[self.results(index)].fill(before + u32::from(node.table.is_some()));
        }
        depths.into_iter().max().unwrap_or(0)
    }
}
