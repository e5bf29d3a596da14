//! Puts the built console into the program, if it has been built.
//!
//! `server/console/build.sh` builds the console. A program without the console works, and shows a
//! page that says so at its place. A build of Rust alone therefore needs no npm.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let built = match env::var_os("CLOAKWORK_CONSOLE_DIST") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("console/dist"),
    };
    println!("cargo::rerun-if-env-changed=CLOAKWORK_CONSOLE_DIST");
    println!("cargo::rerun-if-changed={}", built.display());
    let mut files = Vec::new();
    if built.is_dir() {
        collect(&built, &built, &mut files)?;
    }
    files.sort();
    let mut table = String::from("pub(super) const FILES: &[(&str, &[u8])] = &[\n");
    for (name, path) in files {
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),")?;
    }
    table.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("console.rs"), table)?;
    Ok(())
}

/// Finds all files below a directory, with their names relative to `root`.
fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, PathBuf)>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            let name = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
            files.push((name, fs::canonicalize(&path)?));
        }
    }
    Ok(())
}
