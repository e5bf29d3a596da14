#![forbid(unsafe_code)]
//! Secret keys: client side only.
