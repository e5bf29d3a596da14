//! Reading an envelope: first the header, then the payload in pieces, and last the check of the
//! digest.

use std::io::{self, Read};

use super::{EnvelopeError, HEADER_BYTES, Header, MAGIC, TRAILER_BYTES, header::Secrets};

/// Reads the payload of an envelope. No byte of it may be trusted before [`EnvelopeReader::finish`]
/// has verified the digest.
#[must_use = "an envelope is not verified before `finish`"]
pub struct EnvelopeReader<R> {
    inner: R,
    header: Header,
    hasher: blake3::Hasher,
    payload_left: u64,
    /// Bytes that were read from `inner` so far.
    position: u64,
}

impl<R: Read> EnvelopeReader<R> {
    /// Reads the header and refuses secret keys. Every server uses this method.
    pub fn open(inner: R) -> Result<Self, EnvelopeError> {
        Self::start(inner, Secrets::Refused)
    }

    /// Reads the header, also of a secret key. For the owner's own files only.
    pub fn open_secret(inner: R) -> Result<Self, EnvelopeError> {
        Self::start(inner, Secrets::Read)
    }

    fn start(mut inner: R, secrets: Secrets) -> Result<Self, EnvelopeError> {
        let mut bytes = [0; HEADER_BYTES];
        let got = read_up_to(&mut inner, &mut bytes)?;
        // For a short text file, "not a Cloakwork file" is a better error than "truncated".
        if got >= MAGIC.len() && !bytes.starts_with(&MAGIC) {
            return Err(EnvelopeError::WrongMagic { got: std::array::from_fn(|index| bytes[index]) });
        }
        if got < HEADER_BYTES {
            return Err(EnvelopeError::Truncated { expected: HEADER_BYTES as u64, got: got as u64 });
        }
        let header = Header::from_bytes(&bytes, secrets)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes);
        Ok(Self { inner, hasher, payload_left: header.payload_len, header, position: HEADER_BYTES as u64 })
    }

    /// The header, before the verification of its digest.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the payload that are not read yet.
    pub fn payload_left(&self) -> u64 {
        self.payload_left
    }

    /// Fills `buffer` with the next bytes of the payload.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<(), EnvelopeError> {
        let asked = buffer.len() as u64;
        if asked > self.payload_left {
            let expected = self.header.payload_len - self.payload_left + asked;
            return Err(EnvelopeError::WrongPayloadLength { expected, got: self.header.payload_len });
        }
        let got = read_up_to(&mut self.inner, buffer)?;
        self.advance(&buffer[..got]);
        if got < buffer.len() { Err(self.truncated(0)) } else { Ok(()) }
    }

    /// Checks the digest, and returns the reader at the end of the envelope.
    pub fn finish(mut self) -> Result<R, EnvelopeError> {
        if self.payload_left != 0 {
            let expected = self.header.payload_len - self.payload_left;
            return Err(EnvelopeError::WrongPayloadLength { expected, got: self.header.payload_len });
        }
        let mut trailer = [0; TRAILER_BYTES];
        let got = read_up_to(&mut self.inner, &mut trailer)?;
        if got < TRAILER_BYTES {
            return Err(self.truncated(got as u64));
        }
        let (expected, got) = (blake3::Hash::from_bytes(trailer), self.hasher.finalize());
        if expected == got { Ok(self.inner) } else { Err(EnvelopeError::DigestMismatch { expected, got }) }
    }

    /// Checks the digest, and that no bytes follow the envelope.
    pub fn finish_at_end(self) -> Result<(), EnvelopeError> {
        let expected = self.envelope_len();
        let mut rest = self.finish()?;
        match read_up_to(&mut rest, &mut [0])? {
            0 => Ok(()),
            _ => Err(EnvelopeError::TrailingBytes { expected }),
        }
    }

    /// Reads the rest of the payload, then checks like [`EnvelopeReader::finish_at_end`].
    pub fn verify(mut self) -> Result<Header, EnvelopeError> {
        let mut buffer = vec![0; 1 << 16];
        while self.payload_left > 0 {
            let step = self.payload_left.min(buffer.len() as u64) as usize;
            self.fill(&mut buffer[..step])?;
        }
        let header = self.header.clone();
        self.finish_at_end()?;
        Ok(header)
    }

    fn advance(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.payload_left -= bytes.len() as u64;
        self.position += bytes.len() as u64;
    }

    fn truncated(&self, further: u64) -> EnvelopeError {
        EnvelopeError::Truncated { expected: self.envelope_len(), got: self.position + further }
    }

    /// A forged header may claim nearly 2^64 bytes, so the addition saturates.
    fn envelope_len(&self) -> u64 {
        self.header.payload_len.saturating_add((HEADER_BYTES + TRAILER_BYTES) as u64)
    }
}

/// The payload as a bounded reader. A premature end is an error, not an end of file.
impl<R: Read> Read for EnvelopeReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = self.payload_left.min(buffer.len() as u64) as usize;
        let got = self.inner.read(&mut buffer[..step])?;
        self.advance(&buffer[..got]);
        if got == 0 && step > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, self.truncated(0)));
        }
        Ok(got)
    }
}

/// Reads until `buffer` is full or the input ends, and returns the number of bytes.
fn read_up_to(inner: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match inner.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(step) => got += step,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
