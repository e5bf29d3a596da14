//! CKKS: secret keys, evaluation keys for a server, encryption and decryption.
//!
//! # Security of decrypted results
//!
//! A decrypted number is not exact, and its error depends on the secret key. An observer of many
//! results with all their digits, who knows the computation, can work out the key. CKKS is secure
//! against observers of ciphertexts, not against observers of decrypted results (IND-CPA-D).
//!
//! Rounding to the meaningful digits, some ten bits above the error, makes each result reveal less.
//! Rounding is no proof of security. Of many numbers, some lie next to a rounding boundary, and an
//! attacker who chooses the inputs can put all of them there. Never show results to a party that
//! chose the inputs.
//!
//! [`SecretKey::decrypt_flooded`] adds noise that hides the errors, for results that others see.

mod encrypt;
mod flooding;
mod generate;
mod key;
mod public;

/// Types that a client encrypts into, requests keys for and sends, and their byte formats.
pub use cloakwork_ckks::{
    Bootstrap, BootstrapKind, BootstrapShape, Ciphertext, CkksError, Complex, KeyPart, KeyPlan, KeySize,
    NoSuchBootstrap, Ring, SeededCiphertext, SeededPublicKey, format,
};
pub use flooding::Flooding;
pub use generate::KeyGenerator;
pub use key::SecretKey;
pub use public::PublicKey;
