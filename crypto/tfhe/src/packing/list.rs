//! The compressed form: the words of a packed ciphertext, rounded to the storage modulus and stored
//! without gaps.

use cloakwork_math::Torus;
use cloakwork_params::CompressionSet;

use crate::{ShapeError, sample_extract::sample_extract};

/// Many ciphertexts in a few bytes each.
///
/// Each GLWE ciphertext takes whole 64-bit words: the mask words, then the bodies in use. Each
/// value has `storage_modulus_log2` bits, low bits first.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressedList {
    set: &'static CompressionSet,
    count: usize,
    words: Vec<u64>,
}

impl CompressedList {
    /// Creates a list without ciphertexts.
    pub fn empty(set: &'static CompressionSet) -> Self {
        Self { set, count: 0, words: Vec::new() }
    }

    /// Takes over words in the compressed layout.
    pub fn from_words(set: &'static CompressionSet, count: usize, words: Vec<u64>) -> Result<Self, ShapeError> {
        let full = (count / set.lwe_per_glwe).saturating_mul(packed_words(set, set.lwe_per_glwe));
        let expected = full.saturating_add(packed_words(set, count % set.lwe_per_glwe));
        ShapeError::check("words of a compressed list", expected, words.len())?;
        Ok(Self { set, count, words })
    }

    /// The compression set.
    pub fn set(&self) -> &'static CompressionSet {
        self.set
    }

    /// Number of ciphertexts.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no ciphertexts.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The stored words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Appends `count` coefficients of a packed ciphertext. Only the last call may pass fewer than
    /// `lwe_per_glwe`.
    pub(super) fn push(&mut self, glwe: &[u64], count: usize) {
        let log2 = self.set.storage_modulus_log2;
        let used = self.set.packing_dimension() + count;
        let start = self.words.len();
        self.words.resize(start + packed_words(self.set, count), 0);
        let packed = &mut self.words[start..];
        for (index, word) in glwe[..used].iter().enumerate() {
            let value = word.round_to_modulus(log2);
            let (at, shift) = place(index, log2);
            packed[at] |= value << shift;
            if shift + log2 > 64 {
                packed[at + 1] |= value >> (64 - shift);
            }
        }
        self.count += count;
    }

    /// Writes ciphertext `index` under the flattened packing key, with values in the top bits of
    /// the words.
    pub(super) fn extract(&self, index: usize, glwe: &mut [u64], output: &mut [u64]) {
        let log2 = self.set.storage_modulus_log2;
        let per_glwe = self.set.lwe_per_glwe;
        let packed = &self.words[index / per_glwe * packed_words(self.set, per_glwe)..];
        let used = self.set.packing_dimension() + (self.count - index / per_glwe * per_glwe).min(per_glwe);
        glwe.fill(0);
        for (index, word) in glwe[..used].iter_mut().enumerate() {
            let (at, shift) = place(index, log2);
            let low = packed[at] >> shift;
            let high = if shift + log2 > 64 { packed[at + 1] << (64 - shift) } else { 0 };
            *word = (low | high) << (64 - log2);
        }
        let size = self.set.packing_polynomial_size;
        sample_extract(glwe.chunks_exact(size), size, index % per_glwe, output);
    }
}

/// Number of words that a packed ciphertext with `bodies` bodies takes; 0 without bodies.
fn packed_words(set: &CompressionSet, bodies: usize) -> usize {
    if bodies == 0 {
        return 0;
    }
    ((set.packing_dimension() + bodies) * set.storage_modulus_log2 as usize).div_ceil(64)
}

/// Word and bit at which value `index` starts.
fn place(index: usize, log2: u32) -> (usize, u32) {
    let bit = index * log2 as usize;
    (bit / 64, (bit % 64) as u32)
}
