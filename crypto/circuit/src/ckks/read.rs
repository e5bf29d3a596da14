//! Reads a message, operation by operation, into a plan.

use std::collections::HashMap;

use cloakwork_params::ckks::{
    CkksSet,
    bootstrap::{BootstrapKind, BootstrapShape, KeySize},
};

use super::{
    Diagonal, Input, Limits, Vector, numbers,
    plan::Plan,
    polynomial::chebyshev_of_powers,
    scales::{self, Scales},
};
use crate::{
    ProgramError, ValueId,
    program::values_returned,
    wire::{
        self,
        operation::{
            Kind,
            bootstrap::{Kind as WireKind, Size},
        },
    },
};

/// A value of the message.
#[derive(Clone, Copy)]
enum Value {
    Vector(ValueId),
    /// Clear numbers, by their index in the plan.
    Clear(usize),
}

/// The inputs, the plan, and the values to return.
pub(super) fn program(
    set: &'static CkksSet,
    limits: &Limits,
    message: wire::Program,
) -> Result<(Vec<Input>, Plan, Vec<ValueId>), ProgramError> {
    let input = |(index, message): (usize, wire::program::Input)| {
        let vector = vector(set, &message);
        let vector = vector.map_err(|problem| ProgramError::Input { index, name: message.name.clone(), problem })?;
        Ok(Input { name: message.name, vector })
    };
    let inputs = message.inputs.into_iter().enumerate().map(input).collect::<Result<Vec<_>, _>>()?;
    let values = (0..inputs.len()).map(Value::Vector).collect();
    let mut reader = Reader { set, limits, plan: Plan::new(set, &inputs), values, negated: HashMap::new() };
    for (index, operation) in message.operations.into_iter().enumerate() {
        let kind = operation.kind();
        reader.plan.operation = index;
        let results = reader.operation(kind, operation).map_err(|problem| ProgramError::Operation {
            index,
            kind: kind.as_str_name().to_owned(),
            problem,
        })?;
        reader.values.extend(results);
    }
    let returned = values_returned(&message.outputs, reader.values.len())?;
    if !message.output_lengths.is_empty() {
        return Err(ProgramError::Malformed("arrays of vectors: each vector is returned on its own".to_owned()));
    }
    let output = |(index, value): (usize, usize)| match reader.values[value] {
        Value::Vector(value) => Ok(value),
        Value::Clear(_) => Err(ProgramError::ClearOutput { index }),
    };
    let outputs = returned.into_iter().enumerate().map(output).collect::<Result<_, _>>()?;
    Ok((inputs, reader.plan, outputs))
}

/// Slots, level and scale that an input declares.
fn vector(set: &CkksSet, input: &wire::program::Input) -> Result<Vector, String> {
    if input.r#type() != wire::Type::Vector {
        return Err(format!("under {} values are vectors", set.name));
    }
    let wire::program::Input { degree_max, noise_level_max, bits, fresh, length, slots_log2, level, scale, .. } =
        *input;
    if degree_max != 0 || noise_level_max != 0 || bits != 0 || fresh || length != 0 {
        return Err("vectors have slots, a level and a scale, and nothing else".to_owned());
    }
    let slots_log2_max = set.size_log2 - 1;
    if slots_log2 > slots_log2_max {
        return Err(format!("2^{slots_log2} numbers: {} has vectors of up to 2^{slots_log2_max}", set.name));
    }
    let (level, max) = (level as usize, set.working_level);
    if level > max {
        return Err(format!("level {level}: {} is computed on up to level {max}", set.name));
    }
    let own = scales::own(set);
    let scale = if scale == 0.0 { own } else { scale };
    if !Scales::of(set).bears(scale) {
        return Err(format!("a scale of {scale}: it must be close to the set's own, {own}"));
    }
    Ok(Vector { slots_log2, level, scale })
}

struct Reader<'l> {
    set: &'static CkksSet,
    limits: &'l Limits,
    plan: Plan,
    values: Vec<Value>,
    /// Clear numbers that have been negated, each once.
    negated: HashMap<usize, usize>,
}

impl Reader<'_> {
    /// Plans an operation and returns its values. Most operations return one.
    fn operation(&mut self, kind: Kind, operation: wire::Operation) -> Result<Vec<Value>, String> {
        let there = self.values.len();
        let value = |value: &u32| {
            let found = self.values.get(*value as usize).copied();
            found.ok_or_else(|| format!("argument {value} does not exist here: {there} values come before it"))
        };
        let arguments = operation.arguments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let value = match kind {
            Kind::Constant => {
                none(&arguments)?;
                return Ok(vec![Value::Clear(self.constant(&operation)?)]);
            }
            Kind::Add => {
                let [a, b] = some(&arguments)?;
                self.sum(&[a, b])?
            }
            Kind::Sum => self.sum(&arguments)?,
            Kind::Subtract => match some(&arguments)? {
                [Value::Vector(a), Value::Vector(b)] => self.plan.subtract(a, b)?,
                [Value::Vector(a), Value::Clear(b)] => {
                    let negated = self.negated(b);
                    self.plan.add_clear(a, negated)?
                }
                [Value::Clear(a), Value::Vector(b)] => {
                    let negated = self.plan.negate(b);
                    self.plan.add_clear(negated, a)?
                }
                [Value::Clear(_), Value::Clear(_)] => return Err(ALL_CLEAR.to_owned()),
            },
            Kind::Multiply => match some(&arguments)? {
                [Value::Vector(a), Value::Vector(b)] => self.plan.multiply(a, b)?,
                [Value::Vector(a), Value::Clear(b)] | [Value::Clear(b), Value::Vector(a)] => {
                    self.plan.multiply_clear(a, b)?
                }
                [Value::Clear(_), Value::Clear(_)] => return Err(ALL_CLEAR.to_owned()),
            },
            Kind::Negate => self.plan.negate(only(&arguments)?),
            Kind::Rotate => self.plan.rotate(only(&arguments)?, i64::from(operation.steps)),
            Kind::Conjugate => self.plan.conjugate(only(&arguments)?),
            Kind::Total => self.plan.total(only(&arguments)?),
            Kind::LevelDown => self.plan.lower(only(&arguments)?, operation.level as usize)?,
            Kind::Polynomial | Kind::Chebyshev => {
                let a = only(&arguments)?;
                let coefficients = self.coefficients(&operation)?;
                let coefficients =
                    if kind == Kind::Chebyshev { coefficients } else { chebyshev_of_powers(&coefficients) };
                self.plan.chebyshev(a, coefficients)?
            }
            Kind::Matrix => {
                let a = only(&arguments)?;
                let diagonals = diagonals(&operation, 1 << self.plan.vector(a).slots_log2)?;
                self.plan.transform(a, diagonals)?
            }
            Kind::Bootstrap => {
                let a = only(&arguments)?;
                let shape = self.shape(a, &operation)?;
                self.plan.bootstrap(a, shape, self.limits.matrix_bytes)?
            }
            Kind::BootstrapBoth => {
                let parts = some::<2>(&arguments)?.map(vector_of);
                let [Some(a), Some(b)] = parts else { return Err(ONE_CLEAR.to_owned()) };
                let shape = self.shape(a, &operation)?;
                let results = self.plan.bootstrap_both([a, b], shape, self.limits.matrix_bytes)?;
                return Ok(results.map(Value::Vector).to_vec());
            }
            _ if Kind::try_from(operation.kind).is_err() => {
                return Err("this version knows no such operation".to_owned());
            }
            _ => return Err(format!("no operation on vectors, which {} has", self.set.name)),
        };
        Ok(vec![Value::Vector(value)])
    }

    /// The kind of bootstrap that an operation asks for, on the vector `a`.
    fn shape(&self, a: ValueId, operation: &wire::Operation) -> Result<BootstrapShape, String> {
        let bootstrap = operation.bootstrap.unwrap_or_default();
        let size = match Size::try_from(bootstrap.size) {
            Ok(Size::Small) => KeySize::Small,
            Ok(Size::Medium) => KeySize::Medium,
            Ok(Size::Large) => KeySize::Large,
            Ok(Size::Unspecified) => {
                return Err("it does not say how many keys it takes: small, medium or large".to_owned());
            }
            Err(_) => return Err(format!("a key of size {}: there are small, medium and large ones", bootstrap.size)),
        };
        let kind = match WireKind::try_from(bootstrap.kind) {
            Ok(WireKind::Unspecified) => BootstrapKind::Regular,
            Ok(WireKind::Lossy) => BootstrapKind::Lossy,
            Err(_) => return Err(format!("a bootstrap of kind {}: there are regular and lossy ones", bootstrap.kind)),
        };
        let slots_log2 = self.plan.vector(a).slots_log2;
        Ok(BootstrapShape { slots_log2, stages: bootstrap.stages as usize, size, kind })
    }

    /// The sum of vectors and clear numbers, with at least one vector.
    fn sum(&mut self, arguments: &[Value]) -> Result<ValueId, String> {
        let vectors: Vec<ValueId> = arguments.iter().filter_map(|value| vector_of(*value)).collect();
        if vectors.is_empty() {
            return Err(ALL_CLEAR.to_owned());
        }
        let mut sum = self.plan.add(&vectors)?;
        for argument in arguments {
            if let Value::Clear(clear) = *argument {
                sum = self.plan.add_clear(sum, clear)?;
            }
        }
        Ok(sum)
    }

    fn constant(&mut self, operation: &wire::Operation) -> Result<usize, String> {
        if operation.r#type() != wire::Type::Vector {
            return Err(format!("under {} values are vectors", self.set.name));
        }
        let numbers = numbers::complex(operation)?;
        let max = self.set.slots();
        if !numbers.len().is_power_of_two() || numbers.len() > max {
            return Err(format!(
                "{} numbers: expected one for all places, or a power of two up to {max}",
                numbers.len()
            ));
        }
        Ok(self.plan.push_clear(numbers))
    }

    fn coefficients(&self, operation: &wire::Operation) -> Result<Vec<f64>, String> {
        let coefficients = numbers::real(operation)?;
        match coefficients.len() {
            0 => Err("no coefficients: it takes at least one".to_owned()),
            len if len > self.limits.degree + 1 => {
                Err(format!("a degree of {}: at most {}", len - 1, self.limits.degree))
            }
            _ => Ok(coefficients),
        }
    }

    fn negated(&mut self, clear: usize) -> usize {
        let plan = &mut self.plan;
        *self.negated.entry(clear).or_insert_with(|| {
            let negated = plan.clear.vectors[clear].iter().map(|[re, im]| [-re, -im]).collect();
            plan.push_clear(negated)
        })
    }
}

fn diagonals(operation: &wire::Operation, size: usize) -> Result<Vec<Diagonal>, String> {
    let (numbers, offsets) = (numbers::complex(operation)?, &operation.offsets);
    if offsets.is_empty() || numbers.len() != offsets.len().saturating_mul(size) {
        let (got, count) = (numbers.len(), offsets.len());
        return Err(format!("{got} numbers for {count} diagonals: each has {size}, and there is one at least"));
    }
    let mut diagonals = std::collections::BTreeMap::new();
    for (offset, diagonal) in offsets.iter().map(|offset| *offset as usize).zip(numbers.chunks(size)) {
        if offset >= size {
            return Err(format!("a diagonal {offset}: a matrix of {size} rows has those below {size}"));
        }
        if diagonals.insert(offset, diagonal.to_vec()).is_some() {
            return Err(format!("diagonal {offset} twice"));
        }
    }
    Ok(diagonals.into_iter().map(|(offset, numbers)| Diagonal { offset, numbers }).collect())
}

fn vector_of(value: Value) -> Option<ValueId> {
    match value {
        Value::Vector(value) => Some(value),
        Value::Clear(_) => None,
    }
}

fn none(arguments: &[Value]) -> Result<(), String> {
    some::<0>(arguments).map(|_| ())
}

/// The only argument, which must be encrypted.
fn only(arguments: &[Value]) -> Result<ValueId, String> {
    let [argument] = some(arguments)?;
    vector_of(argument).ok_or_else(|| ALL_CLEAR.to_owned())
}

fn some<const COUNT: usize>(arguments: &[Value]) -> Result<[Value; COUNT], String> {
    arguments.try_into().map_err(|_| format!("{} arguments: it takes {COUNT}", arguments.len()))
}

const ALL_CLEAR: &str = "no argument is encrypted: compute on clear numbers in the client";

const ONE_CLEAR: &str = "an argument is clear: a bootstrap takes encrypted vectors";
