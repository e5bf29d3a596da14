//! Torus arithmetic, gadget decomposition, samplers and the negacyclic transform.

pub mod aligned;
pub mod cache;
pub mod decomposition;
pub mod external_product;
pub mod key_product;
pub mod polynomial;
pub mod random;
pub mod simd;
pub mod torus;

pub use external_product::{ExternalProduct, GgswShape};
pub use torus::Torus;
