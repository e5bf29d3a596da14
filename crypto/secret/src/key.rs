//! Secret keys. They are wiped on drop and never print their bits.

mod client;
mod glwe;
mod lwe;

pub use client::ClientKey;
pub(crate) use client::check_word;
pub use glwe::GlweSecretKey;
pub use lwe::LweSecretKey;
