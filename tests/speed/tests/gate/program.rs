//! The counted program, built like the released product.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Builds `speed-case` and returns its path.
pub(crate) fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("speed");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--package", env!("CARGO_PKG_NAME"), "--bin", "speed-case"]);
    cargo.arg("--target-dir").arg(&target).current_dir(env!("CARGO_MANIFEST_DIR"));
    // Settings of a developer or a runner must not influence the instructions. The v0 mangling
    // keeps the type parameters of a kernel in its name.
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "-C symbol-mangling-version=v0");
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("CARGO_PROFILE_") {
            cargo.env_remove(variable);
        }
    }
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "speed-case: {}", String::from_utf8_lossy(&output.stderr));
    target.join("release/speed-case")
}

/// Name of the compiler, with LLVM and host: any difference changes the generated instructions.
pub(crate) fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    name(&String::from_utf8_lossy(&output.stdout))
}

fn name(version: &str) -> String {
    let after = |prefix| version.lines().find_map(|line| line.strip_prefix(prefix)).unwrap_or("of unknown version");
    format!("rustc {}, LLVM {}, {}", after("rustc "), after("LLVM version: "), after("host: "))
}

#[test]
fn compiler_is_named_in_full() {
    let version = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-linux\nLLVM version: 22.1.2\n";
    assert_eq!(name(version), "rustc 1.95.0 (59807616e 2026-04-14), LLVM 22.1.2, x86_64-linux");
}
