//! Random programs on vectors, and an evaluator in the clear.

use cloakwork_circuit::{
    ckks::{LIMITS, Program},
    wire::{
        self, Operation,
        operation::{
            Bootstrap, Kind,
            bootstrap::{self, Size},
        },
    },
};
use prost::Message as _;

use crate::{Seed, random::numbered_seeds};

/// A valid program, and bounds for the magnitudes of its values.
pub struct RandomVectors {
    /// The encoded form of the program. All encrypted values are outputs.
    pub message: wire::Program,
    /// The decoded program.
    pub program: Program,
    /// log2 of the number of slots of a vector.
    pub slots_log2: u32,
    /// For each value, whether it is encrypted, and its greatest magnitude.
    values: Vec<(bool, f64)>,
}

/// Greatest magnitude of the inputs' numbers.
const INPUT_MAX: f64 = 0.3;

impl RandomVectors {
    /// Builds a program with inputs of these levels. Skips operations that the decoder would
    /// refuse, or whose results could have a magnitude above one.
    pub fn new(set: &str, slots_log2: u32, levels: &[u32], seeds: &[Seed]) -> Self {
        let input = |(index, level): (usize, &u32)| wire::program::Input {
            name: format!("x{index}"),
            r#type: wire::Type::Vector.into(),
            slots_log2,
            level: *level,
            ..Default::default()
        };
        let inputs: Vec<_> = levels.iter().enumerate().map(input).collect();
        let outputs = (0..levels.len() as u32).collect();
        let message = wire::Program { parameter_set: set.to_owned(), inputs, outputs, ..Default::default() };
        let program = decode(&message).expect("inputs alone are a program");
        let mut random = Self { message, program, slots_log2, values: vec![(true, INPUT_MAX); levels.len()] };
        seeds.iter().for_each(|seed| random.operation(seed));
        random
    }

    /// A program of up to `operations` operations, with inputs of three levels. Equal numbers give
    /// equal programs.
    pub fn numbered(number: u64, set: &str, slots_log2: u32, operations: usize) -> Self {
        Self::new(set, slots_log2, &[9, 5, 3], &numbered_seeds(number, operations))
    }

    /// Numbers for each input.
    pub fn numbers(&self) -> Vec<Vec<[f64; 2]>> {
        (0..self.message.inputs.len()).map(|input| numbers(1 << self.slots_log2, input as u64, INPUT_MAX)).collect()
    }

    fn operation(&mut self, (choice, arguments, value): &Seed) {
        let there = self.values.len();
        let mut arguments: Vec<u32> = arguments.iter().map(|argument| u32::from(*argument) % there as u32).collect();
        let slots = 1_usize << self.slots_log2;
        let mut operation = Operation::default();
        let magnitude = |value: u32| self.values[value as usize].1;
        let (kind, arity, max) = match choice % 16 {
            0 => (Kind::Add, 2, magnitude(arguments[0]) + magnitude(arguments[1])),
            1 => (Kind::Subtract, 2, magnitude(arguments[0]) + magnitude(arguments[1])),
            2 => (Kind::Sum, 3, arguments.iter().map(|value| magnitude(*value)).sum()),
            3 | 4 => (Kind::Multiply, 2, magnitude(arguments[0]) * magnitude(arguments[1])),
            5 => (Kind::Negate, 1, magnitude(arguments[0])),
            6 => {
                operation.steps = *value as i32;
                (Kind::Rotate, 1, magnitude(arguments[0]))
            }
            7 => (Kind::Conjugate, 1, magnitude(arguments[0])),
            8 => (Kind::Total, 1, slots as f64 * magnitude(arguments[0])),
            9 | 10 => {
                let coefficients = 1 + (value % 9) as usize;
                let parts = numbers(coefficients, *value, 1.0 / coefficients as f64);
                operation.numbers = parts.iter().map(|[re, _]| *re).collect();
                let max = if magnitude(arguments[0]) <= 1.0 { 1.0 } else { f64::INFINITY };
                (if choice % 16 == 9 { Kind::Polynomial } else { Kind::Chebyshev }, 1, max)
            }
            11 => {
                let count = 1 + (value % 5) as usize;
                let offset = |index: usize| (value.rotate_left(7 * index as u32) % slots as u64) as u32;
                operation.offsets = (0..count).map(offset).collect();
                operation.offsets.sort_unstable();
                operation.offsets.dedup();
                let entries = numbers(slots * operation.offsets.len(), *value, 1.0 / count as f64);
                operation.numbers = entries.iter().map(|[re, _]| *re).collect();
                operation.imaginary = entries.iter().map(|[_, im]| *im).collect();
                (Kind::Matrix, 1, magnitude(arguments[0]))
            }
            12 => {
                operation.level = (value % 16) as u32;
                (Kind::LevelDown, 1, magnitude(arguments[0]))
            }
            13 => {
                // Bootstraps need many rotation keys, so all use one number of stages and one key
                // size.
                let kind = if value.is_multiple_of(2) { bootstrap::Kind::Unspecified } else { bootstrap::Kind::Lossy };
                operation.bootstrap = Some(Bootstrap { stages: 3, size: Size::Medium.into(), kind: kind.into() });
                if value % 4 < 2 {
                    (Kind::Bootstrap, 1, magnitude(arguments[0]))
                } else {
                    (Kind::BootstrapBoth, 2, magnitude(arguments[0]) + magnitude(arguments[1]))
                }
            }
            choice => {
                operation.r#type = wire::Type::Vector.into();
                let count = if choice == 14 { 1 } else { slots };
                let parts = numbers(count, *value, INPUT_MAX);
                operation.numbers = parts.iter().map(|[re, _]| *re).collect();
                if value.is_multiple_of(2) {
                    operation.imaginary = parts.iter().map(|[_, im]| *im).collect();
                }
                (Kind::Constant, 0, INPUT_MAX)
            }
        };
        if max > 1.0 {
            return;
        }
        arguments.truncate(arity);
        operation.kind = kind.into();
        operation.arguments = arguments;
        self.message.operations.push(operation);
        let is_encrypted = kind != Kind::Constant;
        let results = there..there + if kind == Kind::BootstrapBoth { 2 } else { 1 };
        if is_encrypted {
            self.message.outputs.extend(results.clone().map(|value| value as u32));
        }
        match decode(&self.message) {
            Some(program) => {
                self.program = program;
                self.values.extend(results.map(|_| (is_encrypted, max)));
            }
            None => {
                self.message.operations.pop();
                self.message.outputs.retain(|value| (*value as usize) < there);
            }
        }
    }
}

fn decode(message: &wire::Program) -> Option<Program> {
    Program::decode(&message.encode_to_vec(), &LIMITS).ok()
}

/// Pseudorandom numbers with a magnitude of up to `max`.
fn numbers(count: usize, seed: u64, max: f64) -> Vec<[f64; 2]> {
    let start = (seed % 1000) as f64;
    let number = |at: usize| {
        let at = start + at as f64;
        let (im, re) = (at * at * 0.618_034).sin_cos();
        let magnitude = max * (at * 0.754_877).fract();
        [re * magnitude, im * magnitude]
    };
    (0..count).map(number).collect()
}

/// Evaluates a program on vectors in the clear. Follows the operations of the message one by one,
/// independent of any plan.
pub fn evaluate(message: &wire::Program, inputs: &[Vec<[f64; 2]>]) -> Vec<Vec<[f64; 2]>> {
    let slots = 1_usize << message.inputs[0].slots_log2;
    let mut values = inputs.to_vec();
    for operation in &message.operations {
        let argument = |at: usize| &values[operation.arguments[at] as usize];
        let clear = |at: usize| {
            let im = operation.imaginary.get(at).copied().unwrap_or(0.0);
            [operation.numbers[at], im]
        };
        let zip = |of: fn([f64; 2], [f64; 2]) -> [f64; 2]| -> Vec<[f64; 2]> {
            argument(0).iter().zip(argument(1)).map(|(a, b)| of(*a, *b)).collect()
        };
        let each =
            |of: &dyn Fn([f64; 2]) -> [f64; 2]| -> Vec<[f64; 2]> { argument(0).iter().map(|x| of(*x)).collect() };
        let place = |row: usize, by: i64| (row as i64 + by).rem_euclid(slots as i64) as usize;
        let value = match operation.kind() {
            Kind::Constant => (0..slots).map(|at| clear(at % operation.numbers.len())).collect(),
            Kind::Add => zip(add),
            Kind::Subtract => zip(|a, b| [a[0] - b[0], a[1] - b[1]]),
            Kind::Multiply => zip(multiply),
            Kind::Sum => {
                let sum =
                    |at: usize| (0..operation.arguments.len()).fold([0.0; 2], |sum, of| add(sum, argument(of)[at]));
                (0..slots).map(sum).collect()
            }
            Kind::Negate => each(&|[re, im]| [-re, -im]),
            Kind::Conjugate => each(&|[re, im]| [re, -im]),
            Kind::Rotate => (0..slots).map(|at| argument(0)[place(at, i64::from(operation.steps))]).collect(),
            Kind::Total => {
                let total = argument(0).iter().fold([0.0; 2], |sum, x| add(sum, *x));
                vec![total; slots]
            }
            Kind::Polynomial => each(&|x| {
                let coefficients = operation.numbers.iter().rev();
                coefficients.fold([0.0; 2], |sum, coefficient| add(multiply(sum, x), [*coefficient, 0.0]))
            }),
            Kind::Chebyshev => each(&|x| {
                // T_0 is 1, T_1 is x, and each later polynomial is 2 x times the previous one minus
                // the one before that.
                let (mut sum, mut now, mut next) = ([0.0; 2], [1.0, 0.0], x);
                for coefficient in &operation.numbers {
                    sum = add(sum, [coefficient * now[0], coefficient * now[1]]);
                    let twice = multiply([2.0 * x[0], 2.0 * x[1]], next);
                    (now, next) = (next, [twice[0] - now[0], twice[1] - now[1]]);
                }
                sum
            }),
            Kind::Matrix => {
                let row = |row: usize| {
                    let entries = operation.offsets.iter().enumerate();
                    entries.fold([0.0; 2], |sum, (index, offset)| {
                        let entry = clear(index * slots + row);
                        add(sum, multiply(entry, argument(0)[place(row, i64::from(*offset))]))
                    })
                };
                (0..slots).map(row).collect()
            }
            Kind::LevelDown | Kind::Bootstrap => argument(0).clone(),
            Kind::BootstrapBoth => {
                // The parts of one complex number are the two results.
                let [first, second] = [zip(|a, b| [a[0] - b[1], 0.0]), zip(|a, b| [a[1] + b[0], 0.0])];
                values.push(first);
                second
            }
            other => unreachable!("{other:?} is no operation on vectors"),
        };
        values.push(value);
    }
    message.outputs.iter().map(|value| values[*value as usize].clone()).collect()
}

fn add(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

fn multiply(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}
