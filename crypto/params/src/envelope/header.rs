//! The fixed header.

use super::EnvelopeError;
use crate::{
    kind::{FIRST_SECRET_KIND, KeyId, ObjectKind},
    set::SetId,
};

/// First bytes of every envelope.
pub const MAGIC: [u8; 8] = *b"CLOAKWRK";

/// The format version that this build writes, and the only version so far.
pub const VERSION: u16 = 1;

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 112;

/// Number of dimensions in a header. Unused dimensions are zero.
pub const DIMENSIONS: usize = 8;

/// The dimensions of an object. Its kind defines the meaning of each.
pub type Dimensions = [u32; DIMENSIONS];

/// The start of the public mask stream of a seeded object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The AES key as a little-endian integer.
    pub key: u128,
    /// First AES block.
    pub block: u128,
    /// First byte within that block, below 16.
    pub byte: u8,
}

/// All properties of an object that are known without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Parameter set of the object.
    pub set: SetId,
    /// The secret keys under which the object was made.
    pub key_id: KeyId,
    /// Dimensions of the object.
    pub dimensions: Dimensions,
    /// Start of the mask stream, present exactly in seeded kinds.
    pub seed: Option<Seed>,
    /// Length of the payload in bytes.
    pub payload_len: u64,
}

/// Treatment of kinds that no server may receive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Refuse secret kinds by name.
    Refused,
    /// Read secret kinds, on request of the owner.
    Read,
}

impl Header {
    /// The header as written.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, MAGIC_AT, &MAGIC);
        put(&mut bytes, VERSION_AT, &VERSION.to_le_bytes());
        put(&mut bytes, KIND_AT, &self.kind.number().to_le_bytes());
        put(&mut bytes, SET_AT, &self.set.0.to_le_bytes());
        put(&mut bytes, KEY_ID_AT, &self.key_id.0);
        for (index, value) in self.dimensions.iter().enumerate() {
            put(&mut bytes, DIMENSIONS_AT + 4 * index, &value.to_le_bytes());
        }
        if let Some(seed) = self.seed {
            put(&mut bytes, SEED_KEY_AT, &seed.key.to_le_bytes());
            put(&mut bytes, SEED_BLOCK_AT, &seed.block.to_le_bytes());
            bytes[SEED_BYTE_AT] = seed.byte;
        }
        put(&mut bytes, PAYLOAD_LEN_AT, &self.payload_len.to_le_bytes());
        bytes
    }

    /// Reads a header and checks everything that does not depend on the parameter sets.
    pub(super) fn from_bytes(bytes: &[u8; HEADER_BYTES], secrets: Secrets) -> Result<Self, EnvelopeError> {
        let magic = take(bytes, MAGIC_AT);
        if magic != MAGIC {
            return Err(EnvelopeError::WrongMagic { got: magic });
        }
        let version = u16::from_le_bytes(take(bytes, VERSION_AT));
        if version != VERSION {
            return Err(EnvelopeError::UnsupportedVersion { expected: VERSION, got: version });
        }
        let number = u16::from_le_bytes(take(bytes, KIND_AT));
        let kind = match ObjectKind::from_number(number) {
            Some(kind) if !kind.is_secret() || secrets == Secrets::Read => kind,
            _ if number >= FIRST_SECRET_KIND => return Err(EnvelopeError::SecretKeyRefused { got: number }),
            _ => return Err(EnvelopeError::UnknownKind { got: number }),
        };
        let unused = if kind.is_seeded() { &UNUSED[..] } else { &UNUSED_WITHOUT_SEED[..] };
        for offset in unused.iter().cloned().flatten() {
            if bytes[offset] != 0 {
                return Err(EnvelopeError::ReservedNotZero { offset, got: bytes[offset] });
            }
        }
        Ok(Self {
            kind,
            set: SetId(u16::from_le_bytes(take(bytes, SET_AT))),
            key_id: KeyId(take(bytes, KEY_ID_AT)),
            dimensions: std::array::from_fn(|index| u32::from_le_bytes(take(bytes, DIMENSIONS_AT + 4 * index))),
            seed: if kind.is_seeded() { Some(seed(bytes)?) } else { None },
            payload_len: u64::from_le_bytes(take(bytes, PAYLOAD_LEN_AT)),
        })
    }
}

fn seed(bytes: &[u8; HEADER_BYTES]) -> Result<Seed, EnvelopeError> {
    let byte = bytes[SEED_BYTE_AT];
    if byte > 15 {
        return Err(EnvelopeError::SeedOutOfRange { got: byte });
    }
    Ok(Seed {
        key: u128::from_le_bytes(take(bytes, SEED_KEY_AT)),
        block: u128::from_le_bytes(take(bytes, SEED_BLOCK_AT)),
        byte,
    })
}

fn put(bytes: &mut [u8; HEADER_BYTES], offset: usize, field: &[u8]) {
    bytes[offset..][..field.len()].copy_from_slice(field);
}

fn take<const N: usize>(bytes: &[u8; HEADER_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[offset + index])
}

// Offsets of the fields. The header is a multiple of 16 bytes, so the words of the payload stay
// aligned in a mapped file.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 8;
const KIND_AT: usize = 10;
const SET_AT: usize = 12;
const KEY_ID_AT: usize = 16;
const DIMENSIONS_AT: usize = 32;
const SEED_KEY_AT: usize = 64;
const SEED_BLOCK_AT: usize = 80;
const SEED_BYTE_AT: usize = 96;
const PAYLOAD_LEN_AT: usize = 104;
const UNUSED: [std::ops::Range<usize>; 2] = [14..16, 97..104];
const UNUSED_WITHOUT_SEED: [std::ops::Range<usize>; 2] = [14..16, 64..104];
