//! A planted library is switched, compiled and run with each of its mutants.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

const SOURCE: &str = "\
pub fn worth(count: i64, is_open: bool) -> i64 {
    let sign = match count {
        0 => 5,
        some if some > 9 => 2,
        _ => 1,
    };
    if !is_open && count > 0 { 100 - sign * count } else { sign }
}

pub fn main() {
    println!(\"{} {} {}\", worth(0, true), worth(3, false), worth(12, true));
}
";

/// Genre, line, text and its replacement, and the output of the program with this mutant.
const MUTANTS: &[(&str, usize, &str, &str, &str)] = &[
    ("FnValue", 2, "let sign", "7", "7 7 7"),
    ("MatchArm", 3, "0 => 5,", "", "1 97 2"),
    ("MatchArmGuard", 4, "some > 9", "true", "5 94 2"),
    ("BinaryOperator", 4, ">", "<", "5 94 1"),
    ("UnaryOperator", 7, "!", "", "5 1 76"),
    ("BinaryOperator", 7, "&&", "||", "5 97 76"),
    ("BinaryOperator", 7, "*", "+", "5 102 2"),
    // Cannot be switched.
    ("StructField", 7, "sign", "", "5 97 2"),
];

#[test]
fn a_program_behaves_as_its_active_mutant() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("lib.rs");
    fs::write(&file, SOURCE).expect("written");
    let inserted = switch(directory.path());
    let program = directory.path().join("program");
    let built = build(&file, &program);
    assert!(built.success(), "{}", fs::read_to_string(&file).expect("the edited text"));
    assert_eq!(output(&program, None), "5 97 2", "no mutant is active");
    for (index, (genre, .., expected)) in MUTANTS.iter().enumerate() {
        assert_eq!(output(&program, Some(index)), *expected, "mutant {index} of genre {genre}");
        let is_switched = inserted["lib.rs"].as_array().expect("texts").iter().any(|text| text["number"] == index);
        assert_eq!(is_switched, *genre != "StructField", "mutant {index}");
    }
}

fn build(file: &Path, program: &Path) -> ExitStatus {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let options = ["--edition=2024", "--crate-name=planted", "--cap-lints=allow", "-o"];
    Command::new(rustc).args(options).arg(program).arg(file).status().expect("rustc runs")
}

/// Runs the tool on the planted library.
fn switch(root: &Path) -> serde_json::Value {
    let mutants: Vec<_> = MUTANTS.iter().enumerate().map(|(number, mutant)| described(number, mutant)).collect();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_cloakwork-tests-mutants"))
        .arg(root)
        .arg("lib.rs")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tool runs");
    let list = serde_json::to_string(&mutants).expect("a list");
    tool.stdin.take().expect("an input").write_all(list.as_bytes()).expect("read");
    let run = tool.wait_with_output().expect("it ends");
    assert!(run.status.success());
    serde_json::from_slice(&run.stdout).expect("an object")
}

fn described(number: usize, mutant: &(&str, usize, &str, &str, &str)) -> serde_json::Value {
    let &(genre, line, original, replacement, _) = mutant;
    let text = SOURCE.lines().nth(line - 1).expect("a line");
    let column = text.find(original).expect("the text") + 1;
    serde_json::json!({
        "number": number,
        "file": "lib.rs",
        "genre": genre,
        "span": {
            "start": { "line": line, "column": column },
            "end": { "line": line, "column": column + original.len() },
        },
        "replacement": replacement,
    })
}

fn output(program: &Path, active: Option<usize>) -> String {
    let mut command = Command::new(program);
    if let Some(number) = active {
        command.env("ACTIVE_MUTANT", number.to_string());
    }
    let output = command.output().expect("it runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
