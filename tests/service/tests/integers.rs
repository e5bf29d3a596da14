//! Encrypted integers through a server: every operation once, on values that wrap around and change
//! sign.

use cloakwork_client::{ClientError, Input, Integer, JobRequest, Kind, ProgramBuilder, Type, Value};
use cloakwork_tests_service::{Server, Setup, Tenant};

/// Values of x and y, as signed numbers of 8 bits.
const ROWS: [(i8, i8); 9] =
    [(0, 0), (1, -1), (-128, 127), (127, 127), (-128, -128), (100, 50), (-7, 3), (5, 2), (-1, 7)];

type Oracle = fn(i8, i8) -> i8;

/// Operations on two numbers, with their results in the clear.
const OPERATIONS: [(Kind, Oracle); 14] = [
    (Kind::Add, |x, y| x.wrapping_add(y)),
    (Kind::Subtract, |x, y| x.wrapping_sub(y)),
    (Kind::Multiply, |x, y| x.wrapping_mul(y)),
    (Kind::Divide, |x, y| if y == 0 { if x < 0 { 1 } else { -1 } } else { x.wrapping_div(y) }),
    (Kind::Remainder, |x, y| if y == 0 { x } else { x.wrapping_rem(y) }),
    (Kind::And, |x, y| x & y),
    (Kind::Or, |x, y| x | y),
    (Kind::Xor, |x, y| x ^ y),
    (Kind::Min, |x, y| x.min(y)),
    (Kind::Max, |x, y| x.max(y)),
    (Kind::Equal, |x, y| (x == y).into()),
    (Kind::NotEqual, |x, y| (x != y).into()),
    (Kind::Less, |x, y| (x < y).into()),
    (Kind::GreaterOrEqual, |x, y| (x >= y).into()),
];

/// Operations on the bits of one number.
const BIT_OPERATIONS: [(Kind, Oracle); 7] = [
    (Kind::ReverseBits, |x, _| x.reverse_bits()),
    (Kind::CountOnes, |x, _| x.count_ones() as i8),
    (Kind::CountZeros, |x, _| x.count_zeros() as i8),
    (Kind::LeadingOnes, |x, _| x.leading_ones() as i8),
    (Kind::LeadingZeros, |x, _| x.leading_zeros() as i8),
    (Kind::TrailingOnes, |x, _| x.trailing_ones() as i8),
    (Kind::TrailingZeros, |x, _| x.trailing_zeros() as i8),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_right_on_few_rows_and_on_many() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let ty = Type::Int(8);
    let mut program = ProgramBuilder::new(tenant.keys.set());
    let (x, y) = (program.fresh("x", ty), program.fresh("y", ty));
    let mut outputs: Vec<(Value, Type, Oracle)> = Vec::new();
    for (kind, oracle) in OPERATIONS {
        let is_comparison = matches!(kind, Kind::Equal | Kind::NotEqual | Kind::Less | Kind::GreaterOrEqual);
        outputs.push((program.apply(kind, &[x, y]), if is_comparison { Type::Bool } else { ty }, oracle));
    }
    let negative = program.apply(Kind::Negate, &[x]);
    outputs.push((negative, ty, |x, _| x.wrapping_neg()));
    let ten = program.constant(ty, &Integer::from(10_i128));
    let tenfold = program.apply(Kind::Multiply, &[x, ten]);
    outputs.push((program.apply(Kind::Add, &[tenfold, y]), ty, |x, y| x.wrapping_mul(10).wrapping_add(y)));
    let by = program.cast(y, Type::Uint(8));
    outputs.push((program.apply(Kind::ShiftRight, &[x, by]), ty, |x, y| x >> (y as u8).min(7)));
    for (kind, oracle) in BIT_OPERATIONS {
        let result = program.apply(kind, &[x]);
        let ty = if kind == Kind::ReverseBits { ty } else { Type::Uint(32) };
        outputs.push((result, ty, oracle));
    }
    let magnitude = program.apply(Kind::Absolute, &[x]);
    outputs.push((magnitude, ty, |x, _| x.wrapping_abs()));
    outputs.iter().for_each(|(value, _, _)| program.output(*value));
    let program = program.build().expect("a program");

    // The server lowers few rows for depth, and many rows for work.
    for count in [3, ROWS.len()] {
        let rows = &ROWS[ROWS.len() - count..];
        let column = |of: fn(&(i8, i8)) -> i8| {
            let values: Vec<Integer> = rows.iter().map(|row| Integer::from(i128::from(of(row)))).collect();
            tenant.keys.encrypt_integers(&values, ty).expect("integers")
        };
        let job =
            JobRequest::new(program.clone(), &tenant.key).encrypted(column(|row| row.0)).encrypted(column(|row| row.1));
        let finished = tenant.client.run(&job).await.expect("the job succeeds");
        assert_eq!(finished.job.pbs_count, program.pbs_count(count as u64) * count as u64);
        for (index, (_, ty, oracle)) in outputs.iter().enumerate() {
            let envelope = tenant.client.output(&finished.output(index).expect("an output")).await.expect("its bytes");
            let got: Vec<String> = tenant
                .keys
                .decrypt_integers(&envelope, *ty)
                .expect("our key")
                .iter()
                .map(|value| value.display(*ty))
                .collect();
            let show = |value: i8| if *ty == Type::Bool { (value != 0).to_string() } else { value.to_string() };
            let expected: Vec<String> = rows.iter().map(|(x, y)| show(oracle(*x, *y))).collect();
            assert_eq!(got, expected, "output {index} of {count} rows");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_result_is_refused_as_a_fresh_input() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let ty = Type::Uint(16);
    let list = |value: u128| tenant.keys.encrypt_integers(&[Integer::from(value)], ty).expect("an integer");
    let mut least = ProgramBuilder::new(tenant.keys.set());
    let (x, y) = (least.fresh("x", ty), least.fresh("y", ty));
    let result = least.apply(Kind::Min, &[x, y]);
    least.output(result);
    let job = JobRequest::new(least.build().expect("a program"), &tenant.key).encrypted(list(500)).encrypted(list(400));
    let stored = tenant.client.run(&job).await.expect("the job succeeds").output(0).expect("an output").message.name;

    // The digits of a result have the noise of a lookup. The next program declares that it accepts
    // them.
    let double = |declare: fn(&mut ProgramBuilder, Type) -> Value| {
        let mut program = ProgramBuilder::new(tenant.keys.set());
        let x = declare(&mut program, ty);
        let sum = program.apply(Kind::Add, &[x, x]);
        program.output(sum);
        JobRequest::new(program.build().expect("a program"), &tenant.key).input(Input::Name(stored.clone()))
    };
    let finished =
        tenant.client.run(&double(|program, ty| program.stored("x", ty, 1))).await.expect("the job succeeds");
    let envelope = tenant.client.output(&finished.output(0).expect("an output")).await.expect("its bytes");
    assert_eq!(tenant.keys.decrypt_integers(&envelope, ty).expect("our key")[0].display(ty), "800");

    let refused = tenant.client.run(&double(|program, ty| program.fresh("x", ty))).await.expect_err("it is not fresh");
    let ClientError::Refused(refusal) = refused else { panic!("the server refuses it") };
    assert_eq!(refusal.reason, "INPUT_INVALID", "{refusal:?}");
}
