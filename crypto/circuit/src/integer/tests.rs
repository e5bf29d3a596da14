//! Tests every operation on plaintexts, with edge values and random ones, for both goals and every
//! set.

use cloakwork_params::{Encoding, ParameterSet, table::SETS};
use proptest::prelude::*;

use super::{shift::shift_by, *};

/// A circuit under test, which builds outputs from inputs.
type Circuit<'a> = &'a dyn Fn(&mut Draft, &[Digits], Goal) -> Digits;

const GOALS: [Goal; 2] = [Goal::Work, Goal::Depth];

fn sets() -> impl Iterator<Item = &'static ParameterSet> {
    SETS.iter().filter(|set| matches!(set.encoding, Encoding::Shortint { message_modulus: 4, carry_modulus: 4, .. }))
}

/// A lowered circuit, ready to run on numbers.
struct Compiled {
    graph: crate::Graph,
    digits: Vec<usize>,
}

impl Compiled {
    /// Builds the circuit with inputs of this noise level. 0 is the level of a fresh encryption.
    fn with_noise(noise: u32, set: &'static ParameterSet, digits: &[usize], goal: Goal, circuit: Circuit<'_>) -> Self {
        let mut draft = Draft::new(set, goal);
        let inputs: Vec<Digits> =
            digits.iter().map(|digits| (0..*digits).map(|_| draft.input(3, noise)).collect()).collect();
        let outputs = circuit(&mut draft, &inputs, goal);
        let noise = outputs.iter().map(|digit| draft.noise_of(digit)).max();
        assert!(noise <= Some(set.squared_noise_max), "an output of noise {noise:?}");
        Self { graph: draft.finish(digits.to_vec(), &[outputs]), digits: digits.to_vec() }
    }

    fn new(set: &'static ParameterSet, digits: &[usize], goal: Goal, circuit: Circuit<'_>) -> Self {
        Self::with_noise(1, set, digits, goal, circuit)
    }

    fn run(&self, numbers: &[u128]) -> u128 {
        let step = self.graph.set.plaintext_step();
        let digit = |number: u128, place: usize| (number >> (2 * place) & 3) as u64 * step;
        let inputs: Vec<u64> = numbers
            .iter()
            .zip(&self.digits)
            .flat_map(|(number, digits)| (0..*digits).map(|place| digit(*number, place)))
            .collect();
        let outputs = self.graph.evaluate(&inputs).expect("every phase has an entry");
        let mut number = 0;
        for (place, (phase, output)) in outputs.iter().zip(&self.graph.outputs[0]).enumerate() {
            assert_eq!(phase % step, 0, "a whole number of steps");
            assert!(phase / step <= u64::from(output.degree), "{} of {}", phase / step, output.degree);
            number += u128::from(phase / step) << (2 * place);
        }
        number
    }
}

fn mask(digits: usize) -> u128 {
    if digits >= 64 { u128::MAX } else { (1 << (2 * digits)) - 1 }
}

/// Edge values.
fn edges(digits: usize) -> Vec<u128> {
    let top = mask(digits);
    let mut edges = vec![0, 1, 2, 3, 4, top, top - 1, top / 2, top / 2 + 1, top / 3, top / 3 * 2, 5];
    edges.iter_mut().for_each(|edge| *edge &= top);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Compares a circuit of two inputs and one output with an oracle, on edge values and random ones.
fn check_against_oracle(name: &str, circuit: Circuit<'_>, oracle: impl Fn(u128, u128, usize) -> u128) {
    for set in sets() {
        for digits in [1, 2, 3, 4, 8, 32] {
            for (goal, noise) in [(Goal::Work, 0), (Goal::Work, 1), (Goal::Depth, 0), (Goal::Depth, 1)] {
                let compiled = Compiled::with_noise(noise, set, &[digits, digits], goal, circuit);
                let mut random = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834_u128;
                let mut draw = || {
                    random = random.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
                    random >> 64 & mask(digits)
                };
                let edges = edges(digits);
                let pairs = edges.iter().flat_map(|left| edges.iter().map(|right| (*left, *right)));
                let pairs = pairs.chain((0..50).map(|_| (draw(), draw()))).collect::<Vec<_>>();
                for (left, right) in pairs {
                    let (got, expected) = (compiled.run(&[left, right]), oracle(left, right, digits));
                    assert_eq!(got, expected, "{name} of {left} and {right}, {digits} digits, {goal:?}, {}", set.name);
                }
            }
        }
    }
}

fn signed(number: u128, digits: usize) -> i128 {
    let unused = 128 - 2 * digits as u32;
    ((number << unused) as i128) >> unused
}

#[test]
fn sums_and_differences() {
    let add: Circuit<'_> = &|draft, numbers, goal| {
        let sum = add(draft, &numbers[0], &numbers[1], goal);
        clean(draft, &sum, goal)
    };
    check_against_oracle("the sum", add, |left, right, digits| left.wrapping_add(right) & mask(digits));
    let subtract: Circuit<'_> = &|draft, numbers, goal| {
        let difference = subtract(draft, &numbers[0], &numbers[1], goal);
        clean(draft, &difference, goal)
    };
    check_against_oracle("the difference", subtract, |left, right, digits| left.wrapping_sub(right) & mask(digits));
}

#[test]
fn overflows() {
    type Overflows = fn(&mut Draft, &[Cell], &[Cell], bool, Goal) -> Cell;
    type Checked = fn(i128, i128) -> Option<i128>;
    let kinds: [(&str, Overflows, Checked); 3] = [
        ("an overflowing sum", sum_overflows, i128::checked_add),
        ("an overflowing difference", difference_overflows, i128::checked_sub),
        ("an overflowing product", product_overflows, i128::checked_mul),
    ];
    for (name, overflows, oracle) in kinds {
        for is_signed in [false, true] {
            let circuit: Circuit<'_> =
                &|draft, numbers, goal| vec![overflows(draft, &numbers[0], &numbers[1], is_signed, goal)];
            check_against_oracle(name, circuit, |left, right, digits| {
                let number = |bits: u128| if is_signed { signed(bits, digits) } else { bits as i128 };
                let result = oracle(number(left), number(right));
                u128::from(result.is_none_or(|result| number(result as u128 & mask(digits)) != result))
            });
        }
    }
}

#[test]
fn long_lazy_chains() {
    // ((a + b) + a - b - b) and so on, twenty times.
    let chain: Circuit<'_> = &|draft, numbers, goal| {
        let mut value = numbers[0].clone();
        for step in 0..20 {
            value = match step % 3 {
                0 => add(draft, &value, &numbers[1], goal),
                1 => subtract(draft, &numbers[0], &value, goal),
                _ => add(draft, &value.clone(), &value, goal),
            };
        }
        clean(draft, &value, goal)
    };
    check_against_oracle("the chain", chain, |left, right, digits| {
        let step = |value: u128, step: usize| match step % 3 {
            0 => value.wrapping_add(right),
            1 => left.wrapping_sub(value),
            _ => value.wrapping_mul(2),
        };
        (0..20).fold(left, step) & mask(digits)
    });
}

#[test]
fn comparisons() {
    let one = |cell: Cell| vec![cell];
    check_against_oracle(
        "equality",
        &|draft, numbers, _| one(equal(draft, &numbers[0], &numbers[1])),
        |left, right, _| u128::from(left == right),
    );
    for is_signed in [false, true] {
        for relation in [Relation::Less, Relation::LessOrEqual, Relation::Greater, Relation::GreaterOrEqual] {
            let circuit: Circuit<'_> =
                &|draft, numbers, _| one(super::relation(draft, &numbers[0], &numbers[1], is_signed, relation));
            check_against_oracle(&format!("{relation:?}, signed: {is_signed}"), circuit, |left, right, digits| {
                let order = match is_signed {
                    true => signed(left, digits).cmp(&signed(right, digits)),
                    false => left.cmp(&right),
                };
                u128::from(relation.holds(order as i64))
            });
        }
    }
}

#[test]
fn bits() {
    for (name, function) in [
        ("and", (|left, right| left & right) as fn(i64, i64) -> i64),
        ("or", |left, right| left | right),
        ("xor", |left, right| left ^ right),
    ] {
        check_against_oracle(
            name,
            &|draft, numbers, _| bitwise(draft, &numbers[0], &numbers[1], Type::Uint(0), function),
            |left, right, digits| match name {
                "and" => left & right,
                "or" => left | right,
                _ => (left ^ right) & mask(digits),
            },
        );
    }
    check_against_oracle("not", &|_, numbers, _| not(&numbers[0], Type::Uint(0)), |left, _, digits| {
        !left & mask(digits)
    });
}

#[test]
fn counts_of_bits() {
    let unused = |digits: usize| 128 - 2 * digits as u32;
    // With one digit, 2 is the largest possible count.
    let counted = |count: u32, digits: usize| u128::from(count) & mask(digits);
    let ones: Circuit<'_> = &|draft, numbers, goal| {
        let ones = ones(draft, &numbers[0], numbers[0].len());
        clean(draft, &ones, goal)
    };
    check_against_oracle("ones", ones, |number, _, digits| counted(number.count_ones(), digits));
    for end in [End::Highest, End::Lowest] {
        let zeros: Circuit<'_> = &|draft, numbers, goal| {
            let zeros = zeros_before(draft, &numbers[0], end, numbers[0].len());
            clean(draft, &zeros, goal)
        };
        check_against_oracle(&format!("zeros before the {end:?}"), zeros, |number, _, digits| match end {
            End::Highest => counted(number.leading_zeros() - unused(digits), digits),
            End::Lowest => counted(number.trailing_zeros().min(2 * digits as u32), digits),
        });
    }
    check_against_oracle("reversed", &|draft, numbers, _| reverse(draft, &numbers[0]), |number, _, digits| {
        number.reverse_bits() >> unused(digits)
    });
}

#[test]
fn choices() {
    let select: Circuit<'_> = &|draft, numbers, _| {
        let condition = relation(draft, &numbers[0], &numbers[1], false, Relation::Less);
        select(draft, &condition, &numbers[0], &numbers[1])
    };
    check_against_oracle("the lesser", select, |left, right, _| left.min(right));
}

#[test]
fn one_of_many() {
    let clear = |number: u128, digits: usize| constant(&number.to_le_bytes(), digits, Type::Uint(0));
    let function = |key: u128, digits: usize| key.wrapping_mul(key).wrapping_add(7 * key) & mask(digits);
    // The result of 1 and the default result are encrypted.
    for (name, keys, is_clear) in [("a table", 21, true), ("one key", 1, true), ("encrypted keys", 2, false)] {
        let circuit: Circuit<'_> = &|draft, numbers, _| {
            let digits = numbers[0].len();
            let key = |key: u128| if is_clear { clear(key & mask(digits), digits) } else { numbers[1].clone() };
            let result = |key: u128| match key {
                1 => numbers[1].clone(),
                _ => clear(function(key, digits), digits),
            };
            let keys = keys.min(mask(digits).saturating_add(1));
            let cases: Vec<_> = (0..keys).map(|index| (key(index), result(index))).collect();
            choose(draft, &numbers[0], &cases, &numbers[1])
        };
        check_against_oracle(name, circuit, |number, other, digits| match number {
            0 if is_clear => function(0, digits),
            1 if is_clear => other,
            _ if is_clear && number < keys => function(number, digits),
            _ if !is_clear && number == other => function(0, digits),
            _ => other,
        });
        let circuit: Circuit<'_> = &|draft, numbers, _| {
            let digits = numbers[0].len();
            let mut others: Vec<Digits> = (0..keys).map(|key| clear((5 * key) & mask(digits), digits)).collect();
            others.push(numbers[1].clone());
            vec![is_one_of(draft, &numbers[0], &others)]
        };
        check_against_oracle(name, circuit, |number, other, digits| {
            u128::from(number == other || (0..keys).any(|key| number == (5 * key) & mask(digits)))
        });
    }
}

#[test]
fn products() {
    let multiply: Circuit<'_> = &|draft, numbers, goal| {
        let product = multiply(draft, &numbers[0], &numbers[1]);
        clean(draft, &product, goal)
    };
    check_against_oracle("the product", multiply, |left, right, digits| left.wrapping_mul(right) & mask(digits));
}

#[test]
fn quotients_and_remainders() {
    for is_signed in [false, true] {
        let quotient: Circuit<'_> = &|draft, numbers, goal| {
            let quotient = divide(draft, &numbers[0], &numbers[1], is_signed, goal).quotient;
            clean(draft, &quotient, goal)
        };
        let quotient_of = |left: u128, right: u128, digits: usize| match is_signed {
            false => left.checked_div(right).unwrap_or(u128::MAX) & mask(digits),
            true => {
                let (left, right) = (signed(left, digits), signed(right, digits));
                let by_zero = if left < 0 { 1 } else { -1 };
                left.checked_div(right).unwrap_or(by_zero) as u128 & mask(digits)
            }
        };
        check_against_oracle(&format!("the quotient, signed: {is_signed}"), quotient, quotient_of);
        let remainder: Circuit<'_> = &|draft, numbers, goal| {
            let remainder = divide(draft, &numbers[0], &numbers[1], is_signed, goal).remainder;
            clean(draft, &remainder, goal)
        };
        check_against_oracle(&format!("the remainder, signed: {is_signed}"), remainder, |left, right, digits| {
            left.wrapping_sub(quotient_of(left, right, digits).wrapping_mul(right)) & mask(digits)
        });
    }
    check_against_oracle(
        "the magnitude",
        &|draft, numbers, goal| absolute(draft, &numbers[0], goal),
        |left, _, digits| signed(left, digits).unsigned_abs() & mask(digits),
    );
}

#[test]
fn shifts() {
    for (name, direction) in [
        ("left", Direction::Left),
        ("right", Direction::Right { is_signed: false }),
        ("right, signed", Direction::Right { is_signed: true }),
        ("rotated left", Direction::RotateLeft),
        ("rotated right", Direction::RotateRight),
    ] {
        let oracle = |number: u128, by: u128, digits: usize| {
            let bits = 2 * digits as u32;
            let (by, beyond) = (by as u32 & (bits.next_power_of_two() - 1), by >= u128::from(bits));
            let (up, down) = (
                |number: u128, by: u32| number.checked_shl(by).unwrap_or(0) & mask(digits),
                |number: u128, by: u32| number.checked_shr(by).unwrap_or(0),
            );
            match direction {
                Direction::Right { is_signed: true } if beyond => {
                    (signed(number, digits) >> 127) as u128 & mask(digits)
                }
                Direction::Left | Direction::Right { .. } if beyond => 0,
                Direction::Left => up(number, by),
                Direction::Right { is_signed: false } => down(number, by),
                Direction::Right { is_signed: true } => (signed(number, digits) >> by.min(127)) as u128 & mask(digits),
                Direction::RotateLeft => up(number, by % bits) | down(number, bits - by % bits),
                Direction::RotateRight => down(number, by % bits) | up(number, bits - by % bits),
            }
        };
        check_against_oracle(name, &|draft, numbers, _| shift(draft, &numbers[0], &numbers[1], direction), oracle);
        for bits in [0, 1, 2, 3, 7, 15] {
            let circuit: Circuit<'_> = &|draft, numbers, _| {
                let bits = bits.min(2 * numbers[0].len() - 1);
                shift_by(draft, &numbers[0], bits, direction)
            };
            check_against_oracle(&format!("{name} by {bits}"), circuit, |number, _, digits| {
                oracle(number, bits.min(2 * digits - 1) as u128, digits)
            });
        }
    }
}

/// The bounds of [`Draft::weighable`] in every set.
#[test]
fn every_set_weighs_two_to_four_results_in_a_lookup() {
    assert!(sets().all(|set| (9..961).contains(&set.squared_noise_max)));
}

proptest! {
    #[test]
    fn sums_of_many(numbers in proptest::collection::vec(any::<u64>(), 1..40)) {
        let set = sets().next().expect("a set");
        for goal in GOALS {
            let compiled = Compiled::new(set, &vec![32; numbers.len()], goal, &|draft, numbers, goal| {
                let sum = sum(draft, numbers, 32);
                clean(draft, &sum, goal)
            });
            let expected = numbers.iter().fold(0u64, |sum, number| sum.wrapping_add(*number));
            let numbers: Vec<u128> = numbers.iter().map(|number| u128::from(*number)).collect();
            prop_assert_eq!(compiled.run(&numbers), u128::from(expected));
        }
    }

    #[test]
    fn clear_operands_compute_like_encrypted_ones(left: u64, right: u64) {
        let set = sets().next().expect("a set");
        let bytes = right.to_le_bytes();
        let clear = constant(&bytes, 32, Type::Uint(64));
        let sum = Compiled::new(set, &[32], Goal::Work, &|draft, numbers, goal| {
            let sum = add(draft, &numbers[0], &clear, goal);
            clean(draft, &sum, goal)
        });
        prop_assert_eq!(sum.run(&[left.into()]), u128::from(left.wrapping_add(right)));
        let product = Compiled::new(set, &[32], Goal::Work, &|draft, numbers, goal| {
            let product = multiply(draft, &numbers[0], &clear);
            clean(draft, &product, goal)
        });
        prop_assert_eq!(product.run(&[left.into()]), u128::from(left.wrapping_mul(right)));
        let less = Compiled::new(set, &[32], Goal::Work, &|draft, numbers, _| {
            vec![relation(draft, &numbers[0], &clear, false, Relation::Less)]
        });
        prop_assert_eq!(less.run(&[left.into()]), u128::from(left < right));
    }
}

/// Bootstraps and depth of the most common operations, compared with the table of docs/integers.md.
#[test]
fn costs() {
    let set = sets().next().expect("a set");
    let add: Circuit<'_> = &|draft, numbers, goal| {
        let sum = add(draft, &numbers[0], &numbers[1], goal);
        clean(draft, &sum, goal)
    };
    let multiply: Circuit<'_> = &|draft, numbers, goal| {
        let product = multiply(draft, &numbers[0], &numbers[1]);
        clean(draft, &product, goal)
    };
    let equal: Circuit<'_> = &|draft, numbers, _| vec![equal(draft, &numbers[0], &numbers[1])];
    let less: Circuit<'_> = &|draft, numbers, _| vec![relation(draft, &numbers[0], &numbers[1], false, Relation::Less)];
    let least: Circuit<'_> = &|draft, numbers, _| {
        let condition = relation(draft, &numbers[0], &numbers[1], false, Relation::Less);
        select(draft, &condition, &numbers[0], &numbers[1])
    };
    let and: Circuit<'_> =
        &|draft, numbers, _| bitwise(draft, &numbers[0], &numbers[1], Type::Uint(64), |left, right| left & right);
    let quotient: Circuit<'_> = &|draft, numbers, goal| {
        let quotient = divide(draft, &numbers[0], &numbers[1], false, goal).quotient;
        clean(draft, &quotient, goal)
    };
    let left: Circuit<'_> = &|draft, numbers, _| shift(draft, &numbers[0], &numbers[1], Direction::Left);
    let operations = [
        ("`x + y`, `x - y`", add),
        ("`x * y`", multiply),
        ("`x / y`", quotient),
        ("`x == y`", equal),
        ("`x < y`", less),
        ("`min(x, y)`", least),
        ("`x & y`", and),
        ("`x << y`", left),
    ];
    let mut rows = String::new();
    for (name, circuit) in operations {
        rows += &format!("| {name} |");
        for (noise, goal) in [(0, Goal::Depth), (0, Goal::Work), (1, Goal::Depth), (1, Goal::Work)] {
            let graph = Compiled::with_noise(noise, set, &[32, 32], goal, circuit).graph;
            rows += &format!(" {} ({}) |", graph.pbs_count(), graph.depth());
        }
        rows += "\n";
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/integers.md");
    let page = std::fs::read_to_string(path).expect("docs/integers.md");
    let (before, rest) = page.split_once("|---|---|---|---|---|\n").expect("the table");
    let (table, after) = rest.split_once("\n\n").expect("its end");
    if std::env::var_os("CLOAKWORK_UPDATE_DOCS").is_some() {
        let page = format!("{before}|---|---|---|---|---|\n{rows}\n{after}");
        std::fs::write(path, page).expect("docs/integers.md is written");
    } else {
        assert_eq!(format!("{table}\n"), rows, "docs/integers.md is stale: run this test with CLOAKWORK_UPDATE_DOCS=1");
    }
}

#[test]
fn the_goal_depends_on_rows_and_lanes() {
    let goals = [(7, 32), (8, 32), (8, 33), (255, 1024), (256, 1024), (u64::MAX, 1), (1, 0)];
    let depth = goals.map(|(rows, lanes)| Goal::of_rows(rows, lanes) == Goal::Depth);
    assert_eq!(depth, [true, false, true, true, false, false, false]);
}
