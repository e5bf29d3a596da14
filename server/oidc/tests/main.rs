//! Tests of the verification of login tokens, against an issuer in this process.

mod fetching;
mod issuer;
mod keys;
mod random;
mod tls;
mod tokens;
