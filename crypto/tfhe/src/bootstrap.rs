//! The complete operation: key switch and bootstrap, in the order that the parameter set fixes.

mod parts;
mod run;

use std::time::Duration;

use cloakwork_math::{Torus, aligned::Aligned, key_product};
use cloakwork_params::{Decomposition, ParameterSet, SetId};

use crate::{
    BootstrapKey, GgswShape, KeySwitchKey, Lut, LweList, SeededBootstrapKey, SeededKeySwitchKey, ShapeError,
    blind_rotation, blind_rotation::tile,
};

pub use parts::{PART_MAX, parts};
pub(crate) use run::Lanes;

/// Evaluation key of one parameter set, expanded and ready for use.
///
/// `T` is the word of the big key and `S` that of the small key: `<u64, u64>`, `<u64, u32>` (KS32,
/// HPU) or `<u32, u32>` (boolean).
pub struct ServerKey<T, S> {
    set: &'static ParameterSet,
    key_switch: KeySwitchKey<S>,
    bootstrap: BootstrapKey<T>,
}

/// Working memory of one thread, for keys of one parameter set. Callers allocate one per working
/// thread and reuse it.
pub struct Scratch<T, S> {
    set: SetId,
    inputs: Vec<T>,
    digits: key_product::Scratch,
    small: Vec<S>,
    rotation: blind_rotation::Scratch<T>,
    accumulators: Aligned<T>,
    results: Vec<T>,
    times: StageTimes,
}

/// Time that a thread has spent in the two halves. Loading, extraction and copies take the rest of
/// the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Time in key switches.
    pub key_switch: Duration,
    /// Time in blind rotations, including the modulus switch at their start.
    pub blind_rotate: Duration,
}

impl<T, S> Scratch<T, S> {
    /// Returns the times spent with this scratch since the last call, and resets them.
    pub fn take_times(&mut self) -> StageTimes {
        std::mem::take(&mut self.times)
    }
}

impl<T: Torus, S: Torus> ServerKey<T, S> {
    /// Expands a seeded key on `threads` threads.
    pub fn expand(
        set: &'static ParameterSet,
        key_switch: &SeededKeySwitchKey<S>,
        bootstrap: &SeededBootstrapKey<T>,
        threads: usize,
    ) -> Result<Self, ShapeError> {
        Self::check(set, key_switch, bootstrap)?;
        let bootstrap = BootstrapKey::expand(bootstrap, set.grouping, threads)?;
        Ok(Self { set, key_switch: KeySwitchKey::expand(key_switch, threads), bootstrap })
    }

    /// Checks that seeded parts fit the set.
    pub fn check(
        set: &ParameterSet,
        key_switch: &SeededKeySwitchKey<S>,
        bootstrap: &SeededBootstrapKey<T>,
    ) -> Result<(), ShapeError> {
        check_key_switch::<S>(set, key_switch.into())?;
        check_bootstrap::<T>(set, bootstrap.shape(), bootstrap.ggsw_count())
    }

    /// Builds a key from expanded parts if these fit the set.
    pub fn from_parts(
        set: &'static ParameterSet,
        key_switch: KeySwitchKey<S>,
        bootstrap: BootstrapKey<T>,
    ) -> Result<Self, ShapeError> {
        check_key_switch::<S>(set, (&key_switch).into())?;
        ShapeError::check("secret bits per step of the bootstrap key", set.grouping, bootstrap.grouping())?;
        check_bootstrap::<T>(set, bootstrap.shape(), bootstrap.ggsw_count())?;
        Ok(Self { set, key_switch, bootstrap })
    }

    /// The parameter set.
    pub fn set(&self) -> &'static ParameterSet {
        self.set
    }

    /// The key-switch half.
    pub fn key_switch_key(&self) -> &KeySwitchKey<S> {
        &self.key_switch
    }

    /// The bootstrap half.
    pub fn bootstrap_key(&self) -> &BootstrapKey<T> {
        &self.bootstrap
    }

    /// Number of ciphertexts that share one read of the bootstrap key.
    pub fn tile(&self) -> usize {
        tile::<T>(self.bootstrap.shape())
    }

    /// Size of this key in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.key_switch.bytes() + self.bootstrap.bytes()
    }

    /// Size of an expanded key of `set` in memory, in bytes.
    pub fn bytes_of(set: &ParameterSet) -> usize {
        KeySwitchKey::<S>::bytes_of(set) + BootstrapKey::<T>::bytes_of(set)
    }

    /// Allocates working memory for one thread.
    pub fn scratch(&self) -> Scratch<T, S> {
        let rotation_tile = tile::<T>(self.bootstrap.shape());
        Scratch {
            set: self.set.id,
            inputs: vec![T::default(); PART_MAX * (self.set.input_dimension() + 1)],
            digits: key_product::Scratch::default(),
            small: vec![S::default(); PART_MAX * (self.set.lwe_dimension + 1)],
            rotation: blind_rotation::Scratch::new(&self.bootstrap),
            accumulators: Aligned::for_work(rotation_tile * self.bootstrap.shape().accumulator_words::<T>()),
            results: vec![T::default(); PART_MAX * (self.set.big_dimension() + 1)],
            times: StageTimes::default(),
        }
    }

    /// Applies a table to each ciphertext: `luts[c]` to `inputs[c]`. The results of a table of
    /// several functions are adjacent in `outputs`.
    ///
    /// The work is split over as many threads as there are scratches. A single scratch starts no
    /// thread.
    pub fn bootstrap(
        &self,
        inputs: &LweList<T>,
        luts: &[&Lut<T>],
        outputs: &mut LweList<T>,
        scratches: &mut [Scratch<T, S>],
    ) -> Result<(), ShapeError> {
        ShapeError::check("dimension of the inputs", self.set.input_dimension(), inputs.dimension())?;
        ShapeError::check("inputs, one for each lookup table", luts.len(), inputs.len())?;
        let load = |lane: usize, input: &mut [T]| input.copy_from_slice(inputs.get(lane));
        self.bootstrap_with(&load, luts, outputs, scratches)
    }

    /// As [`Self::bootstrap`], but `load(lane, input)` writes each input when it is needed, for
    /// example as a linear combination of other ciphertexts.
    pub fn bootstrap_with(
        &self,
        load: &(dyn Fn(usize, &mut [T]) + Sync),
        luts: &[&Lut<T>],
        outputs: &mut LweList<T>,
        scratches: &mut [Scratch<T, S>],
    ) -> Result<(), ShapeError> {
        self.run(Lanes { count: luts.len(), load, lut: &|lane| luts[lane], sum_pairs: None }, outputs, scratches)
    }
}

/// Dimensions of a key-switch key, seeded or expanded.
struct KeySwitchShape {
    input_dimension: usize,
    output_dimension: usize,
    gadget: Decomposition,
    modulus_log2: u32,
}

impl<S: Torus> From<&SeededKeySwitchKey<S>> for KeySwitchShape {
    fn from(key: &SeededKeySwitchKey<S>) -> Self {
        Self {
            input_dimension: key.input_dimension(),
            output_dimension: key.output_dimension(),
            gadget: key.gadget(),
            modulus_log2: key.modulus_log2(),
        }
    }
}

impl<S: Torus> From<&KeySwitchKey<S>> for KeySwitchShape {
    fn from(key: &KeySwitchKey<S>) -> Self {
        Self {
            input_dimension: key.input_dimension(),
            output_dimension: key.output_dimension(),
            gadget: key.gadget(),
            modulus_log2: key.modulus_log2(),
        }
    }
}

fn check_key_switch<S: Torus>(set: &ParameterSet, key: KeySwitchShape) -> Result<(), ShapeError> {
    for (what, expected, got) in [
        ("bits of a word of the key-switch key", set.small_word_bits() as usize, S::BITS as usize),
        ("input dimension of the key-switch key", set.big_dimension(), key.input_dimension),
        ("output dimension of the key-switch key", set.lwe_dimension, key.output_dimension),
        ("levels of the key-switch key", set.key_switch.levels, key.gadget.levels),
        ("log2 of the key-switch key's base", set.key_switch.base_log as usize, key.gadget.base_log as usize),
        ("log2 of the key-switch key's modulus", set.small_modulus_log2 as usize, key.modulus_log2 as usize),
    ] {
        ShapeError::check(what, expected, got)?;
    }
    Ok(())
}

fn check_bootstrap<T: Torus>(set: &ParameterSet, shape: GgswShape, ggsw_count: usize) -> Result<(), ShapeError> {
    for (what, expected, got) in [
        ("bits of a word of the bootstrap key", set.torus.bits() as usize, T::BITS as usize),
        ("GGSW ciphertexts of the bootstrap key", set.ggsw_count(), ggsw_count),
        ("mask polynomials of the bootstrap key", set.glwe_dimension, shape.glwe_dimension),
        ("coefficients of the bootstrap key's polynomials", set.polynomial_size, shape.polynomial_size),
        ("levels of the bootstrap key", set.bootstrap.levels, shape.gadget.levels),
        ("log2 of the bootstrap key's base", set.bootstrap.base_log as usize, shape.gadget.base_log as usize),
    ] {
        ShapeError::check(what, expected, got)?;
    }
    Ok(())
}
