//! Digests of the parts of evaluation keys, which a client compares with those that workers sign.
//!
//! A key has up to gigabytes. So the digests of a directory's files are kept in a file beside them,
//! and computed again for a file whose size or time of change is another.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use cloakwork_proto::from_hex;

use super::Part;
use crate::{ClientError, Digest, Result, Source, upload::blocking};

/// Name of the file. Each line has a part's digest in hexadecimal, its size, the time of its last
/// change, and the name of its file.
const FILE: &str = "digests";

/// The digest of each part.
pub(crate) async fn digests_of(parts: &[Part]) -> Result<Vec<Digest>> {
    let sources: Vec<Source> = parts.iter().map(|part| part.source.clone()).collect();
    blocking(move || {
        let mut directories = HashMap::new();
        let digests = sources.iter().map(|source| match source {
            Source::Bytes(bytes) => Ok(Digest::of(bytes)),
            Source::File(path) => {
                let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
                directories.entry(directory).or_insert_with_key(|directory| Known::read(directory)).digest(path)
            }
        });
        let digests = digests.collect();
        directories.into_values().for_each(Known::write);
        digests
    })
    .await
}

/// The known digests of a directory's files.
struct Known {
    path: PathBuf,
    files: BTreeMap<String, (Version, Digest)>,
    is_changed: bool,
}

/// Size, and nanoseconds of Unix time of the last change. A file that changes has another version.
type Version = (u64, u128);

impl Known {
    /// Reads the file of digests. A missing or damaged file has none, because all can be computed.
    fn read(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let files = text.lines().filter_map(|line| {
            let mut words = line.splitn(4, ' ');
            let (blake3, size_bytes) = (from_hex(words.next()?)?, words.next()?.parse().ok()?);
            let (changed, name) = (words.next()?.parse().ok()?, words.next()?.to_owned());
            Some((name, ((size_bytes, changed), Digest { blake3, size_bytes })))
        });
        Self { files: files.collect(), path, is_changed: false }
    }

    fn digest(&mut self, path: &Path) -> Result<Digest> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = version(path).map_err(|error| ClientError::io(path, &error))?;
        if let Some((known, digest)) = self.files.get(&name)
            && *known == version
        {
            return Ok(*digest);
        }
        let digest = Digest::of_file(path)?;
        self.files.insert(name, (version, digest));
        self.is_changed = true;
        Ok(digest)
    }

    /// Writes the file of digests if it has changed. A directory that cannot be written to costs
    /// time at the next use, and nothing else.
    fn write(self) {
        if !self.is_changed {
            return;
        }
        let line = |(name, ((size_bytes, changed), digest)): (String, (Version, Digest))| {
            format!("{digest} {size_bytes} {changed} {name}\n")
        };
        let text: String = self.files.into_iter().map(line).collect();
        let fresh = self.path.with_extension(format!("{}", std::process::id()));
        let _ = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &self.path));
    }
}

fn version(path: &Path) -> std::io::Result<Version> {
    let file = fs::metadata(path)?;
    let changed = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok((file.len(), changed))
}

#[cfg(test)]
mod tests {
    use cloakwork_params::{AnySet, ObjectKind};

    use super::*;

    fn part(source: Source) -> Part {
        let set = AnySet::by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy");
        Part { kind: ObjectKind::SeededBootstrapKey, set, shape: None, source }
    }

    #[tokio::test]
    async fn a_digest_is_computed_once_for_each_version_of_a_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let (one, two) = (directory.path().join("a part"), directory.path().join("other"));
        fs::write(&one, "one").expect("a file");
        fs::write(&two, "two").expect("a file");
        let parts = [part(Source::File(one.clone())), part(Source::File(two)), part(Source::Bytes("three".into()))];
        let digests = async || digests_of(&parts).await.expect("digests");
        let expected = ["one", "two", "three"].map(|text| Digest::of(text.as_bytes()));
        assert_eq!(digests().await, expected);
        // The stored digests are used: this one is wrong.
        let file = directory.path().join(FILE);
        let text = fs::read_to_string(&file).expect("a file");
        assert_eq!(text.lines().count(), 2, "{text}");
        fs::write(&file, text.replace(&expected[0].to_string(), &expected[2].to_string())).expect("a file");
        assert_eq!(digests().await[0].blake3, expected[2].blake3);
        // A changed file and a damaged file of digests are read again.
        fs::write(&one, "changed").expect("a file");
        assert_eq!(digests().await[0], Digest::of(b"changed"));
        fs::write(&file, "x y z\n\u{0}").expect("a file");
        assert_eq!(digests().await[1], expected[1]);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 3, "no other file is left");
    }
}
