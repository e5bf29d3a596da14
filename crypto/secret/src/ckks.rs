//! CKKS: secret keys, the keys that a server computes with, encryption and decryption.
//!
//! # What a result tells
//!
//! A decrypted number is not exact, and its error depends on the secret key. Whoever sees many results with all their
//! digits, and knows what was computed, can work out the key: CKKS is secure against those who see ciphertexts, not
//! against those who see decrypted results (IND-CPA-D). Rounding to the digits that are meant, some ten bits above the error,
//! makes each result tell less. It is no proof of security: of many numbers, some lie next to where rounding changes, and
//! somebody who chooses the inputs can put all of them there. Results of inputs that others choose are not to be shown to them.

mod encrypt;
mod generate;
mod key;
mod public;

/// What a client encrypts, asks keys for and sends, and the bytes of it.
pub use cloakwork_ckks::{
    Bootstrap, BootstrapKind, BootstrapShape, Ciphertext, CkksError, Complex, KeyPart, KeyPlan, KeySize,
    NoSuchBootstrap, Ring, SeededCiphertext, SeededPublicKey, format,
};
pub use generate::KeyGenerator;
pub use key::SecretKey;
pub use public::PublicKey;
