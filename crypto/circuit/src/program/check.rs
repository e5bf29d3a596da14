//! Checks types, degrees and noise of all values, from the inputs to the outputs.

use cloakwork_params::{Encoding, ParameterSet};

use super::{Input, Operation, Program, ProgramId, Returned, RowType, Type, ValueInfo, signature};
use crate::{
    ProgramError, ValueId,
    wire::{self, operation::Kind},
};

/// Checks a decoded message from front to back.
pub(super) fn program(
    id: ProgramId,
    set: &'static ParameterSet,
    message: wire::Program,
) -> Result<Program, ProgramError> {
    let rules = Rules::of(set);
    let mut inputs = Vec::with_capacity(message.inputs.len());
    let mut values = Vec::with_capacity(message.inputs.len() + message.operations.len());
    for (index, input) in message.inputs.into_iter().enumerate() {
        let input = rules.input(index, input)?;
        let element = ValueInfo {
            ty: input.row.ty,
            degree: u64::from(input.degree_max),
            noise_level: u64::from(input.noise_level_max),
        };
        values.extend(std::iter::repeat_n(element, input.row.values()));
        inputs.push(input);
    }
    let mut operations = Vec::with_capacity(message.operations.len());
    for (index, operation) in message.operations.into_iter().enumerate() {
        let kind = operation.kind();
        let (operation, results) = rules.operation(operation, &values).map_err(|problem| ProgramError::Operation {
            index,
            kind: kind.as_str_name().to_owned(),
            problem,
        })?;
        values.extend(results);
        operations.push(operation);
    }
    let outputs = outputs(&message.outputs, &message.output_lengths, &values)?;
    Ok(Program { id, set, inputs, operations, values, outputs })
}

fn outputs(outputs: &[u32], lengths: &[u32], values: &[ValueInfo]) -> Result<Vec<Returned>, ProgramError> {
    let outputs = values_returned(outputs, values.len())?;
    if lengths.is_empty() {
        let alone = |&value: &ValueId| Returned { row: RowType::new(values[value].ty, 0), values: vec![value] };
        return Ok(outputs.iter().map(alone).collect());
    }
    let expected = lengths.iter().map(|length| u64::from(*length).max(1)).sum();
    if expected != outputs.len() as u64 {
        return Err(ProgramError::OutputLengths { expected, got: outputs.len() });
    }
    let mut rest = &outputs[..];
    let mut returned = Vec::with_capacity(lengths.len());
    for (index, &length) in lengths.iter().enumerate() {
        let own = rest.split_off(..length.max(1) as usize).unwrap_or_default();
        let ty = values[own[0]].ty;
        if let Some(other) = own.iter().map(|value| values[*value].ty).find(|other| *other != ty) {
            return Err(ProgramError::MixedOutput { index, first: ty, other });
        }
        returned.push(Returned { row: RowType::new(ty, length), values: own.to_vec() });
    }
    Ok(returned)
}

/// Checks that each output names one of the `values` values.
pub(crate) fn values_returned(outputs: &[u32], values: usize) -> Result<Vec<ValueId>, ProgramError> {
    if outputs.is_empty() {
        return Err(ProgramError::NoOutputs);
    }
    let check = |(index, &value): (usize, &u32)| {
        if (value as usize) < values {
            Ok(value as usize)
        } else {
            Err(ProgramError::OutputOutOfRange { index, value, values })
        }
    };
    outputs.iter().enumerate().map(check).collect()
}

/// Rules of a parameter set.
struct Rules {
    is_boolean: bool,
    /// Number of messages; 2 in boolean sets.
    messages: u64,
    /// Number of values of a block: messages times carries.
    values: u64,
    noise_level_max: u64,
}

/// Noise level of a bootstrap's result.
const NOISE_LEVEL_OF_BOOTSTRAP: u64 = 1;

impl Rules {
    fn of(set: &ParameterSet) -> Self {
        match set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } => Self {
                is_boolean: false,
                messages: message_modulus,
                values: message_modulus * carry_modulus,
                noise_level_max: max_noise_level,
            },
            Encoding::Boolean => {
                Self { is_boolean: true, messages: 2, values: 2, noise_level_max: NOISE_LEVEL_OF_BOOTSTRAP }
            }
        }
    }

    fn input(&self, index: usize, input: wire::program::Input) -> Result<Input, ProgramError> {
        let ty = Type::read(input.r#type(), input.bits).and_then(|ty| self.serves(ty));
        self.input_of(ty, &input).map_err(|problem| ProgramError::Input { index, name: input.name, problem })
    }

    fn input_of(&self, ty: Result<Type, String>, input: &wire::program::Input) -> Result<Input, String> {
        let ty = ty?;
        if ty != Type::Block && input.degree_max != 0 {
            return Err(format!("a largest value of blocks: the input is no block, but {ty}"));
        }
        if u64::from(input.degree_max) >= self.values {
            return Err(format!("a largest value of {}: blocks hold 0 to {}", input.degree_max, self.values - 1));
        }
        if u64::from(input.noise_level_max) > self.noise_level_max {
            return Err(format!("a noise level of {}: the set bears {}", input.noise_level_max, self.noise_level_max));
        }
        let or = |given: u32, default: u64| if given == 0 { default as u32 } else { given };
        let largest = if ty == Type::Bool { 1 } else { self.messages - 1 };
        Ok(Input {
            name: input.name.clone(),
            row: RowType::new(ty, input.length),
            degree_max: or(input.degree_max, largest),
            noise_level_max: or(input.noise_level_max, NOISE_LEVEL_OF_BOOTSTRAP),
            is_fresh: input.fresh,
        })
    }

    /// The type, if the set supports values of it.
    fn serves(&self, ty: Type) -> Result<Type, String> {
        let digits = self.messages == 4 && self.values == 16;
        match ty {
            Type::Bool if self.is_boolean || digits => Ok(ty),
            Type::Uint(_) | Type::Int(_) if digits => Ok(ty),
            Type::Block if !self.is_boolean => Ok(ty),
            _ if self.is_boolean => Err(format!("a boolean parameter set has values of type bool, not {ty}")),
            _ => {
                Err(format!("values of type {ty}: only sets of two message and two carry bits have them, not this one"))
            }
        }
    }

    /// The checked operation and its results.
    fn operation(
        &self,
        operation: wire::Operation,
        values: &[ValueInfo],
    ) -> Result<(Operation, Vec<ValueInfo>), String> {
        let kind = operation.kind();
        let arguments: Vec<usize> = operation.arguments.iter().map(|&value| value as usize).collect();
        if let Some(value) = arguments.iter().find(|value| **value >= values.len()) {
            return Err(format!("argument {value} does not exist here: {} values come before it", values.len()));
        }
        let infos: Vec<ValueInfo> = arguments.iter().map(|&value| values[value]).collect();
        let types: Vec<Type> = infos.iter().map(|info| info.ty).collect();
        let result = |ty, degree| ValueInfo { ty, degree, noise_level: NOISE_LEVEL_OF_BOOTSTRAP };
        if let Some(arity) = lookup_arity(kind) {
            if arguments.len() != arity {
                return Err(format!("{} arguments: it takes {arity}", arguments.len()));
            }
            if let Some(ty) = types.iter().find(|ty| **ty != Type::Block) {
                return Err(format!("it takes blocks, not {ty}"));
            }
            let tables = self.tables(kind, operation.tables)?;
            self.arguments(kind, &infos, tables.len())?;
            let degree = |table: &Vec<u64>| table.iter().copied().max().unwrap_or(0);
            let results = tables.iter().map(|table| result(Type::Block, degree(table))).collect();
            return Ok((Operation { kind, arguments, tables, value: Vec::new() }, results));
        }
        if !operation.tables.is_empty() {
            return Err(format!("{} tables: it takes none", operation.tables.len()));
        }
        if self.is_boolean && !is_gate(kind) {
            return Err("boolean parameter sets have gates and no other operations".to_owned());
        }
        let stated = Type::read(operation.r#type(), operation.bits).and_then(|ty| self.serves(ty));
        let ty = signature::result(kind, &types, stated)?;
        if operation.value.len() > ty.blocks().div_ceil(4) {
            return Err(format!("a value of {} bytes: {ty} has {}", operation.value.len(), ty.blocks().div_ceil(4)));
        }
        Ok((Operation { kind, arguments, tables: Vec::new(), value: operation.value }, vec![result(ty, 1)]))
    }

    /// The tables, padded with zeros to the number of entries that the operation reads.
    fn tables(&self, kind: Kind, tables: Vec<wire::Table>) -> Result<Vec<Vec<u64>>, String> {
        let (least, most) = match kind {
            Kind::Lookup | Kind::LookupBivariate => (1, 1),
            _ => (2, (self.values / 2) as usize),
        };
        if !(least..=most).contains(&tables.len()) {
            return Err(format!("{} tables: it takes {least} to {most}", tables.len()));
        }
        let entries_max = self.values as usize / tables.len().max(1);
        let pad = |(index, table): (usize, wire::Table)| {
            if table.entries.len() > entries_max {
                return Err(format!("table {index} has {} entries: at most {entries_max}", table.entries.len()));
            }
            if let Some(entry) = table.entries.iter().find(|entry| u64::from(**entry) >= self.values) {
                return Err(format!("table {index} holds {entry}: blocks hold 0 to {}", self.values - 1));
            }
            let mut entries: Vec<u64> = table.entries.into_iter().map(u64::from).collect();
            entries.resize(entries_max, 0);
            Ok(entries)
        };
        tables.into_iter().enumerate().map(pad).collect()
    }

    /// Checks that the operation's linear combination stays within the degree and noise of the set.
    fn arguments(&self, kind: Kind, arguments: &[ValueInfo], tables: usize) -> Result<(), String> {
        match (kind, arguments) {
            (Kind::LookupBivariate, [left, right]) => {
                if right.degree >= self.messages {
                    return Err(format!(
                        "the second argument can be {}: it must stay below {}",
                        right.degree, self.messages
                    ));
                }
                let (degree, max) = (left.degree * self.messages + right.degree, self.values - 1);
                if degree > max {
                    return Err(format!("both arguments together can reach {degree}: a block holds 0 to {max}"));
                }
                let noise = left.noise_level * self.messages + right.noise_level;
                if noise > self.noise_level_max {
                    return Err(format!(
                        "both arguments together have a noise level of {noise}: the set bears {}",
                        self.noise_level_max
                    ));
                }
            }
            (Kind::LookupMany, [argument]) => {
                let inputs = self.values / tables as u64;
                if argument.degree >= inputs {
                    return Err(format!(
                        "its argument can be {}: with {tables} tables it must stay below {inputs}",
                        argument.degree
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Number of arguments of a lookup, or `None` for other operations.
fn lookup_arity(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Lookup | Kind::LookupMany => Some(1),
        Kind::LookupBivariate => Some(2),
        _ => None,
    }
}

fn is_gate(kind: Kind) -> bool {
    use Kind::{And, Mux, Nand, Nor, Not, Or, Xnor, Xor};
    matches!(kind, Not | And | Nand | Nor | Or | Xnor | Xor | Mux)
}
