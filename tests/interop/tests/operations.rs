//! Results of operations on integers: tfhe-rs and our graphs compute the same values, edge cases
//! included.
//!
//! Only one pair of each operation is really encrypted in tfhe-rs. The other inputs are its trivial
//! ciphertexts: they run the same algorithms without masks, fast enough for all edge cases.

use crate::common::CLASSICAL_2_2;
use cloakwork_circuit::{
    Goal, LIMITS, Program, Type,
    wire::{self, operation::Kind},
};
use prost::Message as _;
use tfhe::{
    ClientKey, ConfigBuilder, FheBool, FheInt8, FheUint8, FheUint32, MatchValues, generate_keys, prelude::*,
    set_server_key,
};

/// Zero, one, the largest value, the least signed value, changes of sign, and shifts by the width
/// and beyond it.
const EDGES: [u8; 10] = [201, 0, 1, 2, 7, 8, 100, 127, 128, 255];

/// Evaluates an operation on two numbers with our lowering for either goal. The result is returned
/// as bits without a sign.
fn ours(ty: Type, kind: Kind, by: Type, values: &[u8]) -> u64 {
    let input = |(index, ty): (usize, Type)| {
        let (r#type, bits) = ty.wire();
        wire::program::Input {
            name: format!("x{index}"),
            r#type: r#type.into(),
            bits,
            fresh: true,
            ..Default::default()
        }
    };
    let types = (0..values.len()).map(|index| match (kind, index) {
        (Kind::Mux, 0) => Type::Bool,
        (_, 1) => by,
        _ => ty,
    });
    let arguments = (0..values.len() as u32).collect();
    let message = wire::Program {
        parameter_set: CLASSICAL_2_2.to_owned(),
        inputs: types.clone().enumerate().map(input).collect(),
        operations: vec![wire::Operation { kind: kind.into(), arguments, ..Default::default() }],
        outputs: vec![values.len() as u32],
        ..Default::default()
    };
    let program = Program::decode(&message.encode_to_vec(), &LIMITS).unwrap();
    let step = program.set().plaintext_step();
    let digits = |(value, ty): (&u8, Type)| {
        (0..ty.blocks()).map(|place| u64::from(value >> (2 * place) & 3) * step).collect::<Vec<_>>()
    };
    let phases: Vec<u64> = values.iter().zip(types).flat_map(digits).collect();
    let results = [Goal::Work, Goal::Depth].map(|goal| {
        let outputs = program.lower(goal).evaluate(&phases).unwrap();
        outputs.iter().rev().fold(0, |number, phase| (number << 2) | (phase / step))
    });
    assert_eq!(results[0], results[1], "{kind:?} of {values:?}");
    results[0]
}

/// A ciphertext of tfhe-rs, really encrypted if there is a key.
fn unsigned(value: u8, key: Option<&ClientKey>) -> FheUint8 {
    key.map_or_else(|| FheUint8::encrypt_trivial(value), |key| FheUint8::encrypt(value, key))
}

fn signed(value: u8, key: Option<&ClientKey>) -> FheInt8 {
    key.map_or_else(|| FheInt8::encrypt_trivial(value as i8), |key| FheInt8::encrypt(value as i8, key))
}

fn bit(value: &FheBool, key: &ClientKey) -> u64 {
    u64::from(value.decrypt(key))
}

fn count(value: &FheUint32, key: &ClientKey) -> u64 {
    let count: u32 = value.decrypt(key);
    count.into()
}

/// Results of tfhe-rs for two numbers, operation by operation.
macro_rules! theirs {
    ($encrypt:ident, $clear:ty, $x:expr, $y:expr, $key:expr, $real:expr) => {{
        let (x, y) = ($encrypt($x, $real), $encrypt($y, $real));
        let by = unsigned($y, $real);
        let number = |value: &_| {
            let value: $clear = FheDecrypt::<$clear>::decrypt(value, $key);
            u64::from(value as u8)
        };
        let overflows = [(&x).overflowing_add(&y).1, (&x).overflowing_sub(&y).1, (&x).overflowing_mul(&y).1];
        vec![
            (Kind::Add, number(&(&x + &y))),
            (Kind::Subtract, number(&(&x - &y))),
            (Kind::Multiply, number(&(&x * &y))),
            (Kind::Divide, number(&(&x / &y))),
            (Kind::Remainder, number(&(&x % &y))),
            (Kind::And, number(&(&x & &y))),
            (Kind::Or, number(&(&x | &y))),
            (Kind::Xor, number(&(&x ^ &y))),
            (Kind::Min, number(&x.min(&y))),
            (Kind::Max, number(&x.max(&y))),
            (Kind::Equal, bit(&x.eq(&y), $key)),
            (Kind::NotEqual, bit(&x.ne(&y), $key)),
            (Kind::Less, bit(&x.lt(&y), $key)),
            (Kind::LessOrEqual, bit(&x.le(&y), $key)),
            (Kind::Greater, bit(&x.gt(&y), $key)),
            (Kind::GreaterOrEqual, bit(&x.ge(&y), $key)),
            (Kind::AddOverflows, bit(&overflows[0], $key)),
            (Kind::SubtractOverflows, bit(&overflows[1], $key)),
            (Kind::MultiplyOverflows, bit(&overflows[2], $key)),
            (Kind::ShiftLeft, number(&(&x << &by))),
            (Kind::ShiftRight, number(&(&x >> &by))),
            (Kind::RotateLeft, number(&(&x).rotate_left(&by))),
            (Kind::RotateRight, number(&(&x).rotate_right(&by))),
            (Kind::Negate, number(&-&x)),
            (Kind::Not, number(&!&x)),
            (Kind::ReverseBits, number(&x.reverse_bits())),
            (Kind::CountOnes, count(&x.count_ones(), $key)),
            (Kind::CountZeros, count(&x.count_zeros(), $key)),
            (Kind::LeadingOnes, count(&x.leading_ones(), $key)),
            (Kind::LeadingZeros, count(&x.leading_zeros(), $key)),
            (Kind::TrailingOnes, count(&x.trailing_ones(), $key)),
            (Kind::TrailingZeros, count(&x.trailing_zeros(), $key)),
        ]
    }};
}

#[test]
fn results_of_operations_on_two_numbers_equal_those_of_tfhe_rs() {
    let (key, server) = generate_keys(ConfigBuilder::default().build());
    set_server_key(server);
    let pairs = EDGES.iter().flat_map(|x| EDGES.iter().map(move |y| (*x, *y)));
    for (index, (x, y)) in pairs.enumerate() {
        // Only one pair is really encrypted: the first edge, 201, with 127.
        let real = (index == EDGES.len() - 3).then_some(&key);
        for (ty, results) in [
            (Type::Uint(8), theirs!(unsigned, u8, x, y, &key, real)),
            (Type::Int(8), theirs!(signed, i8, x, y, &key, real)),
        ] {
            for (kind, expected) in results {
                let is_shift =
                    matches!(kind, Kind::ShiftLeft | Kind::ShiftRight | Kind::RotateLeft | Kind::RotateRight);
                let by = if is_shift { Type::Uint(8) } else { ty };
                let values = if is_of_one(kind) { &[x][..] } else { &[x, y] };
                assert_eq!(ours(ty, kind, by, values), expected, "{kind:?} of {x} and {y}, {ty}");
            }
        }
    }
}

fn is_of_one(kind: Kind) -> bool {
    use Kind::{
        Absolute, CountOnes, CountZeros, LeadingOnes, LeadingZeros, Negate, Not, ReverseBits, TrailingOnes,
        TrailingZeros,
    };
    matches!(
        kind,
        Absolute
            | CountOnes
            | CountZeros
            | LeadingOnes
            | LeadingZeros
            | Negate
            | Not
            | ReverseBits
            | TrailingOnes
            | TrailingZeros
    )
}

#[test]
fn results_of_operations_on_one_three_or_more_numbers_equal_those_of_tfhe_rs() {
    let (key, server) = generate_keys(ConfigBuilder::default().build());
    set_server_key(server);
    for (index, x) in EDGES.into_iter().enumerate() {
        let real = (index == 0).then_some(&key);
        let magnitude: i8 = signed(x, real).abs().decrypt(&key);
        assert_eq!(ours(Type::Int(8), Kind::Absolute, Type::Int(8), &[x]), u64::from(magnitude as u8), "of {x}");

        let (y, z) = (x.wrapping_mul(5).wrapping_add(3), x ^ 0x5a);
        let numbers = [x, y, z, x].map(|value| unsigned(value, real));
        let sum: u8 = numbers.iter().sum::<FheUint8>().decrypt(&key);
        assert_eq!(ours(Type::Uint(8), Kind::Sum, Type::Uint(8), &[x, y, z, x]), sum.into(), "of {x}");
        for condition in [false, true] {
            let chosen = FheBool::encrypt_trivial(condition).select(&numbers[1], &numbers[2]);
            let chosen: u8 = chosen.decrypt(&key);
            let values = [condition.into(), y, z];
            assert_eq!(ours(Type::Uint(8), Kind::Mux, Type::Uint(8), &values), chosen.into(), "of {x}");
        }
        for value in [x, 99] {
            let contains = FheUint8::contains(&numbers[1..], &unsigned(value, real));
            let values = [value, y, z, x];
            let one_of = ours(Type::Uint(8), Kind::IsOneOf, Type::Uint(8), &values);
            assert_eq!(one_of, bit(&contains, &key), "{value} among {values:?}");
        }
        // Our operation accepts encrypted keys and results. Keys and results of tfhe-rs are in the
        // clear.
        let cases = MatchValues::new(vec![(y, 7_u8), (z, 200)]).unwrap();
        let (matched, is_any): (FheUint8, FheBool) = numbers[2].match_value(&cases).unwrap();
        let (matched, is_any): (u8, bool) = (matched.decrypt(&key), is_any.decrypt(&key));
        assert!(is_any);
        let choice = ours(Type::Uint(8), Kind::Match, Type::Uint(8), &[z, y, 7, z, 200, 1]);
        assert_eq!(choice, matched.into(), "of {x}");
    }
}
