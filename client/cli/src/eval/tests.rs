use cloakwork_client::{Integer, Program, RowType, Type, set_by_name};

use super::{
    names::FUNCTIONS,
    operations::{OF_ONE, OF_TWO},
    *,
};

fn compiled(text: &str, arguments: &[&str]) -> Result<Program, String> {
    let arguments: Vec<Argument> = arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    compile(text, set_by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy"), &arguments)
        .map_err(|problem| problem.to_string())
}

/// Compiles with those arguments whose names occur in the text.
fn program(text: &str) -> Result<Program, String> {
    let names = ["x=u64:7", "y=u32:9", "z=i8:-1", "b=bool:true", "v=u8:[1,2,3,4,5]", "w=u16:[1,2,3,4,5]", "n=u8:[1]"];
    let words: Vec<&str> = text.split(|char: char| !char.is_ascii_alphanumeric()).collect();
    let used = names.into_iter().filter(|name| words.contains(&&name[..1]));
    compiled(text, &used.collect::<Vec<_>>())
}

fn outputs(text: &str) -> Result<String, String> {
    let types = program(text)?.output_types();
    Ok(types.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn output(text: &str) -> Result<Type, String> {
    program(text).map(|program| program.output_types()[0].ty)
}

#[test]
fn types_follow_from_operands() {
    for (text, ty) in [
        ("x", Type::Uint(64)),
        ("x + y", Type::Uint(64)),
        ("max(x, y) * 3 + (y >> 2)", Type::Uint(64)),
        ("y >> x", Type::Uint(32)),
        ("1 + y", Type::Uint(32)),
        ("-z", Type::Int(8)),
        ("-1 - z", Type::Int(8)),
        ("x < y", Type::Bool),
        ("b && x == 3 || !b", Type::Bool),
        ("select(x > 5, y, 0)", Type::Uint(32)),
        ("u8(300 + x)", Type::Uint(8)),
        ("i16(z) * i16(y)", Type::Int(16)),
        ("sum(x, y, 1, 2)", Type::Uint(64)),
        ("rotl(y, 3) ^ 0xff", Type::Uint(32)),
        ("u4(3)", Type::Uint(4)),
        ("x / 3 % 7", Type::Uint(64)),
        ("abs(z) / -2", Type::Int(8)),
        ("count_ones(x) + 1", Type::Uint(32)),
        ("u64(leading_zeros(z)) + reverse_bits(x)", Type::Uint(64)),
        ("dot(x, 3, y, y)", Type::Uint(64)),
        ("is_one_of(z, 1, -5, z) && is_even(y)", Type::Bool),
        ("match(y, 1, z, 2, 9, -1)", Type::Int(8)),
        ("u10(lookup(u2(x), 700, 1, 2))", Type::Uint(10)),
        ("mul_div(x, y, 3)", Type::Uint(64)),
        ("ilog2(z) + 1", Type::Uint(32)),
        ("u128(x) ^ aes128(u128(y), 0xff)", Type::Uint(128)),
        ("1 + 2", Type::Uint(64)),
        ("select(x > 5, 3, select(b, 2, 1))", Type::Uint(64)),
        ("u8(y) + select(b, 1, 0)", Type::Uint(8)),
        ("y - 7 > 18 * 365", Type::Bool),
        ("i8(z) - (1 << 3) + min(4, 5)", Type::Int(8)),
        ("lookup(u2(x), 0, 1, 4, 9)", Type::Uint(64)),
        ("u8(match(y, 1, 100, 2, 80, 60))", Type::Uint(8)),
    ] {
        assert_eq!(output(text), Ok(ty), "{text}");
    }
}

#[test]
fn operations_on_an_array_apply_to_its_elements() {
    for (text, types) in [
        ("v", "u8[5]"),
        ("v + w", "u16[5]"),
        ("w * x", "u64[5]"),
        ("2 * v - 1", "u8[5]"),
        ("-v << 1", "u8[5]"),
        ("v > 3", "bool[5]"),
        ("select(v > 3, v, w)", "u16[5]"),
        ("select(b, v, 0)", "u8[5]"),
        ("u32(v)", "u32[5]"),
        ("is_odd(v)", "bool[5]"),
        ("ilog2(w)", "u32[5]"),
        ("mul_div(v, 3, 5)", "u8[5]"),
        ("match(v, 1, w, 0)", "u16[5]"),
        ("lookup(u2(v), 5, 6, x)", "u64[5]"),
        ("[x, 1, 2]", "u64[3]"),
        ("[x > 1, b]", "bool[2]"),
        ("[1, 2] + u8(x)", "u8[2]"),
        ("v[0] + w[4]", "u16"),
        ("(v * w)[1]", "u16"),
        ("v[x]", "u8"),
        ("v[0x4] + v[0_1]", "u8"),
        ("v[w]", "u8[5]"),
        ("u8(max([1, 2]))", "u8"),
        ("is_one_of(v, 1, w)", "bool[5]"),
        ("[x, 9][u2(z)]", "u64"),
        ("u8(x) + [1, 2]", "u8[2]"),
        ("[1, 2, 3]", "u64[3]"),
        ("sum(v)", "u8"),
        ("sum(v, w, x)", "u64"),
        ("dot(v, w)", "u16"),
        ("dot([x, 1], [2, x])", "u64"),
        ("max(v) - min(w)", "u16"),
        ("min(n)", "u8"),
        ("is_one_of(x, w)", "bool"),
        ("is_one_of(v[0], v[1], w)", "bool"),
        ("x / 3; x % 3", "u64; u64"),
        ("v; b; ilog2(x); x != 0", "u8[5]; bool; u32; bool"),
    ] {
        assert_eq!(outputs(text).as_deref(), Ok(types), "{text}");
    }
}

/// Outputs of a program on one row, computed in the clear, with a line for each output.
fn evaluated(text: &str, arguments: &[&str]) -> Vec<String> {
    let program = compiled(text, arguments).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    let checked = cloakwork_circuit::Program::decode(program.bytes(), &cloakwork_circuit::LIMITS).expect("a program");
    let step = program.set().plaintext_step();
    let arguments = arguments.iter().map(|text| text.parse::<Argument>().expect("an argument"));
    let phases = arguments.flat_map(|argument| {
        let digits = |value: &Integer| value.digits(argument.ty).map(|digit| digit * step).collect::<Vec<_>>();
        argument.values.iter().flat_map(digits).collect::<Vec<_>>()
    });
    let graph = checked.lower(cloakwork_circuit::Goal::Work);
    let outputs = graph.evaluate(&phases.collect::<Vec<_>>()).expect("it runs");
    let mut digits = outputs.iter().map(|phase| phase / step);
    let show = |row: RowType| {
        let mut value = || {
            let digits: Vec<u64> = digits.by_ref().take(row.ty.blocks()).collect();
            Integer::from_digits(&digits, row.ty).display(row.ty)
        };
        (0..row.values()).map(|_| value()).collect::<Vec<_>>().join(",")
    };
    program.output_types().into_iter().map(show).collect()
}

#[test]
fn array_expressions_have_the_expected_values() {
    let (xs, ys, i) = ("xs=u8:[5,3,3,9]", "ys=u8:[1,2,3,4]", "i=u8:2");
    for (text, arguments, expected) in [
        ("xs * 2 + ys", &[xs, ys][..], &["11,8,9,22"][..]),
        ("dot(xs, ys)", &[xs, ys], &["56"]),
        ("dot(xs, ys, ys, ys)", &[xs, ys], &["86"]),
        ("dot(xs, ys, i, i)", &[xs, ys, i], &["60"]),
        ("sum(xs, ys, i)", &[xs, ys, i], &["32"]),
        ("min(xs); max(xs)", &[xs], &["3", "9"]),
        ("is_one_of(3, xs); is_one_of(4, xs)", &[xs], &["true", "false"]),
        ("is_one_of(xs, ys, 9)", &[xs, ys], &["false,true,true,true"]),
        ("xs[3]; xs[i]; xs[ys]; xs[0x1]", &[xs, i, ys], &["9", "3", "3,3,9,0", "3"]),
        ("select(xs > ys, xs, 0)", &[xs, ys], &["5,3,0,9"]),
        ("lookup(i, xs, 7)", &[i, xs], &["3"]),
        ("lookup(ys, xs)", &[ys, xs], &["3,3,9,0"]),
        ("match(xs, 3, ys, 9, 100, 200)", &[xs, ys], &["200,2,3,100"]),
        ("[i, 1, i * i]; is_odd([i, 1, 7])", &[i], &["2,1,4", "false,true,true"]),
        ("ilog2(xs); mul_div(xs, 100, ys)", &[xs, ys], &["2,1,1,3", "244,150,100,225"]),
        ("-xs >> 1; i16(xs) - 6", &[xs], &["125,126,126,123", "-1,-3,-3,3"]),
    ] {
        assert_eq!(evaluated(text, arguments), expected, "{text}");
    }
}

#[test]
fn errors_name_the_place_and_the_problem() {
    for (text, problem) in [
        ("", "at 0: expected a number, a name, '-', '!', '(' or '['"),
        ("x +", "at 3: expected a number, a name, '-', '!', '(' or '['"),
        ("x $ y", "at 2: '$' is no part of an expression"),
        ("(x", "at 2: expected ')'"),
        ("x y", "at 2: expected an operator, or the end"),
        ("x < y < x", "at 6: comparisons cannot be chained: put one of them in parentheses"),
        ("x = y", "at 2: '=' is no part of an expression: equality is =="),
        ("q + 1", "at 0: 'q' has no value: give it as q=u64:7"),
        ("x + z", "at 2: u64 and i8 do not go together: cast one of the operands, as in i64(x)"),
        ("z + 128", "at 4: '128' is no i8: -128 to 127; the other operand can be widened, as in i16(x)"),
        ("x << -1", "at 5: '-1' is no u32: 0 to 4294967295"),
        ("b && x", "at 2: bool and u64 do not go together: a comparison makes a bool, as in x != 0"),
        ("max(x, y, z)", "at 0: 'max' of 3 arguments is not known: it is written max(x, y)"),
        (
            "match(x, 1, y)",
            "at 0: 'match' of 3 arguments is not known: it is written match(x, key, result, .., otherwise)",
        ),
        ("lookup(b, x, x, x)", "at 0: 3 values for an index of type bool: at most 2"),
        ("mul_div(u256(x), x, x)", "at 0: mul_div takes integers of up to 128 bits, not u256"),
        ("aes128(x, x)", "at 0: it takes a key and a block of type u128, not u64"),
        ("f(x)", "at 0: 'f' of 1 argument is not known: `cloakwork eval --help` lists the functions"),
        ("pow(x, x)", "at 0: 'pow' of 2 arguments is not known: it is written x * x"),
        ("negative(x)", "at 0: 'negative' of 1 argument is not known: `cloakwork eval --help` lists the functions"),
        ("y + abs(u32(x))", "at 4: it takes signed integers, not u32"),
        ("b && min(b, b) == b", "at 5: it takes integers, not bool; a cast makes it one, as in u8(x)"),
        ("bool(x)", "at 5: u64 is no bool: compare it, as in x != 0"),
        ("v + n", "at 2: arrays of 5 and 1 elements do not go together"),
        ("dot(v, n)", "at 0: 5 and 1 elements do not go together"),
        ("dot(v, x)", "at 0: 5 and 1 elements do not go together"),
        ("dot(v, v, v)", "at 0: 'dot' of 3 arguments is not known: it is written dot(x, y, ..)"),
        ("v[5]", "at 2: there is no element 5: 0 to 4"),
        ("v[-1]", "at 2: there is no element -1: 0 to 4"),
        ("x[0]", "at 1: only an array has elements"),
        ("v[u2(x)]", "at 2: 5 values for an index of type u2: at most 4"),
        ("[]", "at 0: an array without elements"),
        ("[x, v]", "at 4: an array in an array: its elements are numbers"),
        (
            "max(x)",
            "at 0: max of a single number: it takes several, or an array, as in x=u8:[1,2,3]; x=u8:1,2,3 is three rows",
        ),
        ("x and b", "at 2: 'and' is written &&"),
        ("v[b]", "at 2: the index of an element is an unsigned integer, not bool"),
        ("v[z]", "at 2: the index of an element is an unsigned integer, not i8"),
        ("aes128(u128(x), x)", "at 0: it takes a key and a block of type u128, not u64"),
        ("v[1", "at 3: expected ']'"),
        ("x;", "at 2: expected a number, a name, '-', '!', '(' or '['"),
    ] {
        assert_eq!(output(text), Err(problem.to_owned()), "{text}");
    }
}

#[test]
fn arguments_are_checked() {
    for (text, problem) in [
        ("x", "'x': expected NAME=TYPE:VALUE, as in x=u64:7"),
        ("1=u8:1", "'1' is not a name: a name has letters, digits and _, and does not begin with a digit"),
        ("x=u7:1", "'u7' is not a type: types are bool, u2, u4 .. u256 and i2, i4 .. i256"),
        ("x=u8:256", "'256' is no u8: 0 to 255"),
        ("x=u64", "'x=u64' has no value: expected NAME=TYPE:VALUE, as in x=u64:7"),
        ("x=u8:", "'x=u8:' has no value: expected NAME=TYPE:VALUE, as in x=u64:7"),
        ("x=7:u8", "'x=7:u8': the type comes first, as in x=u8:7"),
        ("x=u8:[]", "the arrays of x: one has no elements"),
        ("x=u8:[1,2", "the arrays of x: expected x=u8:[1,2,3], or several with commas between them"),
        ("x=u8:[1][2]", "the arrays of x: expected x=u8:[1,2,3], or several with commas between them"),
        ("x=u8:[1,2],[3]", "the arrays of x have 2 and 1 elements: expected as many in each"),
    ] {
        assert_eq!(text.parse::<Argument>().err().as_deref(), Some(problem));
    }
    let rows: Argument = "x=i8:1,-2,3".parse().expect("three values");
    assert_eq!((rows.ty, rows.length, rows.rows()), (Type::Int(8), None, 3));
    let arrays: Argument = "x=u8:[1,2,3], [4,5,6]".parse().expect("two arrays");
    assert_eq!((arrays.length, arrays.rows(), arrays.values.len()), (Some(3), 2, 6));
    assert!(compiled("x", &["x=u8:1", "x=u8:2"]).is_err_and(|problem| problem == "'x' is given twice"));
    let unused = compiled("x", &["x=u8:1", "y=u8:2"]).expect_err("it is a mistake");
    assert_eq!(unused, "'y' has a value, but the expression does not use it");
}

#[test]
fn deep_expressions_are_refused_not_overflowed() {
    let deep = format!("{}x{}", "(".repeat(300), ")".repeat(300));
    assert_eq!(output(&deep), Err("nested deeper than 100".to_owned()));
    assert!(output(&"-".repeat(900)).is_err());
    assert_eq!(
        output(&"-".repeat(1001)),
        Err("1001 bytes: an expression may have 1000; a long table may be an array".to_owned())
    );
}

#[test]
fn help_names_every_function() {
    use clap::CommandFactory as _;

    let mut command = crate::args::Args::command();
    let eval = command.find_subcommand_mut("eval").expect("a command");
    let help = eval.render_long_help().to_string();
    for (name, ..) in OF_ONE.iter().chain(OF_TWO) {
        assert!(help.contains(name), "{name}");
        let is_word = name.starts_with(|char: char| char.is_ascii_alphabetic());
        assert!(!is_word || FUNCTIONS.iter().any(|function| function.starts_with(&format!("{name}("))), "{name}");
    }
    for function in FUNCTIONS {
        let name = function.split('(').next().expect("a name");
        assert!(help.contains(name), "{name}");
    }
}
