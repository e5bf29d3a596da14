//! Arithmetic that both schemes share: torus words and their Fourier transform, residues modulo
//! primes and their number-theoretic transform, and randomness.

pub mod aligned;
pub mod basis;
pub mod cache;
pub mod decomposition;
pub mod external_product;
pub mod key_product;
pub mod modulus;
pub mod ntt;
pub mod pointwise;
pub mod polynomial;
pub mod random;
pub mod reals;
pub mod simd;
pub mod threads;
pub mod torus;

pub use external_product::{ExternalProduct, GgswShape};
pub use torus::Torus;
