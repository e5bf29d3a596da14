//! Evaluation of graphs on plaintexts: the results that a device would compute without noise.

use crate::{Graph, Table};

/// A bootstrap's input has no entry in the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node} looks up {phase:#018x}, for which its table has no entry")]
pub struct EvaluationError {
    /// Index of the node.
    pub node: usize,
    /// The input of the lookup, as a fraction of the torus in units of 2^-64.
    pub phase: u64,
}

impl Graph {
    /// Evaluates the graph on the phases of all input blocks, and returns the phases of all output
    /// blocks. Phases are fractions of the torus in units of 2^-64.
    pub fn evaluate(&self, inputs: &[u64]) -> Result<Vec<u64>, EvaluationError> {
        let mut values = inputs.to_vec();
        for (index, node) in self.nodes.iter().enumerate() {
            let sum = node
                .terms
                .iter()
                .fold(node.constant, |sum, term| sum.wrapping_add(values[term.value].wrapping_mul(term.factor as u64)));
            match node.table.map(|table| &self.tables[table]) {
                None => values.push(sum),
                Some(table) => {
                    let results = table.look_up(self.set, sum).ok_or(EvaluationError { node: index, phase: sum })?;
                    values.extend(results);
                }
            }
        }
        Ok(self.outputs.iter().flatten().map(|output| values[output.value]).collect())
    }
}

impl Table {
    /// The results at a phase, or `None` if the table has no entry for it.
    fn look_up(&self, set: &cloakwork_params::ParameterSet, phase: u64) -> Option<Vec<u64>> {
        match self {
            Self::Sign => Some(vec![if phase < 1 << 63 { 1 << 61 } else { (1u64 << 61).wrapping_neg() }]),
            Self::Functions(functions) => {
                let step = set.plaintext_step();
                let (index, half) = (phase / step, (1 << 63) / step);
                // Only a table of one function covers the whole torus.
                if !phase.is_multiple_of(step) || index >= half && functions.len() > 1 {
                    return None;
                }
                let result = |entries: &Vec<i64>| {
                    let entry = *entries.get((index % half) as usize)?;
                    let halves = if index < half { entry } else { -entry };
                    Some((step / 2).wrapping_mul(halves as u64))
                };
                functions.iter().map(result).collect()
            }
        }
    }
}
