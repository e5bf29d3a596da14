//! Generation of CKKS keys.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use cloakwork_params::{
    EnvelopeError, KeyId, ObjectKind,
    ckks::{CkksSet, layout::payload_len},
};
use cloakwork_secret::{
    Randomness, SecretError,
    ckks::{
        BootstrapKind, BootstrapShape, CkksError, KeyGenerator, KeyPart, KeyPlan, KeySize, Ring, SecretKey,
        format::encode,
    },
    file::KeyFileError,
};
use zeroize::Zeroizing;

use super::{
    CkksKeys,
    directory::{part, part_path, remove_parts},
};
use crate::{
    ClientError, Part, Progress, Result, Source,
    keys::{client_key_path, make_directory, unfinished_path},
    upload::blocking,
};

/// The operations that an evaluation key is to support. Products are always supported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CkksWish {
    /// Bootstraps.
    pub bootstraps: Vec<CkksBootstrap>,
    /// Rotations, in steps to the left.
    pub rotations: Vec<i64>,
    /// Whether the key supports conjugation.
    pub conjugation: bool,
    /// Highest level of products, and of these rotations and conjugations. The default is the set's
    /// working level. Bootstraps have their own levels.
    pub level: Option<usize>,
}

/// A bootstrap that keys are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CkksBootstrap {
    /// Numbers in a ciphertext, a power of two.
    pub slots: usize,
    /// Matrices in each direction: fewer matrices keep more levels, and take longer.
    pub stages: usize,
    /// How many rotation keys the bootstrap has.
    pub size: KeySize,
    /// Which matrices come first.
    pub kind: BootstrapKind,
}

impl CkksKeys {
    /// Generates keys for a set in a directory. The client key's file is accessible only to its
    /// owner, and sealed if there is a passphrase. The parts of the evaluation key are written
    /// beside it, one after the other. If the directory contains a client key already, that key
    /// stays unchanged and the call fails.
    pub async fn generate_in(
        directory: PathBuf,
        set: &'static CkksSet,
        wish: CkksWish,
        passphrase: Option<Zeroizing<String>>,
        progress: Progress,
    ) -> Result<Self> {
        blocking(move || {
            let ring = Ring::new(set);
            let plan = plan(&ring, &wish)?;
            make_directory(&directory)?;
            let path = client_key_path(&directory);
            if path.exists() {
                return Err(KeyFileError::Exists { path }.into());
            }
            remove_parts(&directory, set)?;
            let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
            let key = SecretKey::generate(set, &mut randomness)?;
            let parts = parts(&key, &ring, &plan, &directory, &progress, &mut randomness)?;
            // Written last, so that a directory with a client key is complete.
            key.save(&path, passphrase.as_ref().map(|passphrase| passphrase.as_str()))?;
            Ok(Self { key, parts, ring: OnceLock::from(ring) })
        })
        .await
    }
}

/// The keys that a wish requires.
pub(super) fn plan(ring: &Ring, wish: &CkksWish) -> Result<KeyPlan> {
    let (level, max) = (wish.level.unwrap_or(ring.set().working_level), ring.set().working_level);
    if level > max {
        let what = "computing on numbers under this set";
        return Err(SecretError::from(CkksError::LevelTooHigh { what, got: level, max }).into());
    }
    let mut plan = KeyPlan::default();
    plan.products(level);
    if wish.conjugation {
        plan.conjugation(ring, level);
    }
    wish.rotations.iter().for_each(|steps| plan.rotation(ring, *steps, level));
    for CkksBootstrap { slots, stages, size, kind } in &wish.bootstraps {
        let max = ring.set().slots();
        if !slots.is_power_of_two() || *slots > max {
            return Err(SecretError::from(CkksError::WrongSlots { got: *slots, max }).into());
        }
        let shape = BootstrapShape { slots_log2: slots.ilog2(), stages: *stages, size: *size, kind: *kind };
        plan.bootstrap(ring, shape).map_err(SecretError::from)?;
    }
    Ok(plan)
}

/// Generates the parts of a plan, with at most one part in memory.
fn parts(
    key: &SecretKey,
    ring: &Ring,
    plan: &KeyPlan,
    directory: &Path,
    progress: &Progress,
    randomness: &mut Randomness,
) -> Result<Vec<Part>> {
    let bytes = plan
        .shapes()
        .map(|shape| payload_len(ObjectKind::SeededCkksSwitchKey, ring.set(), &shape.to_dimensions(ring.set())?));
    let bytes = bytes.collect::<std::result::Result<Vec<u64>, EnvelopeError>>()?;
    let (mut done, total) = (0, bytes.iter().sum());
    let mut parts = Vec::with_capacity(bytes.len());
    progress.step("evaluation key", done, total);
    for (made, bytes) in KeyGenerator::new(key, ring).parts(plan, randomness)?.zip(bytes) {
        parts.push(put(&made?, ring, key.key_id(), directory)?);
        done += bytes;
        progress.step("evaluation key", done, total);
    }
    Ok(parts)
}

/// Stores a part atomically.
fn put(made: &KeyPart, ring: &Ring, key_id: KeyId, directory: &Path) -> Result<Part> {
    let path = part_path(directory, ring.set(), made.purpose);
    let unfinished = unfinished_path(&path);
    let failed = |error| ClientError::io(&unfinished, &error);
    let mut out = BufWriter::new(File::create(&unfinished).map_err(failed)?);
    encode(made, ring, key_id, &mut out)?;
    out.flush().and_then(|()| out.get_ref().sync_all()).map_err(failed)?;
    std::fs::rename(&unfinished, &path).map_err(failed)?;
    Ok(part(ring.set(), made.shape(), Source::File(path)))
}
