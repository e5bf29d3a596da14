//! Streaming output of an envelope.

use std::io::{self, Write};

use super::{EnvelopeError, HEADER_BYTES, Header};

/// Takes the payload as [`Write`], hashes it on the way, and completes the envelope in
/// [`EnvelopeWriter::finish`].
#[must_use = "an envelope is not complete before `finish`"]
pub struct EnvelopeWriter<W> {
    inner: W,
    hasher: blake3::Hasher,
    payload_len: u64,
    written: u64,
}

impl<W: Write> EnvelopeWriter<W> {
    /// Writes the header.
    pub fn new(mut inner: W, header: &Header) -> Result<Self, EnvelopeError> {
        let bytes: [u8; HEADER_BYTES] = header.to_bytes();
        inner.write_all(&bytes)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes);
        Ok(Self { inner, hasher, payload_len: header.payload_len, written: 0 })
    }

    /// Writes the digest, if the payload has the length in the header.
    pub fn finish(mut self) -> Result<W, EnvelopeError> {
        if self.written != self.payload_len {
            return Err(EnvelopeError::WrongPayloadLength { expected: self.payload_len, got: self.written });
        }
        self.inner.write_all(self.hasher.finalize().as_bytes())?;
        self.inner.flush()?;
        Ok(self.inner)
    }
}

impl<W: Write> Write for EnvelopeWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
