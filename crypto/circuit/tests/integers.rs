//! Random programs of integers: what they compute after lowering is what they say.

use cloakwork_circuit::{
    Goal, Graph, LIMITS, Program, ProgramError, Type,
    wire::{self, operation::Kind},
};
use proptest::prelude::*;
use prost::Message as _;

const SETS: [&str; 3] = [
    "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128",
    "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "TOY_MESSAGE_2_CARRY_2",
];

/// Types that a random program has values of.
const TYPES: [Type; 8] = [
    Type::Bool,
    Type::Uint(2),
    Type::Uint(8),
    Type::Uint(10),
    Type::Uint(32),
    Type::Uint(64),
    Type::Int(8),
    Type::Int(32),
];

/// A random choice for each operation, and numbers for its arguments.
type Seed = (u8, [u16; 3], u64);

/// A program that is right by construction, and the types of its values.
struct Made {
    message: wire::Program,
    types: Vec<Type>,
}

impl Made {
    /// Inputs are types and noise levels; 0 stands for a fresh one.
    fn new(set: &str, inputs: &[(u8, u32)], seeds: &[Seed]) -> Self {
        let types: Vec<Type> = inputs.iter().map(|(ty, _)| TYPES[*ty as usize % TYPES.len()]).collect();
        let input = |(index, (ty, (_, level))): (usize, (&Type, &(u8, u32)))| {
            let (r#type, bits) = ty.wire();
            let name = format!("x{index}");
            let (noise_level_max, fresh) = (*level, *level == 0);
            wire::program::Input { name, r#type: r#type.into(), bits, noise_level_max, fresh, ..Default::default() }
        };
        let inputs = types.iter().zip(inputs).enumerate().map(input).collect();
        let message = wire::Program { parameter_set: set.to_owned(), inputs, ..Default::default() };
        let mut made = Self { message, types };
        seeds.iter().for_each(|seed| made.operation(seed));
        made.message.outputs = (0..made.types.len() as u32).collect();
        made
    }

    fn operation(&mut self, (choice, arguments, value): &Seed) {
        let values = self.types.len();
        let first = arguments[0] as usize % values;
        let ty = self.types[first];
        let of = |made: &Self, wanted: Type, seed: u16| {
            let matching: Vec<usize> = (0..values).filter(|value| made.types[*value] == wanted).collect();
            matching.get(seed as usize % matching.len().max(1)).copied()
        };
        let second = of(self, ty, arguments[1]).expect("the first one is one");
        let (kind, used, result) = match choice % 37 {
            0 => (Kind::Constant, vec![], TYPES[arguments[0] as usize % TYPES.len()]),
            1 | 2 => {
                let to = TYPES[1 + arguments[1] as usize % (TYPES.len() - 1)];
                (Kind::Cast, vec![first], to)
            }
            3 => match of(self, Type::Bool, arguments[2]) {
                Some(condition) => (Kind::Mux, vec![condition, first, second], ty),
                None => (Kind::Equal, vec![first, second], Type::Bool),
            },
            4 => (Kind::Not, vec![first], ty),
            5 => (Kind::NotEqual, vec![first, second], Type::Bool),
            6 => (Kind::Equal, vec![first, second], Type::Bool),
            choice @ 7..=9 => {
                let gates = [Kind::And, Kind::Xor, Kind::Nor];
                (gates[usize::from(choice) - 7], vec![first, second], ty)
            }
            _ if ty == Type::Bool => (Kind::Xnor, vec![first, second], ty),
            10 => (Kind::Negate, vec![first], ty),
            11 | 12 => (Kind::Add, vec![first, second], ty),
            13 | 14 => (Kind::Subtract, vec![first, second], ty),
            15 => (Kind::Multiply, vec![first, second], ty),
            16 => (Kind::Sum, vec![first, second, first, second, second], ty),
            17 => (Kind::Less, vec![first, second], Type::Bool),
            18 => (Kind::GreaterOrEqual, vec![first, second], Type::Bool),
            19 => (Kind::Min, vec![first, second], ty),
            20 => (Kind::Max, vec![first, second], ty),
            24 => (Kind::Divide, vec![first, second], ty),
            25 => (Kind::Remainder, vec![first, second], ty),
            31 => (Kind::AddOverflows, vec![first, second], Type::Bool),
            32 => (Kind::SubtractOverflows, vec![first, second], Type::Bool),
            33 => (Kind::MultiplyOverflows, vec![first, second], Type::Bool),
            34 => (Kind::Dot, vec![first, second, second, second], ty),
            35 => (Kind::IsOneOf, vec![first, second, second], Type::Bool),
            36 => {
                let constant = of(self, ty, arguments[2]).expect("the first one is one");
                (Kind::Match, vec![first, second, constant, constant, second, first], ty)
            }
            27 => (Kind::ReverseBits, vec![first], ty),
            28 => (Kind::CountOnes, vec![first], Type::Uint(32)),
            29 => (Kind::LeadingZeros, vec![first], Type::Uint(32)),
            30 => (Kind::TrailingOnes, vec![first], Type::Uint(32)),
            26 if ty.is_signed() => (Kind::Absolute, vec![first], ty),
            26 => (Kind::Negate, vec![first], ty),
            other => match of(self, Type::Uint(8), arguments[2]) {
                Some(by) => {
                    let kinds = [Kind::ShiftLeft, Kind::ShiftRight, Kind::RotateLeft];
                    (kinds[usize::from(other) - 21], vec![first, by], ty)
                }
                None => (Kind::Add, vec![first, second], ty),
            },
        };
        let (r#type, bits) = result.wire();
        let stated = matches!(kind, Kind::Constant | Kind::Cast);
        let bytes = result.bits().unwrap_or(1).div_ceil(8) as usize;
        self.message.operations.push(wire::Operation {
            kind: kind.into(),
            arguments: used.iter().map(|value| *value as u32).collect(),
            r#type: if stated { r#type.into() } else { 0 },
            bits: if stated { bits } else { 0 },
            value: if kind == Kind::Constant { value.to_le_bytes()[..bytes].to_vec() } else { Vec::new() },
            ..Default::default()
        });
        self.types.push(result);
    }

    fn program(&self) -> Program {
        Program::decode(&self.message.encode_to_vec(), &LIMITS).expect("right by construction")
    }

    /// What the program says, as bits without a sign.
    fn run(&self, inputs: &[u64]) -> Vec<u64> {
        let types = &self.types[..self.message.inputs.len()];
        let mut values: Vec<u64> = inputs.iter().zip(types).map(|(value, ty)| value & mask(*ty)).collect();
        for operation in &self.message.operations {
            let ty = self.types[values.len()];
            let from = |index: usize| self.types[operation.arguments[index] as usize];
            let bits = |index: usize| values[operation.arguments[index] as usize];
            let number = |index: usize| extended(bits(index), from(index));
            let shift = || {
                let width = from(0).bits().expect("a number");
                (width, bits(1) as u32 & (width.next_power_of_two() - 1))
            };
            let overflows = |result: Option<i128>| {
                let fits = |result: i128| extended(result as u64 & mask(from(0)), from(0)) == result;
                i128::from(!result.is_some_and(fits))
            };
            let result: i128 = match operation.kind() {
                Kind::Constant => {
                    let bytes = std::array::from_fn(|index| operation.value.get(index).copied().unwrap_or(0));
                    u64::from_le_bytes(bytes).into()
                }
                Kind::Cast => number(0),
                Kind::Mux => {
                    if bits(0) == 1 {
                        number(1)
                    } else {
                        number(2)
                    }
                }
                Kind::Not => !number(0),
                Kind::And => number(0) & number(1),
                Kind::Xor => number(0) ^ number(1),
                Kind::Xnor => !(number(0) ^ number(1)),
                Kind::Nor => !(number(0) | number(1)),
                Kind::Negate => -number(0),
                Kind::Add => number(0) + number(1),
                Kind::Subtract => number(0) - number(1),
                Kind::Multiply => number(0).wrapping_mul(number(1)),
                Kind::AddOverflows => overflows(number(0).checked_add(number(1))),
                Kind::SubtractOverflows => overflows(number(0).checked_sub(number(1))),
                Kind::MultiplyOverflows => overflows(number(0).checked_mul(number(1))),
                Kind::Divide => number(0).checked_div(number(1)).unwrap_or(if number(0) < 0 { 1 } else { -1 }),
                Kind::Remainder => number(0).checked_rem(number(1)).unwrap_or(number(0)),
                Kind::Absolute => number(0).abs(),
                Kind::ReverseBits => (bits(0).reverse_bits() >> (64 - from(0).bits().expect("a number"))).into(),
                Kind::CountOnes => bits(0).count_ones().into(),
                Kind::LeadingZeros => (bits(0).leading_zeros() + from(0).bits().expect("a number") - 64).into(),
                Kind::TrailingOnes => bits(0).trailing_ones().into(),
                Kind::Dot => number(0).wrapping_mul(number(1)).wrapping_add(number(2).wrapping_mul(number(3))),
                Kind::IsOneOf => (1..operation.arguments.len()).any(|other| number(0) == number(other)).into(),
                Kind::Match => {
                    let last = operation.arguments.len() - 1;
                    let found = (1..last).step_by(2).find(|key| number(0) == number(*key));
                    number(found.map_or(last, |key| key + 1))
                }
                Kind::Sum => (0..operation.arguments.len()).map(number).sum(),
                Kind::Equal => (number(0) == number(1)).into(),
                Kind::NotEqual => (number(0) != number(1)).into(),
                Kind::Less => (number(0) < number(1)).into(),
                Kind::GreaterOrEqual => (number(0) >= number(1)).into(),
                Kind::Min => number(0).min(number(1)),
                Kind::Max => number(0).max(number(1)),
                // Beyond the width everything has left, whichever of 64 bits there were.
                Kind::ShiftLeft => number(0) << bits(1).min(127),
                Kind::ShiftRight => number(0) >> bits(1).min(127),
                Kind::RotateLeft => {
                    let (width, by) = shift();
                    let by = by % width;
                    (u128::from(bits(0)) << by | u128::from(bits(0)) >> (width - by)) as i128
                }
                other => unreachable!("{other:?} is never generated"),
            };
            values.push(result as u64 & mask(ty));
        }
        values
    }
}

fn mask(ty: Type) -> u64 {
    u64::MAX >> (64 - ty.bits().unwrap_or(1))
}

fn extended(bits: u64, ty: Type) -> i128 {
    match ty {
        Type::Int(width) => i128::from((bits << (64 - width)) as i64 >> (64 - width)),
        _ => bits.into(),
    }
}

/// Runs a graph on numbers.
fn run(graph: &Graph, types: &[Type], inputs: &[u64]) -> Vec<u64> {
    let step = graph.set.plaintext_step();
    let digits = |(value, ty): (&u64, &Type)| {
        let value = value & mask(*ty);
        (0..ty.blocks()).map(move |place| (value >> (2 * place) & 3) * step).collect::<Vec<_>>()
    };
    let phases: Vec<u64> = inputs.iter().zip(types).flat_map(digits).collect();
    let outputs = graph.evaluate(&phases).expect("every phase has an entry");
    let mut outputs = outputs.iter();
    let number = |blocks: &Vec<cloakwork_circuit::Output>| {
        let digits = blocks.iter().zip(&mut outputs).enumerate();
        digits.fold(0, |number, (place, (output, phase))| {
            assert!(phase % step == 0 && phase / step <= u64::from(output.degree), "no more than its degree");
            number | ((phase / step) << (2 * place))
        })
    };
    graph.outputs.iter().map(number).collect()
}

fn seeds(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Seed>> {
    prop::collection::vec((any::<u8>(), any::<[u16; 3]>(), any::<u64>()), count)
}

proptest! {
    #[test]
    fn lowering_keeps_the_meaning(
        set in 0..SETS.len(),
        inputs in prop::collection::vec((any::<u8>(), 0..=5u32), 1..5),
        seeds in seeds(0..60),
        values in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..4], 5),
    ) {
        let made = Made::new(SETS[set], &inputs, &seeds);
        let program = made.program();
        let expected = made.run(&values);
        for goal in [Goal::Work, Goal::Depth] {
            let graph = program.lower(goal);
            prop_assert!(graph.pbs_count() <= program.bootstraps_max());
            let types = &made.types[..made.message.inputs.len()];
            prop_assert_eq!(run(&graph, types, &values), expected.clone(), "{:?}", goal);
        }
    }

    #[test]
    fn broken_programs_do_not_panic(
        inputs in prop::collection::vec((any::<u8>(), 0..=5u32), 1..5),
        seeds in seeds(0..20),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = Made::new(SETS[0], &inputs, &seeds).message.encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(program) = Program::decode(&bytes, &LIMITS) {
            let graph = program.lower(Goal::Depth);
            prop_assert_eq!(graph.outputs.len(), program.output_types().len());
        }
    }
}

/// Divisions are what comes nearest to its price: of all lengths, under the sets that bear least and most noise.
#[test]
fn divisions_cost_no_more_than_was_said() {
    let lengths = [2, 4, 8, 64, 80].map(|bits| (bits, [0, 1, 5])).into_iter();
    let lengths = lengths.flat_map(|(bits, levels)| levels.map(|level| (bits, level))).chain([(256, 5)]);
    for (set, (bits, level)) in SETS.iter().flat_map(|set| lengths.clone().map(move |length| (set, length))) {
        for ty in [wire::Type::Uint, wire::Type::Int] {
            let input = |name: &str| wire::program::Input {
                name: name.into(),
                r#type: ty.into(),
                bits,
                fresh: level == 0,
                noise_level_max: level,
                ..Default::default()
            };
            let arguments = vec![0, 1];
            let operation = wire::Operation { kind: Kind::Remainder.into(), arguments, ..Default::default() };
            let message = wire::Program {
                parameter_set: (*set).to_owned(),
                inputs: vec![input("x"), input("y")],
                operations: vec![operation],
                outputs: vec![2],
            };
            let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("within the limits");
            for goal in [Goal::Work, Goal::Depth] {
                let (got, said) = (program.lower(goal).pbs_count(), program.bootstraps_max());
                assert!(got <= said, "{got} of {said}: {ty:?} of {bits} bits, noise {level}, {goal:?}, {set}");
            }
        }
    }
}

/// The price told from types alone is one from above.
#[test]
fn no_program_costs_more_than_was_said() {
    let bits = 256;
    let input = |name: &str| wire::program::Input {
        name: name.into(),
        r#type: wire::Type::Uint.into(),
        bits,
        ..Default::default()
    };
    let operation = |kind: Kind| wire::Operation { kind: kind.into(), arguments: vec![0, 1], ..Default::default() };
    let message = wire::Program {
        parameter_set: SETS[0].to_owned(),
        inputs: vec![input("x"), input("y")],
        operations: vec![operation(Kind::Multiply); 3],
        outputs: vec![2, 3, 4],
    };
    assert!(Program::decode(&message.encode_to_vec(), &LIMITS).is_ok());
    let many = wire::Program { operations: vec![operation(Kind::Multiply); 4], ..message };
    let refused = Program::decode(&many.encode_to_vec(), &LIMITS).expect_err("too much");
    assert!(matches!(refused, ProgramError::TooManyBootstraps { .. }), "{refused}");
}

/// Numbers in the clear take no bootstraps, but room.
#[test]
fn constants_are_counted() {
    let constant = wire::Operation {
        kind: Kind::Constant.into(),
        r#type: wire::Type::Uint.into(),
        bits: 256,
        ..Default::default()
    };
    let message = wire::Program {
        parameter_set: SETS[0].to_owned(),
        operations: vec![constant; LIMITS.operations],
        outputs: vec![0],
        ..Default::default()
    };
    let refused = Program::decode(&message.encode_to_vec(), &LIMITS).expect_err("too much");
    assert!(matches!(refused, ProgramError::TooManyBootstraps { .. }), "{refused}");
}
