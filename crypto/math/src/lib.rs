//! Torus arithmetic, gadget decomposition, samplers and the negacyclic transform.

pub mod decomposition;
pub mod random;
pub mod torus;

pub use torus::Torus;
