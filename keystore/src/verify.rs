//! Verification of a blob during its arrival, in pieces of any size.
//!
//! One pass of one hasher gives both digests. BLAKE3 of all bytes before the trailer must equal the
//! trailer. BLAKE3 of all bytes is the blob's name.

use cloakwork_params::{
    AnySet, CiphertextInfo, EnvelopeError, EnvelopeReader, Header, KeyId, ObjectKind,
    ckks::layout::KeyShape,
    envelope::{Dimensions, HEADER_BYTES, MAGIC, TRAILER_BYTES},
    info::Excess,
    layout::{self, INFO_BYTES},
};

use crate::{Digest, Error};

/// Rules for the blobs that a keystore accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) allow_weak_sets: bool,
    pub(crate) list_bytes: u64,
}

/// Metadata that a blob contains in the clear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) kind: ObjectKind,
    pub(crate) set: AnySet,
    pub(crate) key_id: KeyId,
    /// Dimensions from the header, checked against the set.
    pub(crate) dimensions: Dimensions,
    pub(crate) count: u64,
    pub(crate) degree_max: u32,
    pub(crate) noise_level_max: u32,
}

/// Takes a blob's bytes in order, and refuses a bad blob as early as possible.
pub(crate) struct Verifier {
    announced: Digest,
    policy: Policy,
    hasher: blake3::Hasher,
    position: u64,
    /// Received bytes of the header.
    head: Vec<u8>,
    content: Option<Content>,
    /// Received bytes of the current list entry.
    entry: Vec<u8>,
    trailer: Vec<u8>,
    /// BLAKE3 of all bytes before the trailer.
    inner: Option<blake3::Hash>,
}

impl Verifier {
    pub(crate) fn new(announced: Digest, policy: Policy) -> Self {
        Self {
            announced,
            policy,
            hasher: blake3::Hasher::new(),
            position: 0,
            head: Vec::with_capacity(HEADER_BYTES),
            content: None,
            entry: Vec::with_capacity(INFO_BYTES as usize),
            trailer: Vec::with_capacity(TRAILER_BYTES),
            inner: None,
        }
    }

    /// Whether the whole header has arrived and been accepted. Until then, no byte may reach the
    /// disk.
    pub(crate) fn header_accepted(&self) -> bool {
        self.content.is_some()
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let end = self.position.saturating_add(bytes.len() as u64);
        if end > self.announced.size_bytes {
            return Err(Error::SizeMismatch { expected: self.announced.size_bytes, got: end });
        }
        let (head, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - self.head.len()));
        self.push_head(head)?;
        let entries_end = self.entries_end();
        let (entries, _) = rest.split_at(rest.len().min(span(self.position, entries_end)));
        self.push_entries(entries)?;
        let content_end = self.content_end();
        let skipped = span(self.position + entries.len() as u64, content_end);
        let (content, trailer) = rest.split_at(rest.len().min(entries.len() + skipped));
        self.hash(content);
        if !trailer.is_empty() || (self.position == content_end && self.header_accepted()) {
            self.inner.get_or_insert_with(|| self.hasher.finalize());
            self.trailer.extend_from_slice(trailer);
            self.hash(trailer);
        }
        Ok(())
    }

    /// Performs the checks that need the whole blob.
    pub(crate) fn finish(mut self) -> Result<Content, Error> {
        if self.position != self.announced.size_bytes {
            return Err(Error::SizeMismatch { expected: self.announced.size_bytes, got: self.position });
        }
        // The blob is shorter than a header.
        let Some(content) = self.content else {
            return Err(self.accept_header().err().unwrap_or(Error::SizeMismatch {
                expected: (HEADER_BYTES + TRAILER_BYTES) as u64,
                got: self.position,
            }));
        };
        let got = Digest { blake3: *self.hasher.finalize().as_bytes(), size_bytes: self.position };
        if got != self.announced {
            return Err(Error::DigestMismatch { expected: self.announced, got });
        }
        let inner = self.inner.unwrap_or_else(|| self.hasher.finalize());
        match <[u8; TRAILER_BYTES]>::try_from(&self.trailer[..]).map(blake3::Hash::from_bytes) {
            Ok(trailer) if trailer == inner => Ok(content),
            Ok(expected) => Err(EnvelopeError::DigestMismatch { expected, got: inner }.into()),
            Err(_) => Err(EnvelopeError::Truncated { expected: self.content_end(), got: self.position }.into()),
        }
    }

    fn push_head(&mut self, head: &[u8]) -> Result<(), Error> {
        if head.is_empty() {
            return Ok(());
        }
        self.head.extend_from_slice(head);
        let known = self.head.len().min(MAGIC.len());
        if self.head[..known] != MAGIC[..known] {
            let got = std::array::from_fn(|index| self.head.get(index).copied().unwrap_or(0));
            return Err(EnvelopeError::WrongMagic { got }.into());
        }
        self.hash(head);
        if self.head.len() == HEADER_BYTES { self.accept_header() } else { Ok(()) }
    }

    fn accept_header(&mut self) -> Result<(), Error> {
        let header = EnvelopeReader::open(&self.head[..])?.header().clone();
        let set = layout::conform_any(&header)?;
        let (standing, allow_weak_sets) = (set.standing(), self.policy.allow_weak_sets);
        // Ciphertexts under a stored key are as good as the key.
        let is_taken = match is_key(header.kind) {
            true => standing.takes_keys(allow_weak_sets),
            false => standing.computes(allow_weak_sets),
        };
        if !is_taken {
            return Err(Error::WeakSetRefused { set: set.name(), reason: standing.weakness().unwrap_or_default() });
        }
        // The layout bounds the payload's length, so this sum cannot overflow.
        let size_bytes = header.payload_len + (HEADER_BYTES + TRAILER_BYTES) as u64;
        if !is_key(header.kind) && size_bytes > self.policy.list_bytes {
            let what = header.kind.to_string();
            return Err(Error::BlobTooLarge { what, limit: self.policy.list_bytes, got: size_bytes });
        }
        if size_bytes != self.announced.size_bytes {
            return Err(Error::SizeMismatch { expected: self.announced.size_bytes, got: size_bytes });
        }
        self.content = Some(Content::of(&header, set));
        Ok(())
    }

    fn push_entries(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let Some(content) = &mut self.content else { return Ok(()) };
        let first = (self.position - HEADER_BYTES as u64) / INFO_BYTES;
        let mut index = first;
        while !bytes.is_empty() {
            let (step, rest) = bytes.split_at(bytes.len().min(INFO_BYTES as usize - self.entry.len()));
            self.entry.extend_from_slice(step);
            bytes = rest;
            let Ok(entry) = <[u8; INFO_BYTES as usize]>::try_from(&self.entry[..]) else { break };
            self.entry.clear();
            let info = CiphertextInfo::from_bytes(entry);
            // Only lists have entries, and all lists are of TFHE.
            if let Some(Excess { what, limit, got }) = content.set.tfhe().and_then(|set| info.excess(set)) {
                return Err(Error::EntryOutOfRange { what, index, limit, got });
            }
            content.degree_max = content.degree_max.max(info.degree);
            content.noise_level_max = content.noise_level_max.max(info.noise_level);
            index += 1;
        }
        Ok(())
    }

    fn hash(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.position += bytes.len() as u64;
    }

    /// End of a list's entries; for other objects, end of the header.
    fn entries_end(&self) -> u64 {
        let entries = match &self.content {
            Some(content) if is_list(content.kind) => content.count,
            _ => 0,
        };
        HEADER_BYTES as u64 + entries * INFO_BYTES
    }

    /// Start of the trailer.
    fn content_end(&self) -> u64 {
        self.announced.size_bytes.saturating_sub(TRAILER_BYTES as u64)
    }
}

impl Content {
    fn of(header: &Header, set: AnySet) -> Self {
        let Header { kind, key_id, dimensions, .. } = *header;
        let count = match kind {
            _ if is_key(kind) => 0,
            _ if kind.is_ckks() => 1,
            _ => u64::from(dimensions[0]),
        };
        Self { kind, set, key_id, dimensions, count, degree_max: 0, noise_level_max: 0 }
    }

    /// Purpose and level of a part of a CKKS key; `None` for any other object.
    pub(crate) fn key_shape(&self) -> Option<KeyShape> {
        let set = self.set.ckks().filter(|_| self.kind == ObjectKind::SeededCkksSwitchKey)?;
        KeyShape::of(set, &self.dimensions).ok()
    }
}

/// Whether an object is a key. Keys are never evicted, and the parameter set determines their size.
pub(crate) fn is_key(kind: ObjectKind) -> bool {
    is_evaluation_key(kind) || matches!(kind, ObjectKind::CompactPublicKey | ObjectKind::SeededCkksPublicKey)
}

/// Whether an object may be a part of a registered key.
pub(crate) fn is_evaluation_key(kind: ObjectKind) -> bool {
    PART_ORDER.contains(&kind)
}

/// The kinds of parts, in the order in which a computation needs them.
pub(crate) const PART_ORDER: [ObjectKind; 5] = [
    ObjectKind::SeededKeySwitchKey,
    ObjectKind::SeededBootstrapKey,
    ObjectKind::SeededPackingKey,
    ObjectKind::SeededDecompressionKey,
    ObjectKind::SeededCkksSwitchKey,
];

/// Whether an object is a list, with the degree and noise level of each ciphertext.
fn is_list(kind: ObjectKind) -> bool {
    use ObjectKind::{CompactList, CompressedGlweList, LweList, SeededLweList};
    matches!(kind, LweList | SeededLweList | CompactList | CompressedGlweList)
}

/// Number of bytes from `from` to `to`; 0 if `to` comes first.
fn span(from: u64, to: u64) -> usize {
    usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
