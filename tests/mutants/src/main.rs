//! Puts mutants of a source tree behind switches that are set at run time.
//!
//! One build of the tree then serves for all of its mutants. The program takes the root of the
//! tree and the path of a library's `lib.rs` in it. From its input, the program reads a JSON list
//! of mutants of the library, and edits their files. For each file, its output lists the inserted
//! texts: the number of a mutant, and the bytes in the edited file. A mutant without an inserted
//! text cannot be switched.

#![forbid(unsafe_code)]

mod insertion;
mod mutant;
mod place;
mod switch;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::{insertion::Inserted, mutant::Mutant};

/// Added to the library. A switched expression asks this function whether its mutant is active.
const SWITCH: &str = "
pub(crate) fn mutant(number: u32) -> bool {
    static ACTIVE: std::sync::LazyLock<Option<u32>> =
        std::sync::LazyLock::new(|| std::env::var(\"ACTIVE_MUTANT\").ok()?.parse().ok());
    *ACTIVE == Some(number)
}
";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (Some(root), Some(library)) = (arguments.next(), arguments.next()) else {
        return Err("usage: cloakwork-tests-mutants ROOT LIBRARY < MUTANTS".into());
    };
    let mut files: BTreeMap<PathBuf, Vec<Mutant>> = BTreeMap::new();
    for mutant in serde_json::from_reader::<_, Vec<Mutant>>(io::stdin().lock())? {
        files.entry(mutant.file.clone()).or_default().push(mutant);
    }
    let mut inserted = BTreeMap::new();
    for (file, mutants) in files {
        let texts = edit(&root.join(&file), &mutants).map_err(|error| format!("{}: {error}", file.display()))?;
        inserted.insert(file, texts);
    }
    fs::OpenOptions::new().append(true).open(root.join(library))?.write_all(SWITCH.as_bytes())?;
    serde_json::to_writer(io::stdout().lock(), &inserted)?;
    Ok(())
}

fn edit(path: &Path, mutants: &[Mutant]) -> Result<Vec<Inserted>, Box<dyn Error>> {
    let (edited, inserted) = switch::switched(&fs::read_to_string(path)?, mutants)?;
    fs::write(path, edited)?;
    Ok(inserted)
}
