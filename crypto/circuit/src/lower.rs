//! Programs to graphs.

mod blocks;
mod gate;
mod gates;
mod order;

use cloakwork_params::Encoding;

use crate::{Goal, Graph, Program};

impl Program {
    /// The graph that computes the program.
    pub fn lower(&self, goal: Goal) -> Graph {
        order::by_urgency(match self.set.encoding {
            Encoding::Boolean => gates::lower(self),
            Encoding::Shortint { .. } => blocks::lower(self, goal),
        })
    }
}
