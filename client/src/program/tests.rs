use cloakwork_params::table;
use proptest::prelude::*;

use super::*;
use crate::ClientError;

const SHORTINT: &str = "TOY_MESSAGE_2_CARRY_2";
const BOOLEAN: &str = "TOY_BOOLEAN";

fn builder(set: &str) -> ProgramBuilder {
    ProgramBuilder::new(table::by_name(set).expect("a set of that name"))
}

/// Evaluates a checked program on clear values, operation by operation.
fn evaluate(program: &Program, inputs: &[u64]) -> Vec<u64> {
    let mut values = inputs.to_vec();
    let bit = |value: u64| value == 1;
    for operation in program.checked.operations() {
        let arguments: Vec<u64> = operation.arguments.iter().map(|&value| values[value]).collect();
        match (operation.kind, &arguments[..]) {
            (Kind::Lookup, [x]) => values.push(operation.tables[0][*x as usize]),
            (Kind::LookupBivariate, [x, y]) => values.push(operation.tables[0][(x * 4 + y) as usize]),
            (Kind::LookupMany, [x]) => values.extend(operation.tables.iter().map(|table| table[*x as usize])),
            (Kind::Not, [x]) => values.push(1 - x),
            (Kind::Mux, [c, x, y]) => values.push(if bit(*c) { *x } else { *y }),
            (kind, [x, y]) => {
                let gate = Gate::ALL.into_iter().find(|gate| gate::kind(*gate) == kind).expect("a gate");
                values.push(gate.evaluate(bit(*x), bit(*y)).into());
            }
            (kind, _) => panic!("{kind:?}"),
        }
    }
    // The checked program does not expose the numbers of its outputs, so read them from the
    // message.
    let message = wire::Program::decode(&program.bytes[..]).expect("a program");
    message.outputs.iter().map(|&value| values[value as usize]).collect()
}

proptest! {
    #[test]
    fn built_programs_compute_their_functions(
        x in 0_u64..4, y in 0_u64..4,
        one in prop::collection::vec(0_u64..16, 16), both in prop::collection::vec(0_u64..16, 16),
        many in prop::collection::vec(prop::collection::vec(0_u64..16, 4), 4),
    ) {
        let mut program = builder(SHORTINT);
        let (left, right) = (program.input("x"), program.input("y"));
        let looked_up = program.lookup(left, |x| one[x as usize]);
        let pair = program.bivariate(left, right, |x, y| both[(x * 4 + y) as usize]);
        let functions: Vec<Box<dyn Fn(u64) -> u64>> =
            many.iter().cloned().map(|table| Box::new(move |x: u64| table[x as usize]) as Box<_>).collect();
        let functions: Vec<&dyn Fn(u64) -> u64> = functions.iter().map(|function| &**function).collect();
        let several = program.many(right, &functions);
        let again = program.lookup(several[3], |x| 15 - x);
        for value in [looked_up, pair, again].into_iter().chain(several) {
            program.output(value);
        }
        let program = program.build().expect("a valid program");
        let mut expected = vec![one[x as usize], both[(x * 4 + y) as usize], 15 - many[3][y as usize]];
        expected.extend(many.iter().map(|table| table[y as usize]));
        prop_assert_eq!(evaluate(&program, &[x, y]), expected);
        prop_assert_eq!((program.inputs(), program.outputs()), (2, 7));
        // The count is lower if a table is constant, or if two tables are equal.
        prop_assert!(program.pbs_count(1) <= 4);
    }
}

#[test]
fn gates_compute_their_truth_tables() {
    let mut program = builder(BOOLEAN);
    let bits = ["c", "x", "y"].map(|name| program.input(name));
    let mut outputs: Vec<Value> = Gate::ALL.map(|gate| program.gate(gate, bits[1], bits[2])).to_vec();
    outputs.push(program.not(bits[0]));
    outputs.push(program.mux(bits[0], bits[1], bits[2]));
    outputs.into_iter().for_each(|value| program.output(value));
    let program = program.build().expect("a valid program");
    for number in 0..8_u64 {
        let [c, x, y] = [number >> 2 & 1, number >> 1 & 1, number & 1];
        let mut expected: Vec<u64> = Gate::ALL.map(|gate| gate.evaluate(x == 1, y == 1).into()).to_vec();
        expected.extend([1 - c, if c == 1 { x } else { y }]);
        assert_eq!(evaluate(&program, &[c, x, y]), expected);
    }
    // Each gate takes one bootstrap, the selection three, the negation none.
    assert_eq!(program.pbs_count(1), 9);
}

#[test]
fn invalid_programs_are_refused_by_the_builder() {
    let refused = |build: fn(&mut ProgramBuilder)| {
        let mut program = builder(SHORTINT);
        build(&mut program);
        match program.build() {
            Err(ClientError::Program(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|_| {}), "the program has no outputs");
    let too_large = refused(|program| {
        let x = program.input("x");
        let y = program.lookup(x, |x| x + 2_u64.pow(40));
        program.output(y);
    });
    assert!(too_large.contains("blocks hold 0 to 15"), "{too_large}");
    let carry = refused(|program| {
        let x = program.input_up_to("x", 15);
        let y = program.bivariate(x, x, |x, _| x);
        program.output(y);
    });
    assert!(carry.contains("must stay below 4"), "{carry}");
    let gate = refused(|program| {
        let x = program.input("x");
        let y = program.not(x);
        program.output(y);
    });
    assert!(gate.contains("not blocks"), "{gate}");
    let many = refused(|program| {
        let x = program.input("x");
        program.output(x);
        program.many(x, &[]);
    });
    assert!(many.contains("0 tables"), "{many}");
}

#[test]
fn gates_are_parsed_from_their_names() {
    for gate in Gate::ALL {
        assert_eq!(gate.to_string().to_lowercase().parse(), Ok(gate));
    }
    assert!("NOT".parse::<Gate>().is_err());
}
