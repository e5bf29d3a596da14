//! Keys on disk: `client.key`, and a file for each part of the evaluation key.

use std::{
    fs::{DirBuilder, File},
    path::{Path, PathBuf},
};

use cloakwork_params::{AnySet, EnvelopeReader, Expected, ObjectKind, ParameterSet, layout};
use cloakwork_secret::ClientKey;

use super::{Keys, Part};
use crate::{ClientError, Result, Source};

/// Name of the client key's file.
pub const CLIENT_KEY_FILE: &str = "client.key";

/// The parts that a set needs, and the names of their files.
const PARTS: [(ObjectKind, &str); 2] =
    [(ObjectKind::SeededKeySwitchKey, "key-switch"), (ObjectKind::SeededBootstrapKey, "bootstrap")];

impl Keys {
    /// Reads a directory of keys. Parts are checked by their headers; their bytes are read on
    /// upload.
    pub fn load(directory: &Path, passphrase: Option<&str>) -> Result<Self> {
        let client = ClientKey::load(&client_key_path(directory), passphrase)?;
        let mut parts = Vec::new();
        for set in client.sets() {
            for (kind, _) in PARTS {
                let path = part_path(directory, set, kind);
                check(&path, kind, &Expected { set: Some(set), key_id: Some(client.key_id()) })?;
                parts.push(Part { kind, set: AnySet::Tfhe(set), shape: None, source: Source::File(path) });
            }
        }
        let set = client.first_set();
        Ok(Self { client, parts, set })
    }
}

fn check(path: &Path, kind: ObjectKind, expected: &Expected) -> Result<()> {
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ClientError::KeyPartMissing { path: path.display().to_string() },
        _ => ClientError::io(path, &error),
    })?;
    let conforms = EnvelopeReader::open(file).and_then(|part| layout::conform(part.header(), kind, expected).map(drop));
    conforms.map_err(|error| ClientError::from(error).of_part(path))
}

/// Creates a directory of keys if it does not exist, accessible only to its owner.
pub fn make_directory(directory: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(|error| ClientError::io(directory, &error))
}

/// Replaces the file of the client key atomically.
pub(super) fn replace_client_key(directory: &Path, client: &ClientKey, passphrase: Option<&str>) -> Result<()> {
    let (path, fresh) = (client_key_path(directory), unfinished_path(&client_key_path(directory)));
    match std::fs::remove_file(&fresh) {
        // An interrupted process left this file. The key in use is in the other file.
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(ClientError::io(&fresh, &error)),
    }
    client.save(&fresh, passphrase)?;
    let renamed = std::fs::rename(&fresh, &path).and_then(|()| File::open(directory)?.sync_all());
    renamed.map_err(|error| ClientError::io(&path, &error))
}

pub(crate) fn client_key_path(directory: &Path) -> PathBuf {
    directory.join(CLIENT_KEY_FILE)
}

/// Path of a file while it is being written.
pub(crate) fn unfinished_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED_SUFFIX);
    name.into()
}

/// Suffix of files that are being written.
pub(crate) const UNFINISHED_SUFFIX: &str = ".unfinished";

pub(super) fn part_path(directory: &Path, set: &ParameterSet, kind: ObjectKind) -> PathBuf {
    let name = PARTS.iter().find(|(part, _)| *part == kind).map_or("part", |(_, name)| name);
    directory.join(format!("{}.{name}", set.name))
}
