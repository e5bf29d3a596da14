//! Keys that a computation needs, none of which decrypts anything.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Where masks come from.
pub use cloakwork_math::random::MaskSeed;
use cloakwork_math::{modulus::Modulus, ntt::Automorphism, random::fill_residues, threads::Team};
use cloakwork_params::ckks::key_use;

use crate::{
    error::CkksError,
    poly::{Basis, Poly},
    ring::Ring,
};

/// How a key is cut: what part of the old secret each of its ciphertexts holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gadget {
    /// By the set's digits: for polynomials of any size.
    Digits,
    /// All of it in one: for polynomials that are no larger than a digit, whatever they are modulo.
    Whole,
}

impl Gadget {
    /// Does ciphertext `part` of a key hold the old secret modulo this prime of the chain?
    pub fn holds(self, ring: &Ring, part: usize, prime: usize) -> bool {
        match self {
            Self::Digits => ring.digits(ring.level_max()).nth(part).is_some_and(|digit| digit.rows.contains(&prime)),
            Self::Whole => true,
        }
    }

    /// Ciphertexts of a key for a level.
    pub fn parts(self, ring: &Ring, level: usize) -> usize {
        match self {
            Self::Digits => ring.digits(level).count(),
            Self::Whole => 1,
        }
    }
}

/// A key from one secret to another: for each part of the first one, an encryption of it times the product of the special
/// primes, under the second one. Bodies, and a seed for the masks.
pub struct SeededSwitchKey {
    /// What it is modulo: polynomials of this level and below can be switched.
    pub basis: Basis,
    /// How it is cut.
    pub gadget: Gadget,
    /// Where the masks come from: by part, then prime.
    pub seed: MaskSeed,
    /// Bodies, by part.
    pub bodies: Vec<Poly>,
}

/// The same with its masks, as a computation reads it. A clone shares what it holds.
#[derive(Clone)]
pub struct SwitchKey {
    basis: Basis,
    gadget: Gadget,
    /// Bodies and masks, by part.
    parts: Arc<[[Poly; 2]]>,
}

impl SwitchKey {
    /// Computes the masks, if the key is one of the ring.
    pub fn expand(ring: &Ring, seeded: SeededSwitchKey) -> Result<Self, CkksError> {
        Self::expand_on(ring, seeded, 1)
    }

    /// The same on so many threads.
    pub fn expand_on(ring: &Ring, seeded: SeededSwitchKey, threads: usize) -> Result<Self, CkksError> {
        let SeededSwitchKey { basis, gadget, seed, bodies } = seeded;
        let special = ring.set().special.len();
        let malformed = |what| Err(CkksError::MalformedKey { what });
        if basis.level > ring.level_max() || ![1, special].contains(&basis.special) {
            return malformed("it has primes that the set does not have");
        }
        if bodies.len() != gadget.parts(ring, basis.level) || bodies.iter().any(|body| body.basis() != basis) {
            return malformed("it has more or fewer parts than its level");
        }
        let mut parts: Vec<[Poly; 2]> = bodies.into_iter().map(|body| [body, ring.blank_to_keep(basis)]).collect();
        let is_residues = AtomicBool::new(true);
        let mut rows = rows_of(ring, &mut parts);
        // Neighbours, so that no two threads ask the system for the same page.
        let groups = rows.chunks_mut(ROWS_TOGETHER);
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

    /// What it is modulo.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// How it is cut.
    pub fn gadget(&self) -> Gadget {
        self.gadget
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(|poly| size_of_val(poly.words())).sum()
    }

    /// Body and mask of all parts, in the row of a key that belongs to a row of `basis`.
    pub(crate) fn rows(&self, basis: Basis, row: usize) -> impl Iterator<Item = [&[u64]; 2]> {
        let row = if row <= basis.level { row } else { row - basis.level + self.basis.level };
        self.parts.iter().map(move |part| part.each_ref().map(|poly| poly.row(row)))
    }
}

/// Rows whose masks one thread computes: megabytes.
const ROWS_TOGETHER: usize = 8;

/// One prime of one part of a key: what its body has there, and where its mask belongs.
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

/// The masks of one part of a key: uniform values, prime by prime.
pub fn masks(ring: &Ring, seed: &MaskSeed, basis: Basis, part: usize) -> Poly {
    let mut poly = ring.blank(basis);
    for (prime, row) in ring.indices(basis).zip(poly.rows_mut()) {
        fill_uniform(ring.prime(prime).modulus(), seed, place(part, prime), row);
    }
    poly
}

/// Where the stream has the mask of a part modulo a prime: a set has fewer than 256 of them.
fn place(part: usize, prime: usize) -> usize {
    part << 8 | prime
}

/// Fills `words` with uniform residues, from a stretch of the seed's stream that no other `place` reads: words of as many
/// bits as the prime, but for those that are not below it.
pub fn fill_uniform(modulus: Modulus, seed: &MaskSeed, place: usize, words: &mut [u64]) {
    const STRETCH_LOG2: u32 = 32;
    fill_residues(modulus, seed, (place as u128) << STRETCH_LOG2, words);
}

/// What turns numbers by some places, or conjugates them: the automorphism, and the key that makes up for it.
///
/// The key is from the secret to the one that the automorphism turns into the secret, so that the switch comes first and
/// two polynomials are moved, not all digits. A clone shares what it holds.
#[derive(Clone)]
pub struct MoveKey {
    pub(crate) automorphism: Arc<Automorphism>,
    pub(crate) key: SwitchKey,
}

impl MoveKey {
    /// A key for X to X^`power`.
    pub fn new(ring: &Ring, power: usize, key: SwitchKey) -> Result<Self, CkksError> {
        if power.is_multiple_of(2) || power >= 2 * ring.size() || key.basis.special != ring.set().special.len() {
            return Err(CkksError::MalformedKey { what: "it moves nothing of this ring" });
        }
        Ok(Self { automorphism: Arc::new(Automorphism::new(power, ring.set().size_log2)), key })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.key.bytes()
    }
}

/// The power of X that turns numbers by `steps` places to the left.
pub fn rotation_power(ring: &Ring, steps: i64) -> usize {
    key_use::rotation_power(ring.set(), steps)
}

/// The power of X that conjugates all numbers.
pub fn conjugation_power(ring: &Ring) -> usize {
    key_use::conjugation_power(ring.set())
}

/// All keys of a client that a computation has.
#[derive(Default)]
pub struct EvaluationKeys {
    /// From the square of the secret to the secret.
    pub relinearization: Option<SwitchKey>,
    /// By power of X.
    pub moves: HashMap<usize, MoveKey>,
}

impl EvaluationKeys {
    pub(crate) fn relinearization(&self) -> Result<&SwitchKey, CkksError> {
        self.relinearization.as_ref().ok_or_else(|| CkksError::MissingKey { what: "multiplication".into() })
    }

    /// The key for a move at a level.
    pub(crate) fn mover(
        &self,
        power: usize,
        level: usize,
        what: impl FnOnce() -> String,
    ) -> Result<&MoveKey, CkksError> {
        let mover = self.moves.get(&power).ok_or_else(|| CkksError::MissingKey { what: what() })?;
        let max = mover.key.basis.level;
        if level > max {
            return Err(CkksError::LevelTooHigh { what: "the key for this move", got: level, max });
        }
        Ok(mover)
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_math::random::MaskStream;
    use cloakwork_params::ckks::CKKS_SETS;

    use super::*;

    /// Word by word, as docs/formats.md says.
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
    fn masks_are_the_words_of_the_stream_that_are_below_the_prime_on_any_number_of_threads() {
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
