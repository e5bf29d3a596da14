//! Key generation.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use cloakwork_params::{AnySet, KeyId, Layout, ObjectKind, ParameterSet, TorusWidth, envelope::Dimensions};
use cloakwork_secret::{
    ClientKey, KeyGenerator, Randomness, SecretError, Torus,
    format::{self, WireObject},
};
use zeroize::Zeroizing;

use super::{
    Keys, Part,
    directory::{client_key_path, make_directory, part_path, replace_client_key, unfinished_path},
};
use crate::{ClientError, Progress, Result, Source, upload::blocking};

impl Keys {
    /// Generates keys for a set and keeps them in memory.
    pub async fn generate(set: &'static ParameterSet, progress: Progress) -> Result<Self> {
        blocking(move || make(set, &PartStore::Memory, &progress)).await
    }

    /// Generates keys for a set in a directory. The client key's file is accessible only to its
    /// owner, and sealed if there is a passphrase. The parts of the evaluation key lie beside it.
    /// If the directory contains a client key already, that key stays unchanged and the call fails.
    pub async fn generate_in(
        directory: PathBuf,
        set: &'static ParameterSet,
        passphrase: Option<Zeroizing<String>>,
        progress: Progress,
    ) -> Result<Self> {
        blocking(move || {
            make_directory(&directory)?;
            let path = client_key_path(&directory);
            if path.exists() {
                return Err(cloakwork_secret::file::KeyFileError::Exists { path }.into());
            }
            let keys = make(set, &PartStore::Directory(&directory), &progress)?;
            // Written last, so that a directory with a client key is complete.
            keys.client.save(&path, text(&passphrase))?;
            Ok(keys)
        })
        .await
    }

    /// Checks that one client key can serve all of these sets, before any key is generated. Refuses
    /// sets of different families, and duplicate sets.
    pub fn check_sets(sets: impl IntoIterator<Item = &'static ParameterSet>) -> Result<()> {
        Ok(cloakwork_secret::key::check_sets(sets)?)
    }

    /// Adds a set, with its own parts, to keys in memory. The set must be of the same family: sets
    /// that differ only in how they bootstrap share a client key.
    pub async fn add(self, set: &'static ParameterSet, progress: Progress) -> Result<Self> {
        blocking(move || self.extend(set, &PartStore::Memory, &progress)).await
    }

    /// Like [`Self::add`], for the keys of a directory. A client key file with both sets replaces
    /// the old one.
    pub async fn add_in(
        directory: PathBuf,
        set: &'static ParameterSet,
        passphrase: Option<Zeroizing<String>>,
        progress: Progress,
    ) -> Result<Self> {
        blocking(move || {
            let keys = Self::load(&directory, text(&passphrase))?;
            let keys = keys.extend(set, &PartStore::Directory(&directory), &progress)?;
            // Written last, so that every set of the client key has all its parts.
            replace_client_key(&directory, &keys.client, text(&passphrase))?;
            Ok(keys)
        })
        .await
    }

    fn extend(mut self, set: &'static ParameterSet, store: &PartStore<'_>, progress: &Progress) -> Result<Self> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        self.client.add(set, &mut randomness)?;
        self.parts.extend(parts(&self.client, set, store, progress, &mut randomness)?);
        Ok(self)
    }
}

fn text(passphrase: &Option<Zeroizing<String>>) -> Option<&str> {
    passphrase.as_ref().map(|passphrase| passphrase.as_str())
}

/// Storage for parts.
enum PartStore<'a> {
    Memory,
    Directory(&'a Path),
}

impl PartStore<'_> {
    /// Stores a part atomically.
    fn put<O: WireObject>(&self, object: &O, set: &'static ParameterSet, key_id: KeyId) -> Result<Part> {
        let source = match self {
            Self::Memory => {
                let mut envelope = Vec::new();
                format::encode(object, set, key_id, &mut envelope)?;
                Source::Bytes(envelope.into())
            }
            Self::Directory(directory) => {
                let path = part_path(directory, set, O::KIND);
                let unfinished = unfinished_path(&path);
                let failed = |error| ClientError::io(&unfinished, &error);
                let mut out = BufWriter::new(File::create(&unfinished).map_err(failed)?);
                format::encode(object, set, key_id, &mut out)?;
                out.flush().and_then(|()| out.get_ref().sync_all()).map_err(failed)?;
                std::fs::rename(&unfinished, &path).map_err(failed)?;
                Source::File(path)
            }
        };
        Ok(Part { kind: O::KIND, set: AnySet::Tfhe(set), shape: None, source })
    }
}

fn make(set: &'static ParameterSet, store: &PartStore<'_>, progress: &Progress) -> Result<Keys> {
    let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
    let client = ClientKey::generate(set, &mut randomness)?;
    let parts = parts(&client, set, store, progress, &mut randomness)?.into();
    Ok(Keys { client, parts, set })
}

/// Generates the parts for one of the client key's sets.
fn parts(
    client: &ClientKey,
    set: &'static ParameterSet,
    store: &PartStore<'_>,
    progress: &Progress,
    randomness: &mut Randomness,
) -> Result<[Part; 2]> {
    let make = match (set.torus, set.small_word_bits()) {
        (TorusWidth::U32, _) => parts_of_words::<u32, u32>,
        (TorusWidth::U64, 32) => parts_of_words::<u64, u32>,
        (TorusWidth::U64, _) => parts_of_words::<u64, u64>,
    };
    make(client, set, store, progress, randomness)
}

fn parts_of_words<T: Torus, S: Torus>(
    client: &ClientKey,
    set: &'static ParameterSet,
    store: &PartStore<'_>,
    progress: &Progress,
    randomness: &mut Randomness,
) -> Result<[Part; 2]> {
    let key_id = client.key_id();
    let (switch_total, bootstrap_total) = (bytes_of(ObjectKind::SeededKeySwitchKey, set), bytes_of(BOOTSTRAP, set));
    let total = switch_total + bootstrap_total;
    let done = AtomicU64::new(0);
    let report = |bytes: u64| {
        let before = done.fetch_add(bytes, Ordering::Relaxed);
        progress.step("evaluation key", (before + bytes).min(total), total);
    };
    // Only one part at a time is in memory.
    let generator = || Ok::<_, ClientError>(KeyGenerator::new(client, set)?.reporting(&report));
    let switch = store.put(&generator()?.key_switch_key::<S>(randomness)?, set, key_id)?;
    let bootstrap = store.put(&generator()?.bootstrap_key::<T>(randomness)?, set, key_id)?;
    progress.step("evaluation key", total, total);
    Ok([switch, bootstrap])
}

const BOOTSTRAP: ObjectKind = ObjectKind::SeededBootstrapKey;

/// Payload bytes of a part.
fn bytes_of(kind: ObjectKind, set: &ParameterSet) -> u64 {
    // Only lists depend on dimensions, and keys are no lists.
    Layout::of(kind, set, &Dimensions::default()).map_or(0, |layout| layout.payload_len)
}
