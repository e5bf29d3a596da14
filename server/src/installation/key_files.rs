//! The installation's keys in the data directory: the current key, the next and the retired ones.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use cloakwork_attestation::{ANCHOR_KEYS_MAX, Anchor, InstallationKey, PublicKey};
use cloakwork_proto::from_hex;
use cloakwork_storage::private::{self, file_options};
use zeroize::Zeroizing;

use super::InstallationError;

/// The directory of an installation's keys.
#[derive(Debug)]
pub struct KeyFiles {
    directory: PathBuf,
}

/// Name of the directory in the data directory.
pub(crate) const DIRECTORY: &str = "installation";

/// The secret key in use.
const CURRENT: &str = "key";
/// The secret key that follows, once it was prepared.
const NEXT: &str = "next";
/// Public keys of earlier secret keys, one on each line.
const RETIRED: &str = "retired";

/// The beginning of a file of a secret key. The hexadecimal digits of its seed follow.
const SEED_PREFIX: &str = "ed25519-seed:";

impl KeyFiles {
    /// The keys in a data directory. Makes a missing directory.
    pub fn open(data: &Path) -> Result<Self, InstallationError> {
        let directory = data.join(DIRECTORY);
        let opened = private::create_directory(&directory).and_then(|()| private::close_tree(&directory));
        opened.map_err(|source| InstallationError::File { path: data.into(), source })?;
        Ok(Self { directory })
    }

    /// Whether a data directory has the key of an installation.
    pub fn exist(data: &Path) -> bool {
        data.join(DIRECTORY).join(CURRENT).exists()
    }

    /// Returns the current key, which is made at the first call.
    pub fn current(&self) -> Result<InstallationKey, InstallationError> {
        self.read_or_make(CURRENT)
    }

    /// The current key first, then the next and the retired ones.
    pub fn anchor(&self) -> Result<Anchor, InstallationError> {
        let secret = [CURRENT, NEXT].map(|name| self.read(name));
        let mut keys = Vec::new();
        for key in secret {
            keys.extend(key?.map(|key| key.public()));
        }
        keys.extend(self.retired()?);
        Ok(Anchor::new(keys)?)
    }

    /// Makes the next key, unless there is one. Refuses a key for which an anchor has no room: a
    /// server with a larger anchor would not start.
    pub fn prepare(&self) -> Result<Anchor, InstallationError> {
        let _lock = self.lock()?;
        self.prepare_alone()
    }

    fn prepare_alone(&self) -> Result<Anchor, InstallationError> {
        self.current()?;
        if self.read(NEXT)?.is_none() {
            if self.anchor()?.keys().len() >= ANCHOR_KEYS_MAX {
                return Err(InstallationError::Full);
            }
            // An empty file would keep the new key from its place.
            let path = self.path(NEXT);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, error)),
                _ => {}
            }
        }
        self.read_or_make(NEXT)?;
        self.anchor()
    }

    /// Puts the next key in the place of the current one, and keeps the current one's public part.
    pub fn rotate(&self) -> Result<Anchor, InstallationError> {
        let _lock = self.lock()?;
        self.prepare_alone()?;
        let current = self.current()?.public();
        let mut retired = self.retired()?;
        retired.retain(|key| *key != current);
        retired.insert(0, current);
        // First the retired key: a crash between the two steps then loses no key of the anchor.
        self.replace_retired(&retired)?;
        let (from, to) = (self.path(NEXT), self.path(CURRENT));
        fs::rename(&from, &to).and_then(|()| sync(&self.directory)).map_err(|source| failed(&from, source))?;
        self.anchor()
    }

    /// Removes a retired key, or the next one, from the anchor. Returns `None` if the key is
    /// neither.
    pub fn forget(&self, key: PublicKey) -> Result<Option<Anchor>, InstallationError> {
        let _lock = self.lock()?;
        if self.read(NEXT)?.is_some_and(|next| next.public() == key) {
            let path = self.path(NEXT);
            fs::remove_file(&path).and_then(|()| sync(&self.directory)).map_err(|source| failed(&path, source))?;
            return self.anchor().map(Some);
        }
        let mut retired = self.retired()?;
        let before = retired.len();
        retired.retain(|old| *old != key);
        if retired.len() == before {
            return Ok(None);
        }
        self.replace_retired(&retired)?;
        self.anchor().map(Some)
    }

    /// Keeps other commands from changing the keys, until dropped. A key that one of two commands
    /// has removed could otherwise come back.
    fn lock(&self) -> Result<File, InstallationError> {
        let directory = File::open(&self.directory).and_then(|directory| directory.lock().map(|()| directory));
        directory.map_err(|source| failed(&self.directory, source))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A path that no other process writes to at the same time.
    fn fresh(&self, name: &str) -> Result<PathBuf, InstallationError> {
        let number = getrandom::u64().map_err(|error| failed(&self.path(name), io::Error::other(error.to_string())))?;
        Ok(self.path(&format!("{name}.{number:016x}")))
    }

    fn read_or_make(&self, name: &str) -> Result<InstallationKey, InstallationError> {
        if let Some(key) = self.read(name)? {
            return Ok(key);
        }
        let path = self.path(name);
        let made = InstallationKey::generate().map_err(|error| failed(&path, io::Error::other(error.to_string())))?;
        let digits: Zeroizing<String> = made.seed().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        let text = Zeroizing::new(format!("{SEED_PREFIX}{}\n", *digits));
        // The link fails if another process has made the file meanwhile. That key then counts.
        let fresh = self.fresh(name)?;
        let linked = write(&fresh, text.as_bytes()).and_then(|()| fs::hard_link(&fresh, &path));
        let _ = fs::remove_file(&fresh);
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&path, error)),
            _ => sync(&self.directory).map_err(|source| failed(&path, source))?,
        }
        self.read(name)?.ok_or_else(|| failed(&path, io::ErrorKind::NotFound.into()))
    }

    /// A secret key, or `None` if its file is missing. An empty file counts as a missing next key:
    /// container runtimes leave such a file where they mount a single file. Otherwise a container
    /// of the pod without that mount would not start. The current key is never taken for missing,
    /// because another key would then replace a damaged one.
    fn read(&self, name: &str) -> Result<Option<InstallationKey>, InstallationError> {
        let path = self.path(name);
        private::close_file(&path).map_err(|source| failed(&path, source))?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(&path, source)),
        };
        if name == NEXT && text.is_empty() {
            return Ok(None);
        }
        let seed = text.trim_end().strip_prefix(SEED_PREFIX).and_then(from_hex).map(Zeroizing::new);
        let seed = seed.ok_or_else(|| InstallationError::Damaged { path: path.clone() })?;
        Ok(Some(InstallationKey::from_seed(&seed)))
    }

    fn retired(&self) -> Result<Vec<PublicKey>, InstallationError> {
        let path = self.path(RETIRED);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(&path, source)),
        };
        let keys = text.lines().map(PublicKey::parse).collect::<Option<Vec<_>>>();
        keys.ok_or(InstallationError::Damaged { path })
    }

    fn replace_retired(&self, keys: &[PublicKey]) -> Result<(), InstallationError> {
        let (path, fresh) = (self.path(RETIRED), self.fresh(RETIRED)?);
        let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
        let replaced = write(&fresh, text.as_bytes())
            .and_then(|()| fs::rename(&fresh, &path))
            .and_then(|()| sync(&self.directory));
        replaced.map_err(|source| failed(&path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> InstallationError {
    InstallationError::File { path: path.to_owned(), source }
}

/// Writes a new file for this user alone, through to the disk.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = file_options().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
