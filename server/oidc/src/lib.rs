//! Verification of login tokens that an issuer of OpenID Connect has signed (JWTs, as bearer
//! tokens).
//!
//! [`Issuer::verify`] parses the header of a token and finds the key that the header names. The
//! function then verifies the signature, and reads the claims only after that. Keys come from the
//! issuer's key set, which is fetched when the first token needs it.
//!
//! # Safety against callers
//!
//! - Algorithms are on a list: RS256, PS256, ES256 and EdDSA with Ed25519. A key serves only
//!   algorithms of its own type, so a public key is never used as the secret of an HMAC.
//! - Keys and addresses in the header of a token (`jwk`, `jku`, `x5c`, `x5u`) are ignored.
//! - Members of the header and of the claims may appear once. Duplicates in nested objects are
//!   harmless: no nested object is read.
//! - Tokens of unknown keys cause at most one fetch in 30 seconds. Calls that arrive during a fetch
//!   wait for its result. Keys stay in use while the issuer is away, for at most 24 hours.
//! - No message quotes a token or the value of a claim.
//!
//! # Dependencies
//!
//! Signatures are verified by `ring`, the provider of TLS in this repository. The parser of tokens
//! is our own. Since its version 10, the crate `jsonwebtoken` verifies with `aws-lc-rs` or with the
//! crates of RustCrypto, so it would bring a second implementation of each primitive. The parser
//! here has some hundred lines, and adds no crate to the lock file.

#![forbid(unsafe_code)]

mod algorithm;
mod base64url;
mod cache;
mod claims;
mod fetch;
mod key;
mod object;
mod options;
mod refusal;
mod token;

use std::{fmt, sync::Arc, time::Duration};

use cloakwork_clock::Clock;

pub use claims::Claims;
pub use fetch::Failure;
pub use options::{Options, OptionsError};
pub use refusal::Refusal;

use cache::KeyCache;
use fetch::Fetcher;
use token::Token;

/// Verifies the tokens of one issuer.
pub struct Issuer {
    options: Options,
    clock: Clock,
    keys: Arc<KeyCache>,
}

impl Issuer {
    /// Checks the options and reads the file of the authority. Fetches nothing yet.
    pub fn new(options: Options, clock: Clock) -> Result<Self, OptionsError> {
        options.check()?;
        let keys = Arc::new(KeyCache::new(Fetcher::new(&options)?, &clock));
        Ok(Self { options, clock, keys })
    }

    /// Verifies a token and returns its claims. Must be called in a runtime of Tokio.
    ///
    /// Waits for a fetch of keys only if no known key fits the token, or if no keys were fetched
    /// for a long time. A caller that stops waiting does not end the fetch.
    pub async fn verify(&self, token: &str) -> Result<Claims, Refusal> {
        let token = Token::parse(token)?;
        let key = self.keys.find(token.algorithm, token.key_id.as_deref()).await?;
        if !key.has_signed(token.algorithm, token.signed, &token.signature) {
            return Err(Refusal::Signature);
        }
        claims::check(&token.payload, &self.options, self.clock.unix_micros())
    }

    /// Time since the keys in use were fetched, or `None` before the first fetch.
    pub fn keys_age(&self) -> Option<Duration> {
        self.keys.age()
    }

    /// The failure of the latest fetch of keys, or `None` after a success.
    pub fn failure(&self) -> Option<Failure> {
        self.keys.failure()
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Issuer").field("issuer", &self.options.issuer).finish_non_exhaustive()
    }
}
