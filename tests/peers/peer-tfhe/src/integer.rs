//! Integers of many blocks in tfhe-rs. Each operation uses all cores.

use std::collections::HashMap;

use rayon::prelude::*;
use tfhe::{
    core_crypto::prelude::{GlweSecretKey, LweSecretKey, PolynomialSize},
    integer::{BooleanBlock, ClientKey, RadixCiphertext, ServerKey, prelude::ServerKeyDefaultCMux as _},
    shortint::{
        self,
        client_key::atomic_pattern::{AtomicPatternClientKey, StandardAtomicPatternClientKey},
        parameters::AtomicPatternParameters,
        server_key::pbs_stats,
    },
    transciphering::{AesFheKey, AesFheRoundKeys, AesFheState, AesPlainKey, Transcipherer as _},
};

use crate::{SecretKey, shortint::parameters};

/// Number of message bits in a block.
const BLOCK_BITS: u32 = 2;

/// A computation on numbers and bits, step by step.
#[derive(Clone, Debug)]
pub struct Computation {
    /// Width of every number in bits.
    pub bits: u32,
    /// Inputs, which are encrypted.
    pub inputs: Vec<Clear>,
    /// Steps of the computation.
    pub steps: Vec<Step>,
    /// Steps whose results are the outputs.
    pub outputs: Vec<usize>,
}

/// A value in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// An unsigned number.
    Number(u128),
    /// A condition.
    Bit(bool),
    /// A key of AES-128, most significant byte first.
    CipherKey(u128),
}

/// An operation and its operands.
#[derive(Clone, Debug)]
pub struct Step {
    /// Operation of the step.
    pub operation: Operation,
    /// Operands of the operation.
    pub operands: Vec<Operand>,
}

/// An operand of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// An input.
    Input(usize),
    /// The result of a step.
    Step(usize),
    /// A number in the clear, which is allowed only as the last operand.
    Clear(u128),
}

/// Operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as their names say")]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Xor,
    Equal,
    Greater,
    GreaterOrEqual,
    Min,
    ShiftLeft,
    /// Select: the second operand if the first is true, else the third.
    Select,
    /// AES-128 of a clear block under an encrypted key, as a number of 128 bits. Blocks under one
    /// key expand it once.
    Aes128,
}

/// Keys of tfhe-rs.
pub struct Integers {
    client: ClientKey,
    blocks: shortint::ClientKey,
    server: ServerKey,
}

/// A computation and its encrypted inputs.
pub struct Prepared<'a> {
    keys: &'a Integers,
    computation: Computation,
    inputs: Vec<Value>,
}

/// An encrypted value of tfhe-rs.
enum Value {
    Number(RadixCiphertext),
    Bit(BooleanBlock),
    CipherKey(Box<AesFheKey>),
    /// Bits by byte, least significant bit first.
    Bits(Vec<shortint::Ciphertext>),
}

/// The value of an operand.
enum Argument<'a> {
    Encrypted(&'a Value),
    Clear(u128),
}

/// Outputs of a computation.
pub struct Results(Vec<Value>);

impl Integers {
    /// Makes a server key of tfhe-rs for a secret key. Returns `None` if tfhe-rs has no classic set
    /// of that name.
    pub fn new(set: &str, secret: &SecretKey) -> Option<Self> {
        let AtomicPatternParameters::Standard(parameters) = parameters(set)? else { return None };
        let words = |bits: &[u8]| bits.iter().map(|&bit| u64::from(bit)).collect::<Vec<_>>();
        let big = GlweSecretKey::from_container(words(&secret.big), PolynomialSize(parameters.polynomial_size().0));
        let small = LweSecretKey::from_container(words(&secret.small));
        let key = StandardAtomicPatternClientKey::from_raw_parts(big, small, parameters, None);
        let blocks = shortint::ClientKey { atomic_pattern: AtomicPatternClientKey::Standard(key) };
        let client = ClientKey::from(blocks.clone());
        let server = ServerKey::new_radix_server_key(&client);
        Some(Self { client, blocks, server })
    }

    /// Encrypts a computation's inputs.
    pub fn prepare(&self, computation: &Computation) -> Prepared<'_> {
        let blocks = (computation.bits / BLOCK_BITS) as usize;
        let encrypt = |input: &Clear| match *input {
            Clear::Number(number) => Value::Number(self.client.encrypt_radix(number, blocks)),
            Clear::Bit(bit) => Value::Bit(self.client.encrypt_bool(bit)),
            Clear::CipherKey(key) => Value::CipherKey(Box::new(AesPlainKey::from(key).encrypt(&self.blocks))),
        };
        let inputs = computation.inputs.iter().map(encrypt).collect();
        Prepared { keys: self, computation: computation.clone(), inputs }
    }
}

impl Prepared<'_> {
    /// Runs the computation once.
    pub fn compute(&self) -> Results {
        let mut results: Vec<Value> = Vec::with_capacity(self.computation.steps.len());
        let mut ciphers = HashMap::new();
        for Step { operation, operands } in &self.computation.steps {
            if let (Operation::Aes128, &[Operand::Input(key), Operand::Clear(block)]) = (operation, &operands[..]) {
                let cipher = ciphers.entry(key).or_insert_with(|| self.cipher(key));
                let blocks = cipher.next_keystream_bits(self.keys.server.as_ref(), 128).expect("it is at its start");
                assert_eq!(block, u128::from(cipher.current_counter()) / 128 - 1, "blocks count from 0");
                results.push(Value::Bits(blocks.into_raw_parts()));
                continue;
            }
            let arguments: Vec<Argument<'_>> =
                operands.iter().map(|operand| self.argument(operand, &results)).collect();
            let result = step(&self.keys.server, *operation, &arguments);
            results.push(result);
        }
        let mut results: Vec<Option<Value>> = results.into_iter().map(Some).collect();
        let outputs = self.computation.outputs.iter();
        Results(outputs.map(|&step| results[step].take().expect("an output is a step, and returned once")).collect())
    }

    /// Runs the computation `count` times concurrently.
    pub fn compute_at_once(&self, count: usize) -> Vec<Results> {
        (0..count).into_par_iter().map(|_| self.compute()).collect()
    }

    /// Runs the computation once, and counts its bootstraps.
    pub fn compute_and_count(&self) -> (Results, u64) {
        pbs_stats::reset_pbs_count();
        (self.compute(), pbs_stats::get_pbs_count())
    }

    /// Decrypts the outputs.
    pub fn decrypt(&self, results: &Results) -> Vec<Clear> {
        let decrypt = |value: &Value| match value {
            Value::Number(number) => Clear::Number(self.keys.client.decrypt_radix(number)),
            Value::Bit(bit) => Clear::Bit(self.keys.client.decrypt_bool(bit)),
            Value::CipherKey(_) => panic!("no step returns a key"),
            Value::Bits(bits) => {
                let byte = |bits: &[shortint::Ciphertext]| {
                    bits.iter().rev().fold(0, |byte, bit| byte << 1 | u128::from(self.keys.blocks.decrypt(bit)))
                };
                Clear::Number(bits.chunks(8).map(byte).fold(0, |number, byte| number << 8 | byte))
            }
        };
        results.0.iter().map(decrypt).collect()
    }

    /// A cipher with an expanded key, whose block counter starts at 0.
    fn cipher(&self, key: usize) -> AesFheState {
        let Value::CipherKey(key) = &self.inputs[key] else { panic!("input {key} is no key") };
        AesFheState::new(AesFheRoundKeys::new(self.keys.server.as_ref(), key), 0)
    }

    fn argument<'v>(&'v self, operand: &Operand, results: &'v [Value]) -> Argument<'v> {
        match *operand {
            Operand::Input(index) => Argument::Encrypted(&self.inputs[index]),
            Operand::Step(index) => Argument::Encrypted(&results[index]),
            Operand::Clear(number) => Argument::Clear(number),
        }
    }
}

/// Runs one operation on all cores.
fn step(server: &ServerKey, operation: Operation, arguments: &[Argument<'_>]) -> Value {
    use Argument::{Clear, Encrypted};
    use Value::{Bit, Number};

    match (operation, arguments) {
        (Operation::Select, [Encrypted(Bit(condition)), Encrypted(Number(yes)), Encrypted(Number(no))]) => {
            Number(server.if_then_else_parallelized(condition, yes, no))
        }
        (Operation::Select, [Encrypted(Bit(condition)), Encrypted(Number(yes)), Clear(no)]) => {
            Number(server.if_then_else_parallelized(condition, yes, *no))
        }
        (_, [Encrypted(Number(left)), Encrypted(Number(right))]) => of_two(server, operation, left, right),
        (_, [Encrypted(Number(left)), Clear(right)]) => with_clear(server, operation, left, *right),
        _ => panic!("{operation:?} of such operands is not compared"),
    }
}

fn of_two(server: &ServerKey, operation: Operation, left: &RadixCiphertext, right: &RadixCiphertext) -> Value {
    match operation {
        Operation::Add => Value::Number(server.add_parallelized(left, right)),
        Operation::Subtract => Value::Number(server.sub_parallelized(left, right)),
        Operation::Multiply => Value::Number(server.mul_parallelized(left, right)),
        Operation::Divide => Value::Number(server.div_parallelized(left, right)),
        Operation::Xor => Value::Number(server.bitxor_parallelized(left, right)),
        Operation::Equal => Value::Bit(server.eq_parallelized(left, right)),
        Operation::Greater => Value::Bit(server.gt_parallelized(left, right)),
        Operation::GreaterOrEqual => Value::Bit(server.ge_parallelized(left, right)),
        Operation::Min => Value::Number(server.min_parallelized(left, right)),
        Operation::ShiftLeft => Value::Number(server.left_shift_parallelized(left, right)),
        Operation::Select | Operation::Aes128 => panic!("{operation:?} takes other operands"),
    }
}

fn with_clear(server: &ServerKey, operation: Operation, left: &RadixCiphertext, right: u128) -> Value {
    match operation {
        Operation::Add => Value::Number(server.scalar_add_parallelized(left, right)),
        Operation::Subtract => Value::Number(server.scalar_sub_parallelized(left, right)),
        Operation::Multiply => Value::Number(server.scalar_mul_parallelized(left, right)),
        Operation::Divide => panic!("divisions by clear numbers are not compared"),
        Operation::Xor => Value::Number(server.scalar_bitxor_parallelized(left, right)),
        Operation::Equal => Value::Bit(server.scalar_eq_parallelized(left, right)),
        Operation::Greater => Value::Bit(server.scalar_gt_parallelized(left, right)),
        Operation::GreaterOrEqual => Value::Bit(server.scalar_ge_parallelized(left, right)),
        Operation::Min => Value::Number(server.scalar_min_parallelized(left, right)),
        Operation::ShiftLeft => Value::Number(server.scalar_left_shift_parallelized(left, right)),
        Operation::Select | Operation::Aes128 => panic!("{operation:?} takes other operands"),
    }
}
