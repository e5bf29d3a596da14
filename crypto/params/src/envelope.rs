//! The single binary format of all objects on the wire and on disk. `docs/formats.md` is its
//! specification.
//!
//! An envelope is a fixed header, the payload, and a BLAKE3 digest of both. Readers and writers
//! stream, so that keys of many gigabytes pass through a few kilobytes of memory.

mod error;
mod header;
mod reader;
mod writer;

pub use error::EnvelopeError;
pub use header::{DIMENSIONS, Dimensions, HEADER_BYTES, Header, MAGIC, Seed, VERSION};
pub use reader::EnvelopeReader;
pub use writer::EnvelopeWriter;

/// Length of the digest that ends an envelope.
pub const TRAILER_BYTES: usize = 32;

#[cfg(test)]
mod tests;
