//! An upper bound of a program's cost, computed from its types alone, before any graph is built.

use super::{Operation, Program, ValueInfo};
use crate::wire::operation::Kind;

impl Program {
    /// Upper bound of the bootstraps for a row. The bound is at least the number of blocks that
    /// lowering holds in memory.
    pub fn bootstraps_max(&self) -> u64 {
        let mut results = &self.values[self.input_values()..];
        let price = |operation: &Operation| {
            let own = results.split_off(..operation.results()).unwrap_or_default();
            price(self, operation, own)
        };
        let operations = self.operations.iter().map(price).fold(0, u64::saturating_add);
        // Outputs are returned without carries, so each may need carry propagation.
        let outputs = self.output_types().map(|row| 6 * row.blocks() as u64);
        outputs.fold(operations, u64::saturating_add)
    }
}

fn price(program: &Program, operation: &Operation, results: &[ValueInfo]) -> u64 {
    let arguments = operation.arguments.iter().map(|&value| &program.values[value]);
    let blocks = arguments.chain(results).map(|value| value.ty.blocks()).max().unwrap_or(1) as u64;
    // Before an operation adds or compares, it may have to propagate carries in each of its
    // arguments.
    let clean = 6 * blocks * operation.arguments.len() as u64;
    clean
        + match operation.kind {
            Kind::Lookup | Kind::LookupBivariate | Kind::LookupMany => operation.tables.len() as u64,
            Kind::Constant => blocks,
            Kind::Multiply => 2 * blocks * blocks,
            Kind::Dot => blocks * blocks * operation.arguments.len() as u64,
            // A comparison with each argument, and selections among their results.
            Kind::IsOneOf | Kind::Match => 6 * blocks * operation.arguments.len() as u64,
            // The bound for sets that bear little noise. Other sets take three fifths of it.
            Kind::Divide | Kind::Remainder => 7 * blocks * blocks + 80 * blocks,
            // Products are twice as long as their operands.
            Kind::MultiplyOverflows => 8 * blocks * blocks + 12 * blocks,
            // 200 substitutions, and the conversion of bits to digits.
            Kind::Aes128Encrypt => 200 * 40 + 2 * blocks,
            Kind::Absolute | Kind::AddOverflows | Kind::SubtractOverflows | Kind::CountOnes | Kind::CountZeros => {
                12 * blocks
            }
            Kind::ShiftLeft | Kind::ShiftRight | Kind::RotateLeft | Kind::RotateRight => 40 * blocks,
            _ => 6 * blocks,
        }
}
