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
    keys::{UNFINISHED_SUFFIX, client_key_path},
};

impl CkksKeys {
    /// Reads a directory of keys. Parts are checked by their headers; their bytes are read on
    /// upload.
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

/// Purpose and level of a part, read from its header.
fn shape(file: File, set: &CkksSet, expected: &Expected) -> Result<KeyShape> {
    let envelope = EnvelopeReader::open(file)?;
    conform(envelope.header(), ObjectKind::SeededCkksSwitchKey, expected)?;
    Ok(KeyShape::of(set, &envelope.header().dimensions)?)
}

pub(super) fn part(set: &'static CkksSet, shape: KeyShape, source: Source) -> Part {
    Part { kind: ObjectKind::SeededCkksSwitchKey, set: AnySet::Ckks(set), shape: Some(shape), source }
}

/// Path of a part.
pub(super) fn part_path(directory: &Path, set: &CkksSet, purpose: Purpose) -> PathBuf {
    let name = match purpose {
        Purpose::Relinearization => "products".to_owned(),
        Purpose::Move { power } => format!("move-{power}"),
        Purpose::ToSparse => "to-sparse".to_owned(),
        Purpose::ToDense => "to-dense".to_owned(),
    };
    directory.join(format!("{}.{name}", set.name))
}

/// Removes files that an interrupted generation left. The client key is written last, and parts
/// without it are useless. Parts of a different key would conflict with the new ones.
pub(super) fn remove_parts(directory: &Path, set: &CkksSet) -> Result<()> {
    for path in files(directory, set)? {
        std::fs::remove_file(&path).map_err(|error| ClientError::io(&path, &error))?;
    }
    Ok(())
}

/// Files of complete parts.
fn part_files(directory: &Path, set: &CkksSet) -> Result<Vec<PathBuf>> {
    let is_whole = |path: &PathBuf| !path.to_string_lossy().ends_with(UNFINISHED_SUFFIX);
    Ok(files(directory, set)?.into_iter().filter(is_whole).collect())
}

/// Files with names of parts.
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
