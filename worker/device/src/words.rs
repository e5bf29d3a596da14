//! Ciphertext words on the host, of 32 or 64 bits.

use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tfhe::Lut;

/// Words to read, of the width of the parameter set's ciphertexts.
#[derive(Clone, Copy, Debug)]
pub enum Words<'a> {
    /// 32 bits.
    U32(&'a [u32]),
    /// 64 bits.
    U64(&'a [u64]),
}

/// Words to write, of the width of the parameter set's ciphertexts.
#[derive(Debug)]
pub enum WordsMut<'a> {
    /// 32 bits.
    U32(&'a mut [u32]),
    /// 64 bits.
    U64(&'a mut [u64]),
}

/// A lookup table on the host.
#[derive(Clone, Copy, Debug)]
pub enum HostLut<'a> {
    /// For a set with 32-bit words.
    U32(&'a Lut<u32>),
    /// For a set with 64-bit words.
    U64(&'a Lut<u64>),
}

impl Words<'_> {
    /// Width and number of the words.
    pub fn shape(&self) -> (TorusWidth, usize) {
        match self {
            Self::U32(words) => (TorusWidth::U32, words.len()),
            Self::U64(words) => (TorusWidth::U64, words.len()),
        }
    }
}

impl WordsMut<'_> {
    /// Width and number of the words.
    pub fn shape(&self) -> (TorusWidth, usize) {
        match self {
            Self::U32(words) => (TorusWidth::U32, words.len()),
            Self::U64(words) => (TorusWidth::U64, words.len()),
        }
    }
}

impl HostLut<'_> {
    /// Whether the table fits ciphertexts of `set`.
    pub fn fits(&self, set: &ParameterSet) -> bool {
        let (width, coefficients) = match self {
            Self::U32(lut) => (TorusWidth::U32, lut.body().len()),
            Self::U64(lut) => (TorusWidth::U64, lut.body().len()),
        };
        width == set.torus && coefficients == set.polynomial_size
    }
}

/// Calls `$function::<word of the big key, word of the small key>` with the set's word types.
/// Evaluates to `None` if no kernel has these word types.
#[macro_export]
macro_rules! by_words {
    ($set:expr, $function:ident($($argument:expr),*)) => {
        match ($set.torus.bits(), $set.small_word_bits()) {
            (64, 64) => Some($function::<u64, u64>($($argument),*)),
            (64, 32) => Some($function::<u64, u32>($($argument),*)),
            (32, 32) => Some($function::<u32, u32>($($argument),*)),
            _ => None,
        }
    };
}
