//! Inputs for both libraries.

pub(crate) mod pair;

use cloakwork_math::{
    Torus,
    key_product::KeyMatrix,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::{Decomposition, ParameterSet, table};

pub(crate) const CLASSICAL_1_1: &str = "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128";
pub(crate) const CLASSICAL_2_2: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
pub(crate) const GAUSSIAN_2_2: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128";
pub(crate) const KS32_2_2: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128";
pub(crate) const HPU_2_2: &str = "V1_8_HPU_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128";
pub(crate) const GROUP_3_2_2: &str = "V1_8_PARAM_GPU_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
pub(crate) const GROUP_4_2_2: &str = "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
pub(crate) const GROUP_4_1_1_GAUSSIAN: &str =
    "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128";

pub(crate) fn set(name: &str) -> &'static ParameterSet {
    table::by_name(name).unwrap_or_else(|| panic!("no set named {name}"))
}

/// A reproducible stream of pseudorandom words.
pub(crate) struct Random(MaskStream);

impl Random {
    pub(crate) fn new(seed: u128) -> Self {
        Self(MaskStream::new(&MaskSeed { key: seed, block: 0, byte: 0 }))
    }

    /// Uniform words.
    pub(crate) fn words<T: Torus>(&mut self, count: usize) -> Vec<T> {
        self.words_below(T::BITS, count)
    }

    /// Uniform multiples of the step of a modulus.
    pub(crate) fn words_below<T: Torus>(&mut self, modulus_log2: u32, count: usize) -> Vec<T> {
        let mut words = vec![T::default(); count];
        self.0.fill(modulus_log2, &mut words);
        words
    }

    /// An integer below `bound`, nearly uniform.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.words::<u64>(1)[0] % bound
    }

    /// Integers below `bound`.
    pub(crate) fn list_below(&mut self, bound: u64, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.below(bound)).collect()
    }

    /// A seed at a random position of the key stream.
    pub(crate) fn seed(&mut self) -> MaskSeed {
        let [key_low, key_high, block] = self.words::<u64>(3)[..] else { unreachable!() };
        let key = u128::from(key_low) | u128::from(key_high) << 64;
        MaskSeed { key, block: u128::from(block), byte: self.below(16) as u8 }
    }
}

/// Words around every tie and turning point of a rounding to the top `kept` bits: whole steps and
/// half steps, plus and minus one.
pub(crate) fn edges<T: Torus>(kept: u32) -> Vec<T> {
    let step = 1_u64 << (T::BITS - kept);
    let top = u64::MAX >> (64 - kept);
    let patterns = [0, 1, 2, top / 2, top / 2 + 1, top / 3, top / 3 * 2, top - 1, top];
    let single_bits = (0..kept).map(|bit| 1_u64 << bit);
    let multiples = patterns.into_iter().chain(single_bits.clone()).chain(single_bits.map(|bit| top ^ bit));
    multiples
        .flat_map(|multiple| {
            let whole = multiple.wrapping_mul(step);
            let half = whole.wrapping_add(step / 2);
            [whole, half].into_iter().flat_map(|word| [word.wrapping_sub(1), word, word.wrapping_add(1)])
        })
        .map(T::from_u64)
        .collect()
}

/// Edges of a gadget: those of its rounding, and words whose digits all lie at the turning point.
pub(crate) fn gadget_edges<T: Torus>(gadget: Decomposition) -> Vec<T> {
    let kept = gadget.base_log * gadget.levels as u32;
    let mut words = edges::<T>(kept);
    let half_base = 1_u64 << (gadget.base_log - 1);
    for digit in [half_base - 1, half_base, (half_base + 1) & (2 * half_base - 1), 2 * half_base - 1] {
        let multiple = (0..gadget.levels).fold(0, |word, _| word << gadget.base_log | digit);
        let whole = multiple << (T::BITS - kept);
        let half = 1_u64 << (T::BITS - kept - 1);
        words.extend([whole, whole | half, whole | (half - 1), whole | half | (half - 1)].map(T::from_u64));
    }
    words
}

/// Whether the rows of a key matrix, one after another, consist of these words.
pub(crate) fn same_words<S: Torus>(matrix: &KeyMatrix<S>, words: &[S]) -> bool {
    let mut row = vec![S::default(); matrix.columns()];
    let rows = words.chunks_exact(matrix.columns());
    rows.len() == matrix.inputs() * matrix.gadget().levels
        && rows.enumerate().all(|(index, expected)| {
            matrix.read_row(index, &mut row);
            row == expected
        })
}
