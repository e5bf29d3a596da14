//! Measurement of the noise of ciphertexts whose plaintexts are known.

use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{LweList, ShapeError};

use crate::{ClientKey, SecretError, encode};

/// The noise of a batch of ciphertexts, as fractions of the torus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseReport {
    /// Number of ciphertexts measured.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Mean of the squared distance from the mean.
    pub variance: f64,
    /// Largest absolute value.
    pub max: f64,
}

/// Measures the distances between phases and their plaintexts.
pub fn noise<T: Torus>(phases: &[T], plaintexts: &[T]) -> Result<NoiseReport, SecretError> {
    if phases.len() != plaintexts.len() {
        let (expected, got) = (phases.len(), plaintexts.len());
        return Err(ShapeError { what: "plaintexts, one for each ciphertext", expected, got }.into());
    }
    let unit = 0.5_f64.powi(T::BITS as i32);
    let errors = || phases.iter().zip(plaintexts).map(|(phase, plain)| phase.wrapping_sub(*plain).to_i64() as f64);
    let count = phases.len().max(1) as f64;
    let mean = errors().sum::<f64>() / count;
    let variance = errors().map(|error| (error - mean).powi(2)).sum::<f64>() / count;
    let max = errors().fold(0.0, |max: f64, error| max.max(error.abs()));
    Ok(NoiseReport { count: phases.len(), mean: mean * unit, variance: variance * unit * unit, max: max * unit })
}

impl ClientKey {
    /// Measures the noise of ciphertexts of a set that should decrypt to `messages`.
    pub fn noise<T: Torus>(
        &self,
        set: &ParameterSet,
        ciphertexts: &LweList<T>,
        messages: &[u64],
    ) -> Result<NoiseReport, SecretError> {
        noise(&self.phases(set, ciphertexts)?, &encode::plaintexts(set, messages)?)
    }
}
