//! Counts the kinds of bootstraps that a message asks for, before the program is planned.

use std::collections::HashSet;

use prost::Message;

use crate::wire;

/// The fields of a message that determine kinds of bootstraps. Decoding skips all other fields.
#[derive(Clone, PartialEq, Message)]
struct Asked {
    #[prost(message, repeated, tag = "2")]
    inputs: Vec<Input>,
    #[prost(message, repeated, tag = "3")]
    operations: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Input {
    #[prost(uint32, tag = "8")]
    slots_log2: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(message, optional, tag = "12")]
    bootstrap: Option<wire::operation::Bootstrap>,
}

/// An upper bound of the kinds of bootstraps that planning a program computes. Each kind takes far
/// longer than reading the 15 bytes that ask for it, and is computed once.
///
/// Bytes that are no message ask for no bootstrap: they are refused before planning begins.
pub fn bootstrap_kinds_max(bytes: &[u8]) -> usize {
    let Ok(Asked { inputs, operations }) = Asked::decode(bytes) else { return 0 };
    // No operation changes the number of slots of a vector.
    let slots: HashSet<u32> = inputs.iter().map(|input| input.slots_log2).collect();
    let bootstraps: HashSet<_> = operations.iter().filter_map(|operation| operation.bootstrap).collect();
    slots.len() * bootstraps.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ckks::{Action, BootstrapShape, LIMITS, Program},
        wire::operation::{
            Bootstrap, Kind,
            bootstrap::{Kind as BootstrapKind, Size},
        },
    };

    fn input(slots_log2: u32) -> wire::program::Input {
        wire::program::Input {
            name: "x".to_owned(),
            r#type: wire::Type::Vector.into(),
            slots_log2,
            level: 5,
            ..Default::default()
        }
    }

    fn bootstrap(value: u32, bootstrap: Bootstrap) -> wire::Operation {
        let (kind, bootstrap) = (Kind::Bootstrap.into(), Some(bootstrap));
        wire::Operation { kind, arguments: vec![value], bootstrap, ..Default::default() }
    }

    /// A program with every kind of bootstrap for vectors of these sizes, each twice.
    fn message(slots: std::ops::RangeInclusive<u32>) -> wire::Program {
        let inputs: Vec<_> = slots.clone().map(input).collect();
        let mut operations = Vec::new();
        for (value, slots_log2) in slots.enumerate() {
            for stages in 1..=slots_log2.min(5) {
                for size in [Size::Small, Size::Medium, Size::Large] {
                    for kind in [BootstrapKind::Unspecified, BootstrapKind::Lossy] {
                        let kind = Bootstrap { stages, size: size.into(), kind: kind.into() };
                        operations.extend([(); 2].map(|()| bootstrap(value as u32, kind)));
                    }
                }
            }
        }
        let values = (inputs.len() + operations.len()) as u32;
        let outputs = (values.saturating_sub(200)..values).collect();
        wire::Program {
            parameter_set: "TOY_CKKS_45_60_50".to_owned(),
            inputs,
            operations,
            outputs,
            ..Default::default()
        }
    }

    #[test]
    fn the_count_bounds_the_kinds_that_are_planned() {
        for (slots, kinds) in [(3..=3, 18), (5..=5, 30), (1..=9, 6 * (1 + 2 + 3 + 4 + 5 * 5))] {
            let message = message(slots);
            let bytes = message.encode_to_vec();
            let program = Program::decode(&bytes, &LIMITS).expect("a program");
            let planned: HashSet<BootstrapShape> = program
                .steps()
                .iter()
                .filter_map(|step| if let Action::Bootstrap(_, shape) = step.action { Some(shape) } else { None })
                .collect();
            let told = bootstrap_kinds_max(&bytes);
            assert!(planned.len() <= told && kinds <= told, "{} planned, {told} told", planned.len());
            if message.inputs.len() == 1 {
                assert_eq!((planned.len(), told), (kinds, kinds));
            }
        }
    }

    #[test]
    fn a_message_without_bootstraps_has_no_kinds() {
        let without = wire::Program { operations: Vec::new(), ..message(3..=3) };
        assert_eq!(bootstrap_kinds_max(&without.encode_to_vec()), 0);
        assert_eq!(bootstrap_kinds_max(&[0xff; 9]), 0);
    }
}
