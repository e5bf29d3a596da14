//! Builds and runs the Go program that calls Lattigo.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use cloakwork_ckks::Complex;
use serde_json::{Value, json};

/// A program that computes with Lattigo.
pub(crate) struct Oracle {
    program: PathBuf,
}

impl Oracle {
    /// Builds the program once. Returns `None` where Go is missing, which is an error in CI.
    pub(crate) fn build() -> Option<&'static Self> {
        static ORACLE: OnceLock<Option<Oracle>> = OnceLock::new();
        ORACLE.get_or_init(build).as_ref()
    }

    /// Path of the program, which can bootstrap too.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Encodes numbers. Returns the coefficients, each rounded once.
    pub(crate) fn encode(&self, size_log2: u32, scale_log2: u32, numbers: &[Complex]) -> Vec<i128> {
        let numbers = pairs(numbers);
        let said = self.ask(json!({
            "do": "encode", "size_log2": size_log2, "slots_log2": numbers.len().ilog2(), "scale_log2": scale_log2,
            "numbers": numbers,
        }));
        let coefficients = said["coefficients"].as_array().expect("a list").iter();
        coefficients.map(|digits| digits.as_str().and_then(|digits| digits.parse().ok()).expect("digits")).collect()
    }

    /// Decodes coefficients. Returns the numbers.
    pub(crate) fn decode(&self, coefficients: &[i128], scale_log2: u32, slots_log2: u32) -> Vec<Complex> {
        let digits: Vec<String> = coefficients.iter().map(i128::to_string).collect();
        let said = self.ask(json!({
            "do": "decode", "size_log2": digits.len().ilog2(), "slots_log2": slots_log2, "scale_log2": scale_log2,
            "coefficients": digits,
        }));
        numbers(&said["numbers"])
    }

    /// Encrypts two lists of numbers, computes on them and decrypts the results, all in Lattigo.
    pub(crate) fn compute(
        &self,
        size_log2: u32,
        scale_log2: u32,
        [left, right]: [&[Complex]; 2],
        steps: &[i64],
    ) -> Computed {
        let said = self.ask(json!({
            "do": "compute", "size_log2": size_log2, "slots_log2": left.len().ilog2(), "scale_log2": scale_log2,
            "numbers": pairs(left), "others": pairs(right), "steps": steps,
        }));
        Computed {
            sum: numbers(&said["sum"]),
            product: numbers(&said["product"]),
            conjugates: numbers(&said["conjugates"]),
            rotations: said["rotations"].as_array().expect("a list").iter().map(numbers).collect(),
        }
    }

    fn ask(&self, request: Value) -> Value {
        let mut command = Command::new(&self.program);
        command.arg("oracle").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("what was built starts");
        // The program reads the whole request before it writes, so neither side blocks on a full
        // pipe.
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(request.to_string().as_bytes()).expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "Lattigo refuses {}", request["do"]);
        serde_json::from_slice(&output.stdout).expect("it prints JSON")
    }
}

/// Lattigo's results for two lists of numbers.
pub(crate) struct Computed {
    pub(crate) sum: Vec<Complex>,
    pub(crate) product: Vec<Complex>,
    /// Conjugates of the first list.
    pub(crate) conjugates: Vec<Complex>,
    /// Rotations of the first list, one for each step count.
    pub(crate) rotations: Vec<Vec<Complex>>,
}

fn build() -> Option<Oracle> {
    if Command::new("go").arg("version").output().is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "go is missing: https://go.dev/doc/install");
        // Written straight to stderr, because the test harness hides the captured output of a test
        // that passes.
        writeln!(std::io::stderr(), "\n*** SKIPPED, CKKS against Lattigo: go is missing ***").expect("it is open");
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lattigo");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/lattigo");
    let built = Command::new("go").args(["build", "-buildvcs=false", "-o"]).arg(&program).current_dir(folder).status();
    assert!(built.expect("go runs").success(), "the program that asks Lattigo could not be built");
    Some(Oracle { program })
}

fn pairs(numbers: &[Complex]) -> Vec<[f64; 2]> {
    numbers.iter().map(|number| [number.re, number.im]).collect()
}

fn numbers(list: &Value) -> Vec<Complex> {
    let part = |pair: &Value, index: usize| pair[index].as_f64().expect("a number");
    let list = list.as_array().expect("a list of pairs").iter();
    list.map(|pair| Complex::new(part(pair, 0), part(pair, 1))).collect()
}
