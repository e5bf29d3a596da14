//! Types, degrees and noise of every value, from the inputs to the outputs.

use cloakwork_params::{Encoding, ParameterSet};

use super::{Input, Operation, Program, ProgramId, Type, ValueInfo};
use crate::{
    ProgramError,
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
        values.push(ValueInfo {
            ty: input.ty,
            degree: u64::from(input.degree_max),
            noise_level: u64::from(input.noise_level_max),
        });
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
    let outputs = outputs(&message.outputs, values.len())?;
    Ok(Program { id, set, inputs, operations, values, outputs })
}

fn outputs(outputs: &[u32], values: usize) -> Result<Vec<usize>, ProgramError> {
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

/// What a parameter set allows.
struct Rules {
    ty: Type,
    /// Number of messages; 2 in boolean sets.
    messages: u64,
    /// Number of values of a block: messages times carries.
    values: u64,
    noise_level_max: u64,
}

/// Noise level of what a bootstrap returns.
const FRESH: u64 = 1;

impl Rules {
    fn of(set: &ParameterSet) -> Self {
        match set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } => Self {
                ty: Type::Block,
                messages: message_modulus,
                values: message_modulus * carry_modulus,
                noise_level_max: max_noise_level,
            },
            Encoding::Boolean => Self { ty: Type::Bool, messages: 2, values: 2, noise_level_max: FRESH },
        }
    }

    fn input(&self, index: usize, input: wire::program::Input) -> Result<Input, ProgramError> {
        let ty = match input.r#type() {
            wire::Type::Block => Some(Type::Block),
            wire::Type::Bool => Some(Type::Bool),
            wire::Type::Unspecified => None,
        };
        let problem = if ty != Some(self.ty) {
            Some(format!("the parameter set has inputs of type {:?}, not {}", self.ty, input.r#type().as_str_name()))
        } else if u64::from(input.degree_max) >= self.values {
            Some(format!("a largest value of {}: blocks hold 0 to {}", input.degree_max, self.values - 1))
        } else if u64::from(input.noise_level_max) > self.noise_level_max {
            Some(format!("a noise level of {}: the set bears {}", input.noise_level_max, self.noise_level_max))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(ProgramError::Input { index, name: input.name, problem });
        }
        let or = |given: u32, default: u64| if given == 0 { default as u32 } else { given };
        Ok(Input {
            ty: self.ty,
            degree_max: or(input.degree_max, self.messages - 1),
            noise_level_max: or(input.noise_level_max, FRESH),
            name: input.name,
        })
    }

    /// The checked operation and its results.
    fn operation(
        &self,
        operation: wire::Operation,
        values: &[ValueInfo],
    ) -> Result<(Operation, Vec<ValueInfo>), String> {
        let kind = operation.kind();
        let (ty, arity) = signature(kind).ok_or("no such operation, or none that this version knows")?;
        if ty != self.ty {
            return Err(format!("it takes values of type {ty:?}; the parameter set has {:?}", self.ty));
        }
        if operation.arguments.len() != arity {
            return Err(format!("{} arguments: it takes {arity}", operation.arguments.len()));
        }
        let arguments: Vec<usize> = operation.arguments.iter().map(|&value| value as usize).collect();
        if let Some(value) = arguments.iter().find(|value| **value >= values.len()) {
            return Err(format!("argument {value} does not exist here: {} values come before it", values.len()));
        }
        let tables = self.tables(kind, operation.tables)?;
        let infos: Vec<ValueInfo> = arguments.iter().map(|&value| values[value]).collect();
        self.arguments(kind, &infos, tables.len())?;
        let bit = ValueInfo { ty, degree: 1, noise_level: FRESH };
        let results = match ty {
            Type::Bool => vec![bit],
            Type::Block => tables
                .iter()
                .map(|table| ValueInfo { ty, degree: table.iter().copied().max().unwrap_or(0), noise_level: FRESH })
                .collect(),
        };
        Ok((Operation { kind, arguments, tables }, results))
    }

    /// The tables with as many entries as their operation reads.
    fn tables(&self, kind: Kind, tables: Vec<wire::Table>) -> Result<Vec<Vec<u64>>, String> {
        let (least, most) = match kind {
            Kind::Lookup | Kind::LookupBivariate => (1, 1),
            Kind::LookupMany => (2, (self.values / 2) as usize),
            _ => (0, 0),
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

    /// Degrees and noise that the operation's linear combination must stay within.
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

/// Type and number of an operation's arguments.
fn signature(kind: Kind) -> Option<(Type, usize)> {
    Some(match kind {
        Kind::Unspecified => return None,
        Kind::Lookup | Kind::LookupMany => (Type::Block, 1),
        Kind::LookupBivariate => (Type::Block, 2),
        Kind::Not => (Type::Bool, 1),
        Kind::And | Kind::Nand | Kind::Nor | Kind::Or | Kind::Xnor | Kind::Xor => (Type::Bool, 2),
        Kind::Mux => (Type::Bool, 3),
    })
}
