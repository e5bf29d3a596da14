//! CKKS keys on disk: `client.key`, and a file for each part of the evaluation key.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use cloakwork_params::{
    AnySet, EnvelopeReader, ObjectKind,
    ckks::{
        CkksSet,
        layout::{Expected, KeyShape, Purpose, conform},
    },
};
use cloakwork_secret::ckks::SecretKey;

use super::CkksKeys;
use crate::{
    ClientError, Part, Result, Source,
    keys::{UNFINISHED, client_key_path},
};

impl CkksKeys {
    /// Reads a directory of keys. Parts are checked by their headers; their bytes are read when they are uploaded.
    pub fn load(directory: &Path, passphrase: Option<&str>) -> Result<Self> {
        let key = SecretKey::load(&client_key_path(directory), passphrase)?;
        let expected = Expected { set: Some(key.set()), key_id: Some(key.key_id()) };
        let mut parts = Vec::new();
        for path in part_files(directory, key.set())? {
            let file = File::open(&path).map_err(|error| ClientError::io(&path, &error))?;
            let shape = shape(file, key.set(), &expected).map_err(|error| error.of_part(&path))?;
            parts.push(part(key.set(), shape, Source::File(path)));
        }
        parts.sort_by_key(|part| part.shape);
        Ok(Self { key, parts, ring: OnceLock::new() })
    }
}

/// What a part is for, by its header.
fn shape(file: File, set: &CkksSet, expected: &Expected) -> Result<KeyShape> {
    let envelope = EnvelopeReader::open(file)?;
    conform(envelope.header(), ObjectKind::SeededCkksSwitchKey, expected)?;
    Ok(KeyShape::of(set, &envelope.header().dimensions)?)
}

pub(super) fn part(set: &'static CkksSet, shape: KeyShape, source: Source) -> Part {
    Part { kind: ObjectKind::SeededCkksSwitchKey, set: AnySet::Ckks(set), shape: Some(shape), source }
}

/// Where a part is.
pub(super) fn part_path(directory: &Path, set: &CkksSet, purpose: Purpose) -> PathBuf {
    let name = match purpose {
        Purpose::Relinearization => "products".to_owned(),
        Purpose::Move { power } => format!("move-{power}"),
        Purpose::ToSparse => "to-sparse".to_owned(),
        Purpose::ToDense => "to-dense".to_owned(),
    };
    directory.join(format!("{}.{name}", set.name))
}

/// Removes what an interrupted generation left: without the client key that comes last, parts are of no use, and another
/// key's would be in the way.
pub(super) fn remove_parts(directory: &Path, set: &CkksSet) -> Result<()> {
    for path in files(directory, set)? {
        std::fs::remove_file(&path).map_err(|error| ClientError::io(&path, &error))?;
    }
    Ok(())
}

/// The files of whole parts.
fn part_files(directory: &Path, set: &CkksSet) -> Result<Vec<PathBuf>> {
    let is_whole = |path: &PathBuf| !path.to_string_lossy().ends_with(UNFINISHED);
    Ok(files(directory, set)?.into_iter().filter(is_whole).collect())
}

/// The files that are called as parts are.
fn files(directory: &Path, set: &CkksSet) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| ClientError::io(directory, &error);
    let prefix = format!("{}.", set.name);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&prefix)) {
            files.push(directory.join(name));
        }
    }
    Ok(files)
}
