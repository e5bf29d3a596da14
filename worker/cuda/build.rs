//! Embeds the kernels if `CLOAKWORK_CUDA_KERNELS` names the directory that build-kernels.sh filled.

use std::{env, fs, path::Path};

fn main() {
    const VARIABLE: &str = "CLOAKWORK_CUDA_KERNELS";
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let kernels = env::var_os(VARIABLE).map(|directory| {
        let file = Path::new(&directory).join("kernels.fatbin");
        let file = file.canonicalize().unwrap_or_else(|error| panic!("{VARIABLE}: {}: {error}", file.display()));
        println!("cargo:rerun-if-changed={}", file.display());
        format!("Some(include_bytes!({file:?}))")
    });
    let line = format!("const KERNELS: Option<&[u8]> = {};\n", kernels.as_deref().unwrap_or("None"));
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("kernels.rs"), line).expect("a directory to write to");
}
