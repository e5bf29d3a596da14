//! CKKS: secret keys, the keys that a server computes with, encryption and decryption.
//!
//! # What a result tells
//!
//! A decrypted number is not exact, and its error depends on the secret key. Whoever sees many results with all their
//! digits, and knows what was computed, can work out the key: CKKS is secure against those who see ciphertexts, not
//! against those who see unrounded plaintexts. So results that others see are to be rounded to the digits that are meant,
//! some ten bits above the error.

mod encrypt;
mod generate;
mod key;
mod public;

/// What a client encrypts, asks keys for and sends, and the bytes of it.
pub use cloakwork_ckks::{
    Bootstrap, BootstrapKind, BootstrapShape, Ciphertext, CkksError, Complex, KeyPart, KeyPlan, KeySize,
    NoSuchBootstrap, Ring, SeededCiphertext, format,
};
pub use generate::KeyGenerator;
pub use key::SecretKey;
pub use public::PublicKey;
