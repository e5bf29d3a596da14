//! Random programs of integers, with their results in the clear.

use cloakwork_circuit::{
    LIMITS, Program, Type,
    wire::{self, operation::Kind},
};
use prost::Message as _;

/// Types of the values of a random program.
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

/// A random choice of an operation, numbers that choose its arguments, and a value.
pub type Seed = (u8, [u16; 3], u64);

/// A program that is valid by construction, and the types of its values.
pub struct RandomProgram {
    /// The encoded form of the program.
    pub message: wire::Program,
    /// Number of inputs, which are the first values.
    pub inputs: usize,
    /// Types of all values. All values are outputs.
    pub types: Vec<Type>,
}

/// Seeds of `operations` operations. Equal numbers give equal seeds.
pub(crate) fn numbered_seeds(number: u64, operations: usize) -> Vec<Seed> {
    seeds(&mut words(number), operations)
}

fn words(number: u64) -> impl FnMut() -> u64 {
    let mut state = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move || {
        // Any sequence without a pattern would do. This is Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn seeds(next: &mut impl FnMut() -> u64, operations: usize) -> Vec<Seed> {
    let seed = |_| {
        let (choice, arguments) = (next() as u8, [next() as u16, next() as u16, next() as u16]);
        // Half of the values have a single one bit: numbers of few nonzero digits take other paths
        // through the program.
        let value = if next().is_multiple_of(2) { next() } else { 1 << (next() % 64) };
        (choice, arguments, value)
    };
    (0..operations).map(seed).collect()
}

impl RandomProgram {
    /// A program of `operations` operations. Equal numbers give equal programs.
    pub fn numbered(number: u64, set: &str, operations: usize) -> Self {
        let mut next = words(number);
        let inputs: Vec<(u8, u32)> = (0..4).map(|_| (next() as u8, (next() % 3) as u32)).collect();
        Self::new(set, &inputs, &seeds(&mut next, operations))
    }

    /// Builds a program. Inputs are types and noise levels, where 0 stands for a fresh input.
    pub fn new(set: &str, inputs: &[(u8, u32)], seeds: &[Seed]) -> Self {
        let types: Vec<Type> = inputs.iter().map(|(ty, _)| TYPES[*ty as usize % TYPES.len()]).collect();
        let levels = inputs.iter().map(|(_, level)| *level);
        let declared: Vec<(Type, u32)> = types.iter().copied().zip(levels).collect();
        let input = |(index, alike): (usize, &[(Type, u32)])| {
            let (ty, level) = alike[0];
            let (r#type, bits) = ty.wire();
            wire::program::Input {
                name: format!("x{index}"),
                r#type: r#type.into(),
                bits,
                noise_level_max: level,
                fresh: level == 0,
                length: length(alike.len()),
                ..Default::default()
            }
        };
        let inputs = declared.chunk_by(|one, other| one == other).enumerate().map(input).collect();
        let message = wire::Program { parameter_set: set.to_owned(), inputs, ..Default::default() };
        let mut random = Self { message, inputs: types.len(), types };
        seeds.iter().for_each(|seed| random.operation(seed));
        random.message.outputs = (0..random.types.len() as u32).collect();
        let alike = random.types.chunk_by(|one, other| one == other);
        random.message.output_lengths = alike.map(|values| length(values.len())).collect();
        random
    }

    fn operation(&mut self, (choice, arguments, value): &Seed) {
        let values = self.types.len();
        let first = arguments[0] as usize % values;
        let ty = self.types[first];
        let of = |random: &Self, wanted: Type, seed: u16| {
            let matching: Vec<usize> = (0..values).filter(|value| random.types[*value] == wanted).collect();
            matching.get(seed as usize % matching.len().max(1)).copied()
        };
        let second = of(self, ty, arguments[1]).expect("the first one is one");
        let (kind, used, result) = match choice % 38 {
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
            35 => (Kind::IsOneOf, vec![first, second, second], Type::Bool),
            36 => {
                let constant = of(self, ty, arguments[2]).expect("the first one is one");
                (Kind::Match, vec![first, second, constant, constant, second, first], ty)
            }
            37 => match of(self, Type::Bool, arguments[2]) {
                Some(bit) => (Kind::Match, vec![first, second, bit, bit], Type::Bool),
                None => (Kind::NotEqual, vec![first, second], Type::Bool),
            },
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

    /// Decodes the program, which checks it.
    pub fn program(&self) -> Program {
        Program::decode(&self.message.encode_to_vec(), &LIMITS).expect("right by construction")
    }

    /// Evaluates the program in the clear. Returns all values as bits without a sign.
    pub fn run(&self, inputs: &[u64]) -> Vec<u64> {
        let types = &self.types[..self.inputs];
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
                // A shift of 64 bits or more moves all bits out, so limiting it to 127 changes
                // nothing.
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

/// The length of an array. Neighbouring values of one type form an array, and a single value does
/// not.
fn length(values: usize) -> u32 {
    if values > 1 { values as u32 } else { 0 }
}

/// A mask of the bits of the type.
pub fn mask(ty: Type) -> u64 {
    u64::MAX >> (64 - ty.bits().unwrap_or(1))
}

fn extended(bits: u64, ty: Type) -> i128 {
    match ty {
        Type::Int(width) => i128::from((bits << (64 - width)) as i64 >> (64 - width)),
        _ => bits.into(),
    }
}
