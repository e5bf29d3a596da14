//! Secret keys. A key is wiped on drop, and its `Debug` output contains no key bits.

mod client;
mod glwe;
mod lwe;

pub(crate) use client::check_word;
pub use client::{ClientKey, check_sets};
pub use glwe::GlweSecretKey;
pub use lwe::LweSecretKey;
