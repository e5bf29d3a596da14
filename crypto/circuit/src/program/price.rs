//! What a program can cost at most, from its types alone: told before anything is built.

use super::{Operation, Program, Type};
use crate::wire::operation::Kind;

impl Program {
    /// Bootstraps for a row, from above.
    pub fn bootstraps_max(&self) -> u64 {
        let operations = self.operations.iter().map(|operation| price(self, operation));
        // What is returned is returned without carries.
        let outputs = self.output_types().map(|ty| 6 * ty.blocks() as u64);
        operations.chain(outputs).fold(0, u64::saturating_add)
    }
}

fn price(program: &Program, operation: &Operation) -> u64 {
    let ty = |&value: &usize| program.values[value].ty;
    let blocks = operation.arguments.iter().map(ty).map(Type::blocks).max().unwrap_or(1) as u64;
    // Before it adds up or compares, an operation may have to carry in each of its arguments.
    let clean = 6 * blocks * operation.arguments.len() as u64;
    clean
        + match operation.kind {
            Kind::Lookup | Kind::LookupBivariate | Kind::LookupMany => operation.tables.len() as u64,
            Kind::Multiply => 2 * blocks * blocks,
            Kind::ShiftLeft | Kind::ShiftRight | Kind::RotateLeft | Kind::RotateRight => 40 * blocks,
            _ => 6 * blocks,
        }
}
