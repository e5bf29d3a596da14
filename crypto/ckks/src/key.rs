//! Evaluation keys. None of them can decrypt.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Origin of masks.
pub use cloakwork_math::random::MaskSeed;
use cloakwork_math::{modulus::Modulus, ntt::Automorphism, random::fill_residues, threads::Team};
use cloakwork_params::ckks::key_use;

use crate::{
    error::CkksError,
    poly::{Basis, Poly},
    ring::Ring,
};

/// Gadget of a key: the part of the old secret that each of its ciphertexts encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gadget {
    /// One ciphertext per digit of the set, for polynomials of any size.
    Digits,
    /// One ciphertext for the whole secret, for polynomials that are no larger than a digit under
    /// any modulus.
    Whole,
}

impl Gadget {
    /// Whether ciphertext `part` of a key encrypts the old secret modulo this prime of the chain.
    pub fn holds(self, ring: &Ring, part: usize, prime: usize) -> bool {
        match self {
            Self::Digits => ring.digits(ring.level_max()).nth(part).is_some_and(|digit| digit.rows.contains(&prime)),
            Self::Whole => true,
        }
    }

    /// Number of ciphertexts of a key for a level.
    pub fn parts(self, ring: &Ring, level: usize) -> usize {
        match self {
            Self::Digits => ring.digits(level).count(),
            Self::Whole => 1,
        }
    }
}

/// A key-switching key in seeded form: bodies, and a seed for the masks. For each part of the first
/// secret, it has an encryption of the part, times the product of the special primes, under the
/// second secret.
pub struct SeededSwitchKey {
    /// Basis of the key. Polynomials of this level and below can be switched.
    pub basis: Basis,
    /// Gadget of the key.
    pub gadget: Gadget,
    /// Seed of the masks, in the order part, prime.
    pub seed: MaskSeed,
    /// Bodies, by part.
    pub bodies: Vec<Poly>,
}

/// A key-switching key with its masks, expanded for computation. Clones share their memory.
#[derive(Clone)]
pub struct SwitchKey {
    basis: Basis,
    gadget: Gadget,
    /// Bodies and masks, by part.
    parts: Arc<[[Poly; 2]]>,
}

impl SwitchKey {
    /// Expands the masks if the key belongs to the ring.
    pub fn expand(ring: &Ring, seeded: SeededSwitchKey) -> Result<Self, CkksError> {
        Self::expand_on(ring, seeded, 1)
    }

    /// As [`Self::expand`], on `threads` threads.
    pub fn expand_on(ring: &Ring, seeded: SeededSwitchKey, threads: usize) -> Result<Self, CkksError> {
        let SeededSwitchKey { basis, gadget, seed, bodies } = seeded;
        let special = ring.set().special.len();
        let malformed = |what| Err(CkksError::MalformedKey { what });
        if basis.level > ring.level_max() || ![1, special].contains(&basis.special) {
            return malformed("it has primes that the set does not have");
        }
        if bodies.len() != gadget.parts(ring, basis.level) || bodies.iter().any(|body| body.basis() != basis) {
            return malformed("its parts do not fit its level");
        }
        let mut parts: Vec<[Poly; 2]> = bodies.into_iter().map(|body| [body, ring.blank_to_keep(basis)]).collect();
        let is_residues = AtomicBool::new(true);
        let mut rows = rows_of(ring, &mut parts);
        // A group has neighbouring rows, so that no two threads request the same page from the
        // system.
        let groups = rows.chunks_mut(MASK_ROWS_PER_ITEM);
        Team::new(threads.min(groups.len())).for_each(groups, |rows| {
            for KeyRow { part, prime, body, mask } in rows {
                let modulus = ring.prime(*prime).modulus();
                if body.iter().any(|word| *word >= modulus.value()) {
                    is_residues.store(false, Ordering::Relaxed);
                }
                fill_uniform(modulus, &seed, place(*part, *prime), mask);
            }
        });
        if !is_residues.into_inner() {
            return malformed("a residue is not below its prime");
        }
        Ok(Self { basis, gadget, parts: parts.into() })
    }

    /// Basis of the key.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Gadget of the key.
    pub fn gadget(&self) -> Gadget {
        self.gadget
    }

    /// Size of the key in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(|poly| size_of_val(poly.words())).sum()
    }

    /// Body and mask of all parts, in the key's row for a row of `basis`.
    pub(crate) fn rows(&self, basis: Basis, row: usize) -> impl Iterator<Item = [&[u64]; 2]> {
        let row = if row <= basis.level { row } else { row - basis.level + self.basis.level };
        self.parts.iter().map(move |part| part.each_ref().map(|poly| poly.row(row)))
    }
}

/// Number of rows whose masks one thread computes at a time, megabytes in all.
const MASK_ROWS_PER_ITEM: usize = 8;

/// One prime of one part of a key: its body there, and the place for its mask.
struct KeyRow<'a> {
    part: usize,
    prime: usize,
    body: &'a [u64],
    mask: &'a mut [u64],
}

fn rows_of<'a>(ring: &Ring, parts: &'a mut [[Poly; 2]]) -> Vec<KeyRow<'a>> {
    let rows = parts.iter_mut().enumerate().flat_map(|(part, [body, mask])| {
        let rows = ring.indices(body.basis()).zip(body.rows()).zip(mask.rows_mut());
        rows.map(move |((prime, body), mask)| KeyRow { part, prime, body, mask })
    });
    rows.collect()
}

/// Expands the masks of one part of a key: uniform values, prime by prime.
pub fn masks(ring: &Ring, seed: &MaskSeed, basis: Basis, part: usize) -> Poly {
    let mut poly = ring.blank(basis);
    for (prime, row) in ring.indices(basis).zip(poly.rows_mut()) {
        fill_uniform(ring.prime(prime).modulus(), seed, place(part, prime), row);
    }
    poly
}

/// Index of a part's mask modulo a prime in the stream. A set has fewer than 256 primes.
fn place(part: usize, prime: usize) -> usize {
    part << 8 | prime
}

/// Fills `words` with uniform residues from a stretch of the seed's stream that no other `place`
/// reads. The stream's words have as many bits as the prime, and those that are not below the prime
/// are skipped.
pub fn fill_uniform(modulus: Modulus, seed: &MaskSeed, place: usize, words: &mut [u64]) {
    const STRETCH_LOG2: u32 = 32;
    fill_residues(modulus, seed, (place as u128) << STRETCH_LOG2, words);
}

/// A rotation or conjugation key: an automorphism, and the key switch that compensates for it.
///
/// The key switches from the secret to the preimage of the secret under the automorphism. The
/// switch therefore comes first, and the automorphism moves two polynomials instead of all digits.
/// Clones share their memory.
#[derive(Clone)]
pub struct MoveKey {
    pub(crate) automorphism: Arc<Automorphism>,
    pub(crate) key: SwitchKey,
}

impl MoveKey {
    /// Creates a key for the automorphism X to X^`power`.
    pub fn new(ring: &Ring, power: usize, key: SwitchKey) -> Result<Self, CkksError> {
        if power.is_multiple_of(2) || power >= 2 * ring.size() || key.basis.special != ring.set().special.len() {
            return Err(CkksError::MalformedKey { what: "it is not for an automorphism of this ring" });
        }
        Ok(Self { automorphism: Arc::new(Automorphism::new(power, ring.set().size_log2)), key })
    }

    /// Size of the key in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.key.bytes()
    }
}

/// The power of X that rotates numbers by `steps` places to the left.
pub fn rotation_power(ring: &Ring, steps: i64) -> usize {
    key_use::rotation_power(ring.set(), steps)
}

/// The power of X that conjugates all numbers.
pub fn conjugation_power(ring: &Ring) -> usize {
    key_use::conjugation_power(ring.set())
}

/// All evaluation keys of a client that a computation has.
#[derive(Default)]
pub struct EvaluationKeys {
    /// Relinearization key: from the square of the secret to the secret.
    pub relinearization: Option<SwitchKey>,
    /// Rotation and conjugation keys, by power of X.
    pub moves: HashMap<usize, MoveKey>,
}

impl EvaluationKeys {
    pub(crate) fn relinearization(&self) -> Result<&SwitchKey, CkksError> {
        self.relinearization.as_ref().ok_or_else(|| CkksError::MissingKey { what: "multiplication".into() })
    }

    /// The rotation or conjugation key for a level.
    pub(crate) fn mover(
        &self,
        power: usize,
        level: usize,
        what: impl FnOnce() -> String,
    ) -> Result<&MoveKey, CkksError> {
        let mover = self.moves.get(&power).ok_or_else(|| CkksError::MissingKey { what: what() })?;
        let max = mover.key.basis.level;
        if level > max {
            return Err(CkksError::LevelTooHigh { what: "the key for this rotation or conjugation", got: level, max });
        }
        Ok(mover)
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_math::random::MaskStream;
    use cloakwork_params::ckks::CKKS_SETS;

    use super::*;

    /// Computes the masks word by word, as docs/formats.md specifies.
    fn expected(modulus: Modulus, seed: &MaskSeed, place: usize, count: usize) -> Vec<u64> {
        let mut stream = MaskStream::at(seed, (place as u128) << 32);
        let bits = modulus.bits();
        let word = || {
            let mut word = [0_u64];
            stream.fill(bits, &mut word);
            word[0] >> (u64::BITS - bits)
        };
        std::iter::repeat_with(word).filter(|word| *word < modulus.value()).take(count).collect()
    }

    #[test]
    fn masks_follow_the_stream_format_on_any_number_of_threads() {
        for set in CKKS_SETS.iter().filter(|set| set.size_log2 == 10) {
            let ring = Ring::new(set);
            let basis = Basis { level: 20, special: set.special.len() };
            for byte in [0, 11] {
                let seed = MaskSeed { key: 7, block: u128::MAX - 3, byte };
                let key = || {
                    let bodies = (0..Gadget::Digits.parts(&ring, basis.level)).map(|_| ring.zero(basis)).collect();
                    SeededSwitchKey { basis, gadget: Gadget::Digits, seed, bodies }
                };
                for threads in [1, 3] {
                    let key = SwitchKey::expand_on(&ring, key(), threads).expect("a key of the ring");
                    for (part, [_, mask]) in key.parts.iter().enumerate() {
                        for (prime, row) in ring.indices(basis).zip(mask.rows()) {
                            let modulus = ring.prime(prime).modulus();
                            assert!(row == expected(modulus, &seed, part * 256 + prime, row.len()), "{part} {prime}");
                        }
                    }
                }
            }
        }
    }
}
