//! The compared computations.

use aes::{
    Aes128,
    cipher::{BlockEncrypt as _, KeyInit as _},
};
use peer_tfhe::integer::{Clear, Computation, Operand, Operation, Step};

/// A computation, and the required ratio over tfhe-rs.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the row.
    pub name: String,
    /// The computation of each job.
    pub computation: Computation,
    /// Number of concurrent jobs, each of which runs the computation.
    pub jobs: usize,
    /// Least ratio that the project requires of itself.
    pub required: Option<f64>,
}

/// All comparisons.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for bits in [8, 32, 64, 128] {
        let required = if bits == 8 { 1.4 } else { 2.2 };
        for &(operation, name) in OPERATIONS {
            let required = if operation == Operation::Multiply && bits == 64 { 2.5 } else { required };
            for operand in [Operand::Input(1), Operand::Clear(clear(operation, bits))] {
                cases.push(of_one(operation, name, bits, operand, required));
            }
        }
    }
    cases.push(of_one(Operation::Divide, "x / y", 64, Operand::Input(1), 2.5));
    cases.push(Case {
        name: "u8 x / y".into(),
        required: None,
        ..of_one(Operation::Divide, "x / y", 8, Operand::Input(1), 0.0)
    });
    cases.push(chain());
    cases.push(transfer());
    cases.push(cipher());
    let add = of_one(Operation::Add, "x + y", 64, Operand::Input(1), 0.0);
    cases.push(Case { name: "u64 x + y, 32 jobs at once".into(), jobs: 32, required: Some(4.0), ..add });
    cases
}

/// Operations and their notation. `y` is replaced where the operand is in the clear.
const OPERATIONS: &[(Operation, &str)] = &[
    (Operation::Add, "x + y"),
    (Operation::Subtract, "x - y"),
    (Operation::Multiply, "x * y"),
    (Operation::Equal, "x == y"),
    (Operation::Greater, "x > y"),
    (Operation::Min, "min(x, y)"),
    (Operation::ShiftLeft, "x << y"),
    (Operation::Select, "select(c, x, y)"),
];

/// Clear operand of 128 bits. Narrower operands take its highest bits.
pub const CLEAR: u128 = 0x2f6b_91d3_c457_8e0a_1bc9_3e72_85a6_d40f;

/// A number in the clear. Most of its digits differ, and a shift is not by whole digits.
fn clear(operation: Operation, bits: u32) -> u128 {
    match operation {
        Operation::ShiftLeft => u128::from(bits / 2 + 1),
        _ => CLEAR >> (128 - bits),
    }
}

fn of_one(operation: Operation, name: &str, bits: u32, last: Operand, required: f64) -> Case {
    let (x, y) = operands(bits);
    let y = if operation == Operation::ShiftLeft { u128::from(bits / 2 + 1) } else { y };
    let mut inputs = vec![Clear::Number(x), Clear::Number(y)];
    let mut operands = vec![Operand::Input(0), last];
    if operation == Operation::Select {
        inputs.push(Clear::Bit(true));
        operands.insert(0, Operand::Input(2));
    }
    // A computation must use all of its inputs.
    if let Operand::Clear(_) = last {
        inputs.remove(1);
        operands[0] = if operation == Operation::Select { Operand::Input(1) } else { operands[0] };
    }
    let name = match last {
        Operand::Clear(_) => format!("u{bits} {}", name.replace('y', "clear")),
        _ => format!("u{bits} {name}"),
    };
    let steps = vec![Step { operation, operands }];
    Case { name, computation: Computation { bits, inputs, steps, outputs: vec![0] }, jobs: 1, required: Some(required) }
}

fn operands(bits: u32) -> (u128, u128) {
    let cut = |number: u128| number >> (128 - bits);
    (cut(0xd1e7_5a0b_93f4_26c8_7d35_e91a_4c82_f6b0), cut(0x6ca4_38f1_e05d_b792_0f8e_57d3_b61c_29a4))
}

/// Ten operations, each on the result of the previous operation.
fn chain() -> Case {
    use Operation::{Add, Subtract, Xor};

    let (x, y) = operands(64);
    let inputs = [x, y, x ^ y.rotate_left(17) & u128::from(u64::MAX)].map(Clear::Number).to_vec();
    let plan = [
        (Add, 1),
        (Subtract, 2),
        (Add, 0),
        (Add, 1),
        (Xor, 2),
        (Add, 0),
        (Subtract, 1),
        (Add, 2),
        (Add, 0),
        (Subtract, 2),
    ];
    let before = |index: usize| if index == 0 { Operand::Input(0) } else { Operand::Step(index - 1) };
    let step = |(index, &(operation, input)): (usize, &(Operation, usize))| Step {
        operation,
        operands: vec![before(index), Operand::Input(input)],
    };
    let steps: Vec<Step> = plan.iter().enumerate().map(step).collect();
    let outputs = vec![steps.len() - 1];
    Case {
        name: "u64 chain: + - + + ^ + - + + -".into(),
        computation: Computation { bits: 64, inputs, steps, outputs },
        jobs: 1,
        required: Some(3.0),
    }
}

/// Transfer of a token: either the amount or nothing moves from one balance to the other.
fn transfer() -> Case {
    use Operand::{Clear as Number, Input, Step as Result};

    let (from, to, amount) = (1_000_000, 77, 250_000);
    let inputs = [from, to, amount].map(Clear::Number).to_vec();
    let step = |operation, operands: &[Operand]| Step { operation, operands: operands.to_vec() };
    let steps = vec![
        step(Operation::GreaterOrEqual, &[Input(0), Input(2)]),
        step(Operation::Select, &[Result(0), Input(2), Number(0)]),
        step(Operation::Subtract, &[Input(0), Result(1)]),
        step(Operation::Add, &[Input(1), Result(1)]),
    ];
    Case {
        name: "u64 ERC-20 transfer".into(),
        computation: Computation { bits: 64, inputs, steps, outputs: vec![2, 3] },
        jobs: 1,
        required: Some(3.0),
    }
}

/// Two blocks of a cipher's key stream, including the expansion of its key. The computation
/// converts AES ciphertexts to ours.
fn cipher() -> Case {
    let step = |block| Step { operation: Operation::Aes128, operands: vec![Operand::Input(0), Operand::Clear(block)] };
    Case {
        name: "AES-128 of two blocks".into(),
        computation: Computation {
            bits: 128,
            inputs: vec![Clear::CipherKey(CIPHER_KEY)],
            steps: vec![step(0), step(1)],
            outputs: vec![0, 1],
        },
        jobs: 1,
        required: Some(2.0),
    }
}

/// Key of the example in FIPS 197.
const CIPHER_KEY: u128 = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c;

fn encrypt_aes128(key: u128, block: u128) -> u128 {
    let mut block = block.to_be_bytes().into();
    Aes128::new(&key.to_be_bytes().into()).encrypt_block(&mut block);
    u128::from_be_bytes(block.into())
}

impl Case {
    /// Expected results in the clear.
    pub fn expected(&self) -> Vec<Clear> {
        let Computation { bits, inputs, steps, outputs } = &self.computation;
        let mask = u128::MAX >> (128 - bits);
        let mut results: Vec<Clear> = Vec::with_capacity(steps.len());
        for Step { operation, operands } in steps {
            let value = |operand: &Operand| match *operand {
                Operand::Input(index) => inputs[index],
                Operand::Step(index) => results[index],
                Operand::Clear(number) => Clear::Number(number),
            };
            let values: Vec<Clear> = operands.iter().map(value).collect();
            results.push(apply(*operation, &values, mask, *bits));
        }
        outputs.iter().map(|&step| results[step]).collect()
    }
}

fn apply(operation: Operation, values: &[Clear], mask: u128, bits: u32) -> Clear {
    use Clear::{Bit, Number};

    match (operation, values) {
        (Operation::Select, &[Bit(condition), yes, no]) => {
            if condition {
                yes
            } else {
                no
            }
        }
        (_, &[Number(left), Number(right)]) => match operation {
            Operation::Add => Number(left.wrapping_add(right) & mask),
            Operation::Subtract => Number(left.wrapping_sub(right) & mask),
            Operation::Multiply => Number(left.wrapping_mul(right) & mask),
            Operation::Divide => Number(left / right),
            Operation::Xor => Number(left ^ right),
            Operation::Equal => Bit(left == right),
            Operation::Greater => Bit(left > right),
            Operation::GreaterOrEqual => Bit(left >= right),
            Operation::Min => Number(left.min(right)),
            Operation::ShiftLeft => Number((left << (right % u128::from(bits))) & mask),
            Operation::Select | Operation::Aes128 => panic!("{operation:?} takes other operands"),
        },
        (Operation::Aes128, &[Clear::CipherKey(key), Number(block)]) => Number(encrypt_aes128(key, block)),
        _ => panic!("{operation:?} of {values:?}"),
    }
}
