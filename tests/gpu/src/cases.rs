//! The timed programs, and their meaning in the clear.

use bytes::Bytes;
use cloakwork_circuit::{
    Type,
    wire::{self, operation::Kind},
};
use prost::Message as _;

/// A program of one row, as data. Values are numbered as in a message: inputs, constants, results.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Types of the inputs, which are encrypted just before a job.
    pub(crate) inputs: &'static [Type],
    /// Values of the inputs. If empty, the values are pseudorandom.
    pub(crate) fixed: &'static [u128],
    /// Constants in the clear, of the first input's type.
    constants: &'static [u128],
    operations: &'static [(Kind, &'static [u32])],
    outputs: &'static [u32],
    /// The function of the program in the clear.
    pub(crate) clear: fn(&[u128]) -> Vec<u128>,
}

const U64: Type = Type::Uint(64);

/// A program of one operation on numbers of 64 bits.
const fn of_u64(name: &'static str, kind: &'static [(Kind, &'static [u32])], clear: fn(&[u128]) -> Vec<u128>) -> Case {
    Case { name, inputs: &[U64, U64], fixed: &[], constants: &[], operations: kind, outputs: &[2], clear }
}

/// All timed programs, the shortest first.
pub(crate) const CASES: [Case; 6] = [
    Case {
        inputs: &[Type::Bool, U64, U64],
        outputs: &[3],
        ..of_u64("u64 select(c, x, y)", &[(Kind::Mux, &[0, 1, 2])], |x| vec![if x[0] == 1 { x[1] } else { x[2] }])
    },
    of_u64("u64 x > y", &[(Kind::Greater, &[0, 1])], |x| vec![u128::from(x[0] > x[1])]),
    of_u64("u64 x + y", &[(Kind::Add, &[0, 1])], |x| vec![u128::from((x[0] as u64).wrapping_add(x[1] as u64))]),
    of_u64("u64 x * y", &[(Kind::Multiply, &[0, 1])], |x| vec![u128::from((x[0] as u64).wrapping_mul(x[1] as u64))]),
    Case {
        name: "AES-128 of two blocks",
        inputs: &[Type::Uint(128)],
        fixed: &[CIPHER_KEY],
        constants: &CIPHER_BLOCKS,
        operations: &[(Kind::Aes128Encrypt, &[0, 1]), (Kind::Aes128Encrypt, &[0, 2])],
        outputs: &[3, 4],
        clear: |_| CIPHERTEXTS.to_vec(),
    },
    of_u64("u64 x / y", &[(Kind::Divide, &[0, 1])], |x| vec![x[0].checked_div(x[1]).unwrap_or(u64::MAX.into())]),
];

/// Key, blocks and ciphertexts of NIST SP 800-38A, F.1.1.
const CIPHER_KEY: u128 = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c;
const CIPHER_BLOCKS: [u128; 2] = [0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a, 0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51];
const CIPHERTEXTS: [u128; 2] = [0x3ad7_7bb4_0d7a_3660_a89e_caf3_2466_ef97, 0xf5d3_d585_03b9_699d_e785_895a_96fd_baaf];

impl Case {
    /// The program as a message.
    pub(crate) fn program(&self, set: &str) -> Bytes {
        let input = |(index, ty): (usize, &Type)| {
            let (r#type, bits) = ty.wire();
            let name = format!("x{index}");
            wire::program::Input { name, r#type: r#type.into(), bits, fresh: true, ..Default::default() }
        };
        let (r#type, bits) = self.inputs[0].wire();
        let constant = |value: &u128| wire::Operation {
            kind: Kind::Constant.into(),
            r#type: r#type.into(),
            bits,
            value: value.to_le_bytes().to_vec(),
            ..Default::default()
        };
        let operation = |(kind, arguments): &(Kind, &[u32])| wire::Operation {
            kind: (*kind).into(),
            arguments: arguments.to_vec(),
            ..Default::default()
        };
        let program = wire::Program {
            parameter_set: set.to_owned(),
            inputs: self.inputs.iter().enumerate().map(input).collect(),
            operations: self.constants.iter().map(constant).chain(self.operations.iter().map(operation)).collect(),
            outputs: self.outputs.to_vec(),
            ..Default::default()
        };
        program.encode_to_vec().into()
    }
}

/// Messages of the blocks of a value.
pub(crate) fn digits(value: u128, ty: Type) -> Vec<u64> {
    (0..ty.blocks()).map(|place| (value >> (2 * place)) as u64 & largest_digit(ty)).collect()
}

/// The value of blocks with these messages.
pub(crate) fn value(digits: &[u64]) -> u128 {
    digits.iter().rev().fold(0, |value, digit| value << 2 | u128::from(*digit))
}

/// Largest message of a block.
pub(crate) fn largest_digit(ty: Type) -> u64 {
    if ty == Type::Bool { 1 } else { 3 }
}

#[cfg(test)]
mod tests {
    use cloakwork_circuit::{Goal, LIMITS, Program};

    use super::*;

    #[test]
    fn programs_and_their_clear_functions_agree() {
        let numbers: [u128; 3] = [1, 0xfedc_ba98_7654_3210, 0x0123_4567_89ab_cdef];
        for case in &CASES {
            let program = Program::decode(&case.program("TOY_MESSAGE_2_CARRY_2"), &LIMITS).expect("a program");
            let graph = program.lower(Goal::Depth);
            let inputs: &[u128] = match case.fixed {
                [] => &numbers[3 - case.inputs.len()..],
                fixed => fixed,
            };
            let step = graph.set.plaintext_step();
            let blocks = inputs.iter().zip(case.inputs).flat_map(|(value, ty)| digits(*value, *ty));
            let phases: Vec<u64> = blocks.map(|digit| digit * step).collect();
            let results = graph.evaluate(&phases).expect("entries for everything");
            let mut results = results.iter().map(|phase| phase / step);
            for (blocks, expected) in graph.outputs.iter().zip((case.clear)(inputs)) {
                let digits: Vec<u64> = results.by_ref().take(blocks.len()).collect();
                assert_eq!(value(&digits), expected, "{}", case.name);
            }
        }
    }
}
