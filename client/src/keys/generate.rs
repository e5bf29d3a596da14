//! Making keys.

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
    directory::{client_key_path, make_directory, part_path, replace_client_key},
};
use crate::{ClientError, Progress, Result, Source, upload::blocking};

impl Keys {
    /// Makes keys for a set and keeps them in memory.
    pub async fn generate(set: &'static ParameterSet, progress: Progress) -> Result<Self> {
        blocking(move || make(set, &Shelf::Memory, &progress)).await
    }

    /// Makes keys for a set in a directory: the client key in a file that only its owner may use, sealed where there
    /// is a passphrase, and the parts of the evaluation key beside it. A client key that is there already stays as it
    /// is, and is an error.
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
            let keys = make(set, &Shelf::Directory(&directory), &progress)?;
            // Last, so that a directory with a client key is whole.
            keys.client.save(&path, text(&passphrase))?;
            Ok(keys)
        })
        .await
    }

    /// Would one client key serve all of these sets? Refuses those of two families, and one that is there twice, before
    /// anything is made of them.
    pub fn check_sets(sets: impl IntoIterator<Item = &'static ParameterSet>) -> Result<()> {
        Ok(cloakwork_secret::key::check_sets(sets)?)
    }

    /// Adds a set to keys in memory, with parts of its own. It must be of the same family: sets that differ only in how
    /// they bootstrap share a client key.
    pub async fn add(self, set: &'static ParameterSet, progress: Progress) -> Result<Self> {
        blocking(move || self.extend(set, &Shelf::Memory, &progress)).await
    }

    /// As [`Self::add`], for the keys of a directory. The client key's file is replaced by one that knows both sets.
    pub async fn add_in(
        directory: PathBuf,
        set: &'static ParameterSet,
        passphrase: Option<Zeroizing<String>>,
        progress: Progress,
    ) -> Result<Self> {
        blocking(move || {
            let keys = Self::load(&directory, text(&passphrase))?;
            let keys = keys.extend(set, &Shelf::Directory(&directory), &progress)?;
            // Last, so that a set that the client key knows has all its parts.
            replace_client_key(&directory, &keys.client, text(&passphrase))?;
            Ok(keys)
        })
        .await
    }

    fn extend(mut self, set: &'static ParameterSet, shelf: &Shelf<'_>, progress: &Progress) -> Result<Self> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        self.client.add(set, &mut randomness)?;
        self.parts.extend(parts(&self.client, set, shelf, progress, &mut randomness)?);
        Ok(self)
    }
}

fn text(passphrase: &Option<Zeroizing<String>>) -> Option<&str> {
    passphrase.as_ref().map(|passphrase| passphrase.as_str())
}

/// Where parts are put.
enum Shelf<'a> {
    Memory,
    Directory(&'a Path),
}

impl Shelf<'_> {
    /// Puts a part where it belongs, whole or not at all.
    fn put<O: WireObject>(&self, object: &O, set: &'static ParameterSet, key_id: KeyId) -> Result<Part> {
        let source = match self {
            Self::Memory => {
                let mut envelope = Vec::new();
                format::encode(object, set, key_id, &mut envelope)?;
                Source::Bytes(envelope.into())
            }
            Self::Directory(directory) => {
                let path = part_path(directory, set, O::KIND);
                let unfinished = path.with_extension("unfinished");
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

fn make(set: &'static ParameterSet, shelf: &Shelf<'_>, progress: &Progress) -> Result<Keys> {
    let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
    let client = ClientKey::generate(set, &mut randomness)?;
    let parts = parts(&client, set, shelf, progress, &mut randomness)?.into();
    Ok(Keys { client, parts, set })
}

/// Makes the parts of one of the client key's sets.
fn parts(
    client: &ClientKey,
    set: &'static ParameterSet,
    shelf: &Shelf<'_>,
    progress: &Progress,
    randomness: &mut Randomness,
) -> Result<[Part; 2]> {
    let make = match (set.torus, set.small_word_bits()) {
        (TorusWidth::U32, _) => parts_of_words::<u32, u32>,
        (TorusWidth::U64, 32) => parts_of_words::<u64, u32>,
        (TorusWidth::U64, _) => parts_of_words::<u64, u64>,
    };
    make(client, set, shelf, progress, randomness)
}

fn parts_of_words<T: Torus, S: Torus>(
    client: &ClientKey,
    set: &'static ParameterSet,
    shelf: &Shelf<'_>,
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
    // One part at a time in memory.
    let generator = || Ok::<_, ClientError>(KeyGenerator::new(client, set)?.reporting(&report));
    let switch = shelf.put(&generator()?.key_switch_key::<S>(randomness)?, set, key_id)?;
    let bootstrap = shelf.put(&generator()?.bootstrap_key::<T>(randomness)?, set, key_id)?;
    progress.step("evaluation key", total, total);
    Ok([switch, bootstrap])
}

const BOOTSTRAP: ObjectKind = ObjectKind::SeededBootstrapKey;

/// Bytes of the payload of a part.
fn bytes_of(kind: ObjectKind, set: &ParameterSet) -> u64 {
    // Only lists have dimensions of their own, and keys are none.
    Layout::of(kind, set, &Dimensions::default()).map_or(0, |layout| layout.payload_len)
}
