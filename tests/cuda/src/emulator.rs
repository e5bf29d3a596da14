//! Launches. Shapes are checked here, so that a call with the wrong number of words is an error and not a wild read.

// The kernels are C++.
#![allow(unsafe_code)]

use std::ffi::c_int;

/// Why a launch did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// Some threads of a block wait at a barrier that others never come to.
    BarrierMismatch,
    /// Arguments that do not belong together, and which.
    Shape(&'static str),
}

fn outcome(code: c_int) -> Result<(), LaunchError> {
    if code == 0 { Ok(()) } else { Err(LaunchError::BarrierMismatch) }
}

fn check(holds: bool, what: &'static str) -> Result<(), LaunchError> {
    if holds { Ok(()) } else { Err(LaunchError::Shape(what)) }
}

/// Sums of slots, one a lane: `terms_end` says where the terms of each end.
#[derive(Clone, Copy, Debug)]
pub struct Sums<'a> {
    /// End of each lane's terms.
    pub terms_end: &'a [u32],
    /// Slot of each term.
    pub slots: &'a [u32],
    /// Factor of each term.
    pub factors: &'a [i64],
    /// Constant of each lane, as a torus word of 64 bits.
    pub constants: &'a [u64],
}

/// How a key switch cuts words and rounds bodies.
#[derive(Clone, Copy, Debug)]
pub struct KeySwitch {
    /// Length of the key that ciphertexts come in under.
    pub input_dimension: u32,
    /// Length of the key that they go out under.
    pub output_dimension: u32,
    /// log2 of a digit's base.
    pub base_log: u32,
    /// Digits of a word.
    pub levels: u32,
    /// log2 of the output modulus.
    pub modulus_log2: u32,
}

/// What sample extraction takes out, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// Polynomials of a mask.
    pub glwe_dimension: u32,
    /// Coefficients of a polynomial.
    pub polynomial_size: u32,
    /// Ciphertext of each output.
    pub sources: &'a [u32],
    /// Coefficient of each output.
    pub indices: &'a [u32],
    /// Slot of each output.
    pub slots: &'a [u32],
}

macro_rules! exact_kernels {
    ($word:ty, $sums:ident, $emulate_sums:ident, $switch:ident, $emulate_switch:ident, $extract:ident, $emulate_extract:ident) => {
        unsafe extern "C" {
            fn $emulate_sums(
                lanes: u32,
                arena: *const $word,
                terms_end: *const u32,
                slots: *const u32,
                factors: *const i64,
                constants: *const u64,
                sums: *mut $word,
                dimension: u32,
            ) -> c_int;
            fn $emulate_switch(
                lanes: u32,
                inputs: *const $word,
                exponents: *mut u32,
                dimension: u32,
                log2: u32,
                centred: u32,
            ) -> c_int;
            fn $emulate_extract(
                outputs: u32,
                glwes: *const $word,
                sources: *const u32,
                indices: *const u32,
                slots: *const u32,
                arena: *mut $word,
                glwe_dimension: u32,
                polynomial_size: u32,
            ) -> c_int;
        }

        /// Sums of the arena's slots.
        pub fn $sums(arena: &[$word], dimension: u32, work: Sums<'_>, sums: &mut [$word]) -> Result<(), LaunchError> {
            let (lanes, stride) = (work.terms_end.len(), dimension as usize + 1);
            check(sums.len() == lanes * stride && work.constants.len() == lanes, "a sum and a constant for each lane")?;
            check(work.slots.len() == work.factors.len(), "a factor for each slot")?;
            check(work.terms_end.is_sorted(), "terms in the order of lanes")?;
            check(work.terms_end.iter().all(|end| *end as usize <= work.slots.len()), "terms that are there")?;
            check(work.slots.iter().all(|slot| (*slot as usize + 1) * stride <= arena.len()), "slots of the arena")?;
            // SAFETY: every lane's terms, every term's slot and every lane's sum lie within their slices, as checked.
            outcome(unsafe {
                $emulate_sums(
                    lanes as u32,
                    arena.as_ptr(),
                    work.terms_end.as_ptr(),
                    work.slots.as_ptr(),
                    work.factors.as_ptr(),
                    work.constants.as_ptr(),
                    sums.as_mut_ptr(),
                    dimension,
                )
            })
        }

        /// Exponents below 2^`log2` of whole ciphertexts.
        pub fn $switch(
            inputs: &[$word],
            dimension: u32,
            log2: u32,
            centred: bool,
            exponents: &mut [u32],
        ) -> Result<(), LaunchError> {
            let stride = dimension as usize + 1;
            check(inputs.len() % stride == 0 && inputs.len() == exponents.len(), "an exponent for each word")?;
            check((1..<$word>::BITS.min(32)).contains(&log2), "exponents shorter than a word")?;
            let lanes = (inputs.len() / stride) as u32;
            // SAFETY: both slices hold `lanes` rows of `dimension + 1` words, as checked.
            outcome(unsafe {
                $emulate_switch(lanes, inputs.as_ptr(), exponents.as_mut_ptr(), dimension, log2, u32::from(centred))
            })
        }

        /// Coefficients of GLWE ciphertexts into slots.
        pub fn $extract(glwes: &[$word], work: Samples<'_>, arena: &mut [$word]) -> Result<(), LaunchError> {
            let (outputs, size) = (work.slots.len(), work.polynomial_size as usize);
            let dimension = work.glwe_dimension as usize * size;
            let (sources, slots) = (glwes.len() / (dimension + size), arena.len() / (dimension + 1));
            check(work.sources.len() == outputs && work.indices.len() == outputs, "one of each for each output")?;
            check(work.sources.iter().all(|source| (*source as usize) < sources), "ciphertexts that are there")?;
            check(work.indices.iter().all(|index| (*index as usize) < size), "coefficients of a polynomial")?;
            check(work.slots.iter().all(|slot| (*slot as usize) < slots), "slots of the arena")?;
            // SAFETY: every output's ciphertext, coefficient and slot lie within their slices, as checked.
            outcome(unsafe {
                $emulate_extract(
                    outputs as u32,
                    glwes.as_ptr(),
                    work.sources.as_ptr(),
                    work.indices.as_ptr(),
                    work.slots.as_ptr(),
                    arena.as_mut_ptr(),
                    work.glwe_dimension,
                    work.polynomial_size,
                )
            })
        }
    };
}

macro_rules! key_switch {
    ($from:ty, $to:ty, $name:ident, $emulate:ident) => {
        unsafe extern "C" {
            fn $emulate(
                lanes: u32,
                inputs: *const $from,
                key: *const $to,
                outputs: *mut $to,
                input_dimension: u32,
                output_dimension: u32,
                base_log: u32,
                levels: u32,
                modulus_log2: u32,
            ) -> c_int;
        }

        /// Ciphertexts to another key.
        pub fn $name(inputs: &[$from], key: &[$to], shape: KeySwitch, outputs: &mut [$to]) -> Result<(), LaunchError> {
            let (stride, columns) = (shape.input_dimension as usize + 1, shape.output_dimension as usize + 1);
            let (lanes, digits) = (inputs.len() / stride, shape.base_log * shape.levels);
            check(inputs.len() == lanes * stride && outputs.len() == lanes * columns, "whole ciphertexts")?;
            check(key.len() == (stride - 1) * shape.levels as usize * columns, "a row for each word and level")?;
            check(shape.base_log > 0 && (1..<$to>::BITS).contains(&digits), "digits that a word has")?;
            check((1..=<$to>::BITS).contains(&shape.modulus_log2), "a modulus that fits the word")?;
            // SAFETY: the slices hold `lanes` rows of input and output and every row of the key, as checked.
            outcome(unsafe {
                $emulate(
                    lanes as u32,
                    inputs.as_ptr(),
                    key.as_ptr(),
                    outputs.as_mut_ptr(),
                    shape.input_dimension,
                    shape.output_dimension,
                    shape.base_log,
                    shape.levels,
                    shape.modulus_log2,
                )
            })
        }
    };
}

exact_kernels!(
    u32,
    sums_32,
    emulate_linear_combination_32,
    modulus_switch_32,
    emulate_modulus_switch_32,
    sample_extract_32,
    emulate_sample_extract_32
);
exact_kernels!(
    u64,
    sums_64,
    emulate_linear_combination_64,
    modulus_switch_64,
    emulate_modulus_switch_64,
    sample_extract_64,
    emulate_sample_extract_64
);
key_switch!(u32, u32, key_switch_32_32, emulate_key_switch_32_32);
key_switch!(u64, u32, key_switch_64_32, emulate_key_switch_64_32);
key_switch!(u64, u64, key_switch_64_64, emulate_key_switch_64_64);

unsafe extern "C" {
    fn emulate_barrier(comers: u32) -> c_int;
}

/// A block of 128 threads of which the first `comers` come to a barrier.
pub fn barrier(comers: u32) -> Result<(), LaunchError> {
    // SAFETY: the kernel touches no memory.
    outcome(unsafe { emulate_barrier(comers) })
}
