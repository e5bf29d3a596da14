//! Limits that are not configurable. The limits are constants in the code; a test compares this
//! table with the constants.

mod operators;
mod others;
mod server;

/// A constant that limits a resource.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// Name of the constant.
    pub name: &'static str,
    /// File that declares the constant.
    pub file: &'static str,
    /// Value of the constant, as written in the file.
    pub value: &'static str,
    /// Description of the limited quantity.
    pub meaning: &'static str,
}

/// Every constant whose name ends in `_MAX`, and others that bound memory or time.
pub fn fixed() -> impl Iterator<Item = &'static Fixed> {
    [server::ROWS, operators::ROWS, others::ROWS].into_iter().flatten()
}

const fn row(name: &'static str, file: &'static str, value: &'static str, meaning: &'static str) -> Fixed {
    Fixed { name, file, value, meaning }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        path::{Path, PathBuf},
    };

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// Name and value of the constant that a line declares.
    fn constant(line: &str) -> Option<(&str, &str)> {
        let (before, rest) = line.split_once("const ")?;
        let declares = before.trim().is_empty() || before.trim_start().starts_with("pub");
        let (name, rest) = rest.split_once(':')?;
        let value = rest.split_once('=')?.1.trim().trim_end_matches(';');
        declares.then_some((name, value))
    }

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn each_row_matches_the_constant_in_the_code() {
        for Fixed { name, file, value, .. } in fixed() {
            let text = std::fs::read_to_string(root().join(file)).unwrap();
            let found = text.lines().filter_map(constant).find(|(found, _)| found == name);
            assert_eq!(found, Some((*name, *value)), "{file}");
        }
    }

    #[test]
    fn every_constant_with_the_suffix_max_has_a_row() {
        let listed: BTreeSet<(PathBuf, &str)> =
            fixed().map(|row| (root().join(row.file).canonicalize().unwrap(), row.name)).collect();
        assert_eq!(listed.len(), fixed().count(), "a constant has two rows");
        let mut files = Vec::new();
        for directory in
            ["server/src", "server/oidc/src", "server/scheduler/src", "keystore/src", "worker/src", "base/storage/src"]
        {
            sources(&root().join(directory), &mut files);
        }
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for (name, _) in text.lines().filter_map(constant).filter(|(name, _)| name.ends_with("_MAX")) {
                let listed = listed.contains(&(file.canonicalize().unwrap(), name));
                assert!(listed, "{} of {} has no row in server/src/limits/fixed.rs", name, file.display());
            }
        }
    }
}
