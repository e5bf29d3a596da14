//! Secret keys. They are wiped on drop and never print their bits.

mod client;
mod glwe;
mod lwe;

pub(crate) use client::check_word;
pub use client::{ClientKey, check_sets};
pub use glwe::GlweSecretKey;
pub use lwe::LweSecretKey;
