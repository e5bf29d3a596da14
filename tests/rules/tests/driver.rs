//! Only the adapters in `base/storage` name the database drivers, each its own. All other code uses
//! the crate `cloakwork-storage`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cloakwork_tests_rules::packages;
use serde_json::{Value, json};

/// Each driver as code names it, and the folder of its adapter.
const DRIVERS: [(&str, &str); 2] = [("sqlx", "src/sqlite"), ("tokio_postgres", "src/postgres")];
const DOOR: &str = "cloakwork-storage";

#[test]
fn only_the_storage_crate_depends_on_the_drivers() {
    let packages = packages(&root().join("Cargo.toml"));
    assert_eq!(dependents(&packages), [DOOR]);
    let planted = [
        json!({"name": "cloakwork-server", "dependencies": [{"name": "sqlx", "kind": "dev"}]}),
        json!({"name": "cloakwork-keystore", "dependencies": [{"name": "tokio", "kind": null}]}),
        json!({"name": "cloakwork-client", "dependencies": [{"name": "tokio-postgres", "kind": null}]}),
    ];
    assert_eq!(dependents(&planted), ["cloakwork-server", "cloakwork-client"], "a test that uses a driver counts");
}

#[test]
fn only_its_adapter_names_a_driver() {
    let door = root().join("base/storage");
    let mut sources = Vec::new();
    for directory in ["src", "tests"] {
        collect(&door.join(directory), &mut sources);
    }
    for (driver, adapter) in DRIVERS {
        let (adapter, others): (Vec<_>, Vec<_>) = sources.iter().partition(|path| path.starts_with(door.join(adapter)));
        let names_driver = |path: &&PathBuf| code(&fs::read_to_string(path).expect("a source")).contains(driver);
        assert!(adapter.iter().any(names_driver), "no file of the adapter names {driver}");
        let wrong: Vec<_> = others.into_iter().filter(names_driver).collect();
        assert!(wrong.is_empty(), "{driver}: {wrong:?}");
    }
    assert!(!code("// sqlx\nlet _ = 1;").contains("sqlx") && code("use sqlx::Row; // x").contains("sqlx"));
}

fn dependents(packages: &[Value]) -> Vec<String> {
    let depends = |package: &&Value| {
        package["dependencies"].as_array().expect("a list").iter().any(|dependency| {
            let name = dependency["name"].as_str().expect("a name").replace('-', "_");
            DRIVERS.iter().any(|(driver, _)| *driver == name)
        })
    };
    packages.iter().filter(depends).map(|package| package["name"].as_str().expect("a name").to_owned()).collect()
}

/// The lines that are not comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}
