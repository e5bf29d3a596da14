//! The compiler forbids unsafe code in every crate, except crates that hold vector kernels, launch
//! CUDA kernels, or call C++ in tests. In each of these crates, unsafe code stays in one module.

use std::path::{Path, PathBuf};

use cloakwork_tests_rules::packages;

/// The crates that may hold unsafe code, each with the path to which unsafe code is limited.
const ALLOWED: &[(&str, &str)] =
    &[("cloakwork-cuda", "src/gpu"), ("cloakwork-math", "src/simd"), ("cloakwork-tests-cuda", "src/emulator")];

#[test]
fn unsafe_code_is_forbidden_outside_of_the_allowed_modules() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    for package in packages(&manifest) {
        let name = package["name"].as_str().expect("a name");
        let directory = Path::new(package["manifest_path"].as_str().expect("a path")).parent().expect("a directory");
        match ALLOWED.iter().find(|(allowed, _)| *allowed == name) {
            Some((_, place)) => stays_in(&directory.join("src"), &directory.join(place)),
            None => forbids(name, &package),
        }
    }
}

fn forbids(name: &str, package: &serde_json::Value) {
    for target in package["targets"].as_array().expect("a list of targets") {
        let root = target["src_path"].as_str().expect("a path");
        let shipped = ["lib", "bin"].iter().any(|kind| target["kind"][0] == *kind);
        if shipped {
            let source = std::fs::read_to_string(root).expect("a readable source file");
            assert!(source.contains("#![forbid(unsafe_code)]"), "{name}: {root} must say #![forbid(unsafe_code)]");
        }
    }
}

fn stays_in(directory: &Path, place: &Path) {
    for file in sources(directory) {
        let source = std::fs::read_to_string(&file).expect("a readable source file");
        let allowed = file.with_extension("") == place || file.starts_with(place);
        assert!(
            allowed || !source.contains("unsafe"),
            "{}: unsafe code belongs in {}",
            file.display(),
            place.display()
        );
    }
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(directory).expect("a readable directory").map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
