use cloakwork_client::{Type, set_by_name};

use super::{
    compile::{OF_ONE, OF_TWO},
    names::FUNCTIONS,
    *,
};

fn compiled(text: &str, arguments: &[&str]) -> Result<Compiled, String> {
    let arguments: Vec<Argument> = arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    compile(text, set_by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy"), &arguments)
}

fn output(text: &str) -> Result<Type, String> {
    compiled(text, &["x=u64:7", "y=u32:9", "z=i8:-1", "b=bool:true"]).map(|compiled| compiled.output)
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
    ] {
        assert_eq!(output(text), Ok(ty), "{text}");
    }
}

#[test]
fn refusals_say_where_and_what() {
    for (text, problem) in [
        ("", "at 0: expected a number, a name, '-', '!' or '('"),
        ("x +", "at 3: expected a number, a name, '-', '!' or '('"),
        ("x $ y", "at 2: '$' is no part of an expression"),
        ("(x", "at 2: expected ')'"),
        ("x y", "at 2: expected an operator, or the end"),
        ("x < y < x", "at 6: comparisons cannot be chained: put one of them in parentheses"),
        ("x = y", "at 2: '=' is no part of an expression: equality is =="),
        ("w + 1", "at 0: 'w' has no value: give it as w=u64:7"),
        ("1 + 2", "at 0: 1 of which type? Write u64(1), for one"),
        ("x + z", "at 2: u64 and i8 do not go together: a cast makes one the other, as in i64(x)"),
        ("z + 128", "at 4: '128' is no i8: -128 to 127"),
        ("x << -1", "at 5: '-1' is no u16: 0 to 65535"),
        ("b && x", "at 2: bool and u64 do not go together: a comparison makes a bool, as in x != 0"),
        ("max(x, y, z)", "at 0: 'max' of 3 arguments is not known: it is written max(x, y)"),
        (
            "match(x, 1, y)",
            "at 0: 'match' of 3 arguments is not known: it is written match(x, key, result, .., otherwise)",
        ),
        ("lookup(b, x, x, x)", "at 0: 3 results for a bool: at most 2"),
        ("mul_div(u256(x), x, x)", "at 0: mul_div takes integers of up to 128 bits, not u256"),
        ("aes128(x, x)", "at 0: it takes a key and a block of type u128, not u64"),
        ("f(x)", "at 0: 'f' of 1 arguments is not known: `cloakwork eval --help` lists what is"),
        ("pow(x, x)", "at 0: 'pow' of 2 arguments is not known: it is written x * x"),
        ("negative(x)", "at 0: 'negative' of 1 arguments is not known: `cloakwork eval --help` lists what is"),
        ("y + abs(u32(x))", "at 4: it takes signed integers, not u32"),
        ("b && min(b, b) == b", "at 5: it takes integers, not bool"),
        ("bool(x)", "at 5: u64 is no bool: compare it, as in x != 0"),
    ] {
        assert_eq!(output(text), Err(problem.to_owned()), "{text}");
    }
}

#[test]
fn arguments_are_checked() {
    for (text, problem) in [
        ("x", "'x': expected NAME=TYPE:VALUE, as in x=u64:7"),
        ("1=u8:1", "'1=u8:1': expected NAME=TYPE:VALUE, as in x=u64:7"),
        ("x=u7:1", "'u7' is no type: there are bool, and u2, u4 .. u256 and i2, i4 .. i256"),
        ("x=u8:256", "'256' is no u8: 0 to 255"),
        ("x=u64", "'x=u64' has no value: expected NAME=TYPE:VALUE, as in x=u64:7"),
        ("x=u8:", "'x=u8:' has no value: expected NAME=TYPE:VALUE, as in x=u64:7"),
        ("x=7:u8", "'x=7:u8': the type comes first, as in x=u8:7"),
    ] {
        assert_eq!(text.parse::<Argument>().err().as_deref(), Some(problem));
    }
    let rows: Argument = "x=i8:1,-2,3".parse().expect("three values");
    assert_eq!((rows.ty, rows.values.len()), (Type::Int(8), 3));
    assert!(compiled("x", &["x=u8:1", "x=u8:2"]).is_err_and(|problem| problem == "'x' is given twice"));
}

#[test]
fn deep_expressions_are_refused_not_overflowed() {
    let deep = format!("{}x{}", "(".repeat(300), ")".repeat(300));
    assert_eq!(output(&deep), Err("nested deeper than 100".to_owned()));
    assert!(output(&"-".repeat(900)).is_err());
    assert_eq!(output(&"-".repeat(1001)), Err("1001 characters: an expression may have 1000".to_owned()));
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
