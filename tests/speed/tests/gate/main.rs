//! The gate: counted instructions must equal those in `figures.toml`, within 3 %.
//!
//! With `CLOAKWORK_UPDATE_SPEED=1`, stores the counts instead.

mod callgrind;
mod figures;
mod program;

use std::{collections::BTreeMap, io::Write, path::Path, process::Command};

use cloakwork_tests_speed::disassembly;
use figures::{Figures, Kernel};

/// Instruction sets whose instructions callgrind counts. Callgrind does not support AVX-512.
const LEVELS: [&str; 2] = ["avx2", "portable"];

#[test]
fn counted_instructions_equal_the_stored_counts() {
    if let Err(reason) = check_machine() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "the gate for speed cannot run: {reason}");
        return print_to_stderr(&format!("*** SKIPPED, the gate for speed: {reason} ***"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("figures.toml");
    let stored = Figures::read(&path);
    let program = program::build();
    let found = Figures {
        compiler: program::compiler(),
        patterns: stored.patterns.clone(),
        callgrind: LEVELS.iter().map(|level| (level.to_string(), callgrind::count_all(&program, level))).collect(),
        avx512: kernels(&program, &stored.patterns),
    };
    if std::env::var_os("CLOAKWORK_UPDATE_SPEED").is_some() {
        return found.write(&path);
    }
    let differences = stored.differences(&found);
    if stored.compiler != found.compiler {
        // Another compiler generates other instructions from the same source, so a comparison says
        // nothing about the source.
        return print_to_stderr(&format!(
            "*** NOT COMPARED, the gate for speed: the figures are of {}, this is {}.\n\
             *** {} figures differ. Store this compiler's: CLOAKWORK_UPDATE_SPEED=1 make speed ***",
            stored.compiler,
            found.compiler,
            differences.len()
        ));
    }
    assert!(
        differences.is_empty(),
        "counted instructions have changed:\n{}\nIf that is meant, store them: CLOAKWORK_UPDATE_SPEED=1 make speed",
        differences.join("\n")
    );
}

/// Checks that the machine can count instructions.
fn check_machine() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("its figures are of x86-64".into());
    }
    #[cfg(target_arch = "x86_64")]
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return Err("this processor has no AVX2".into());
    }
    for (tool, package) in [("valgrind", "valgrind"), ("objdump", "binutils")] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(format!("{tool} is missing: apt-get install {package}"));
        }
    }
    Ok(())
}

/// All functions with wide instructions whose name contains one of `patterns`.
fn kernels(program: &Path, patterns: &[String]) -> BTreeMap<String, Kernel> {
    let functions = disassembly::functions(program).expect("objdump reads what cargo has built");
    let mut kernels = BTreeMap::new();
    for function in functions {
        let wanted = patterns.iter().any(|pattern| function.name.contains(pattern));
        if wanted && function.counts.wide > 0 {
            // Each codegen unit may have a copy of the function. The largest copy counts.
            let kernel = kernels.entry(function.name).or_insert_with(Kernel::default);
            *kernel = (*kernel).max(function.counts.into());
        }
    }
    for pattern in patterns {
        assert!(kernels.keys().any(|name| name.contains(pattern)), "no kernel has {pattern} in its name");
    }
    kernels
}

/// Prints to stderr directly, because the test harness hides the captured output of a test that
/// passes.
fn print_to_stderr(text: &str) {
    writeln!(std::io::stderr(), "\n{text}").expect("standard error is open");
}
