//! Lowering of programs to graphs.

mod blocks;
mod gate;
mod gates;
mod order;

use cloakwork_params::Encoding;

use crate::{Cost, Goal, Graph, Program};

impl Program {
    /// Lowers the program to a graph.
    pub fn lower(&self, goal: Goal) -> Graph {
        order::by_urgency(match self.set.encoding {
            Encoding::Boolean => gates::lower(self),
            Encoding::Shortint { .. } => blocks::lower(self, goal),
        })
    }

    /// Cost of the graph that [`Program::lower`] returns. This takes less time, because no graph is
    /// built.
    pub fn cost(&self, goal: Goal) -> Cost {
        match self.set.encoding {
            Encoding::Boolean => gates::lower(self).cost(),
            Encoding::Shortint { .. } => blocks::cost(self, goal),
        }
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_tests_programs::RandomProgram;
    use prost::Message as _;

    use crate::{
        Goal, LIMITS, Program,
        draft::effort,
        wire::{self, operation::Kind, program::Input},
    };

    const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
    const GOALS: [Goal; 2] = [Goal::Work, Goal::Depth];

    fn program(inputs: Vec<Input>, operations: Vec<wire::Operation>) -> (usize, Program) {
        of_set(SET, inputs, operations)
    }

    /// A program that returns the result of the last operation. All operations except the last may
    /// have several results.
    fn of_set(set: &str, inputs: Vec<Input>, operations: Vec<wire::Operation>) -> (usize, Program) {
        let values: usize = inputs.iter().map(|input| input.length.max(1) as usize).sum();
        let results: usize = operations.iter().map(|operation| operation.tables.len().max(1)).sum();
        let outputs = vec![(values + results - 1) as u32];
        let message =
            wire::Program { parameter_set: set.to_owned(), inputs, operations, outputs, ..Default::default() };
        let bytes = message.encode_to_vec();
        (bytes.len(), Program::decode(&bytes, &LIMITS).expect("a program"))
    }

    fn input(name: &str, bits: u32, length: u32) -> Input {
        Input { name: name.to_owned(), r#type: wire::Type::Uint.into(), bits, length, ..Default::default() }
    }

    fn input_of(name: &str, ty: wire::Type) -> Input {
        Input { name: name.to_owned(), r#type: ty.into(), ..Default::default() }
    }

    fn operation(kind: Kind, arguments: Vec<u32>) -> wire::Operation {
        wire::Operation { kind: kind.into(), arguments, ..Default::default() }
    }

    /// A chain of AES encryptions: each encrypts the result of the one before.
    fn aes(blocks: u32) -> (usize, Program) {
        let operations = (0..blocks).map(|index| operation(Kind::Aes128Encrypt, vec![0, 1 + index])).collect();
        program(vec![input("key", 128, 0), input("block", 128, 0)], operations)
    }

    /// One operation on all elements of an array.
    fn of_array(kind: Kind, bits: u32, length: u32) -> (usize, Program) {
        program(vec![input("xs", bits, length)], vec![operation(kind, (0..length).collect())])
    }

    /// A sum of 10,000 constants and an input.
    fn constants() -> (usize, Program) {
        const CONSTANTS: u32 = 10_000;
        let (ty, bits) = (wire::Type::Uint.into(), 2);
        let constant = wire::Operation { r#type: ty, bits, value: vec![1], ..operation(Kind::Constant, Vec::new()) };
        let mut operations = vec![constant; CONSTANTS as usize];
        operations.push(operation(Kind::Sum, (0..=CONSTANTS).collect()));
        program(vec![input("x", 2, 0)], operations)
    }

    /// Lookups of one block, each in several tables of the largest length. All tables are
    /// different.
    fn lookups(set: &str, lookups: u32, tables: u32) -> (usize, Program) {
        let values = if set.contains("MESSAGE_3") { 64_u32 } else { 16 };
        let entries = values / tables;
        let table = |number: u32| wire::Table {
            entries: (0..entries).map(|place| number / values.pow(place) % values).collect(),
        };
        let operation = |index: u32| wire::Operation {
            tables: (index * tables..(index + 1) * tables).map(table).collect(),
            ..operation(Kind::LookupMany, vec![0])
        };
        let block = Input { degree_max: entries - 1, ..input_of("x", wire::Type::Block) };
        of_set(set, vec![block], (0..lookups).map(operation).collect())
    }

    /// Admission of a program relies on the estimate of its bootstraps. The time of lowering must
    /// therefore be bounded in proportion to the estimate.
    #[test]
    fn the_effort_of_lowering_is_bounded_by_the_estimate() {
        // AES takes 222 steps, because its sums modulo 2 are long. Quadratic time would take
        // thousands.
        const STEPS_OF_A_BOOTSTRAP: u64 = 300;
        let programs = [
            ("14 times AES", 193, aes(14)),
            ("a dot product of 53 pairs", 200, of_array(Kind::Dot, 64, 106)),
            ("a dot product of 584 pairs", 2400, of_array(Kind::Dot, 16, 1168)),
            ("a sum of an array", 40_000, of_array(Kind::Sum, 2, 16_000)),
            ("a sum of constants", 200_000, constants()),
            ("52,424 functions of one block", 550_000, lookups(SET, 13_106, 4)),
        ];
        for (name, bytes_max, (bytes, program)) in programs {
            assert!(bytes <= bytes_max, "{name}: {bytes} bytes");
            for goal in GOALS {
                let steps = effort::of(|| assert!(program.cost(goal).pbs_count <= program.bootstraps_max()));
                let max = STEPS_OF_A_BOOTSTRAP * program.bootstraps_max();
                println!("{name}, {goal:?}: {steps} steps for {} bootstraps", program.bootstraps_max());
                assert!(steps <= max, "{name}, {goal:?}: {steps} steps, expected at most {max}");
            }
        }
    }

    /// Gates of a boolean set.
    fn gates() -> (usize, Program) {
        let kinds =
            [(Kind::And, vec![0, 1]), (Kind::Not, vec![2]), (Kind::Mux, vec![0, 3, 1]), (Kind::Xor, vec![4, 3])];
        let operations = kinds.map(|(kind, arguments)| operation(kind, arguments)).to_vec();
        of_set("DEFAULT_PARAMETERS", vec![input_of("x", wire::Type::Bool), input_of("y", wire::Type::Bool)], operations)
    }

    /// A bivariate lookup of two blocks, and a lookup of its result, with this many messages in a
    /// block.
    fn blocks(set: &str, messages: u32) -> (usize, Program) {
        let table = |entries: u32| vec![wire::Table { entries: (0..entries).map(|entry| entry % messages).collect() }];
        let bivariate =
            wire::Operation { tables: table(messages * messages), ..operation(Kind::LookupBivariate, vec![0, 1]) };
        let lookup = wire::Operation { tables: table(messages), ..operation(Kind::Lookup, vec![2]) };
        of_set(set, ["x", "y"].map(|name| input_of(name, wire::Type::Block)).to_vec(), vec![bivariate, lookup])
    }

    #[test]
    fn the_cost_of_a_program_is_that_of_its_graph() {
        const SMALL: &str = "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128";
        const LARGE: &str = "V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128";
        let random = (0..40).map(|number| RandomProgram::numbered(number, SET, 30).message.encode_to_vec());
        let random = random.map(|bytes| Program::decode(&bytes, &LIMITS).expect("a program"));
        let others = [
            of_array(Kind::Dot, 16, 12),
            aes(2),
            lookups(SET, 50, 4),
            lookups(LARGE, 50, 16),
            gates(),
            blocks(SMALL, 2),
            blocks(SET, 4),
            blocks(LARGE, 8),
        ];
        for program in random.chain(others.map(|(_, program)| program)) {
            for goal in GOALS {
                let cost = program.cost(goal);
                assert!(cost.pbs_count > 0 && cost.depth > 0, "{}", program.set().name);
                assert_eq!(cost, program.lower(goal).cost(), "{}", program.set().name);
            }
        }
    }
}
