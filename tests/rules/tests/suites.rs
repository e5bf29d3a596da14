//! If the tests of a crate form one program, the program compiles and runs every test file.

use std::{fs, path::Path};

use cloakwork_tests_rules::packages;

#[test]
fn every_test_file_is_a_module_of_its_crates_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = 0;
    for package in packages(&root.join("Cargo.toml")) {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let tests = manifest.with_file_name("tests");
        if !fs::read_to_string(manifest).expect("a manifest").contains("autotests = false") {
            continue;
        }
        let program = fs::read_to_string(tests.join("main.rs")).expect("a program");
        for entry in fs::read_dir(&tests).expect("tests") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if path.extension().is_none_or(|extension| extension != "rs") || name == "main" {
                continue;
            }
            files += 1;
            assert!(program.lines().any(|line| line == format!("mod {name};")), "{} is never compiled", path.display());
        }
    }
    assert!(files > 20, "only {files} test files were found");
}
