//! Shapes of lists of ciphertexts. A client knows the shape of each list without the server: the
//! client has encrypted the list, or has submitted the program that returns the list.
//!
//! The header of a list is not authenticated. A server that states a smaller scale would make
//! decoding return the digits of the error, which depends on the secret key. So a list is decrypted
//! only if its header agrees with its shape.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::ckks::Vector;
use cloakwork_params::{
    AnySet, CiphertextInfo, EnvelopeError, EnvelopeReader, KeyId, ObjectKind, ParameterSet,
    ckks::{CkksSet, layout::CiphertextShape},
};

use crate::{ClientError, Digest, Result};

/// Encrypted values, which only the key's owner can read: a list of ciphertexts in its envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct Encrypted {
    /// The encoded list. Its bytes may come from a server.
    pub envelope: Bytes,
    /// Shape that the client expects.
    pub shape: Shape,
}

impl Encrypted {
    /// Compares the header of the envelope with the shape, as far as the header tells. Decryption
    /// compares the rest.
    pub fn check_header(&self) -> Result<()> {
        match &self.shape {
            Shape::Vector(vector) => vector.check(&self.envelope),
            Shape::Blocks(blocks) => {
                let got = EnvelopeReader::open(&self.envelope[..])?.header().set;
                let name = || AnySet::find(got).map_or("an unknown one", |set| set.name());
                if got == blocks.set.id { Ok(()) } else { Err(unexpected("parameter set", name(), blocks.set.name)) }
            }
        }
    }

    /// Digest of the envelope, which names the list on the server.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.envelope)
    }
}

/// Properties of a list of ciphertexts that do not depend on its values.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Blocks or bits of TFHE.
    Blocks(BlocksShape),
    /// One vector of CKKS.
    Vector(VectorShape),
}

/// Properties of a list of blocks or bits.
#[derive(Clone, Debug, PartialEq)]
pub struct BlocksShape {
    /// Parameter set of the list.
    pub set: &'static ParameterSet,
    /// Largest value of each ciphertext of a row.
    pub degrees: Arc<[u32]>,
    /// Number of rows. `None` if the client does not know the number.
    pub rows: Option<usize>,
}

/// Properties of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorShape {
    /// Parameter set of the vector.
    pub set: &'static CkksSet,
    /// Slots, level and scale.
    pub vector: Vector,
}

impl Shape {
    /// The shape of blocks. A vector is an error.
    pub(crate) fn blocks(&self) -> Result<&BlocksShape> {
        match self {
            Self::Blocks(blocks) => Ok(blocks),
            Self::Vector(_) => Err(unexpected("scheme", "CKKS", "TFHE")),
        }
    }

    /// The shape of a vector. Blocks are an error.
    pub(crate) fn vector(&self) -> Result<&VectorShape> {
        match self {
            Self::Vector(vector) => Ok(vector),
            Self::Blocks(_) => Err(unexpected("scheme", "TFHE", "CKKS")),
        }
    }

    /// The shape with a number of rows. A vector is always one row.
    pub(crate) fn of_rows(self, rows: Option<usize>) -> Self {
        match self {
            Self::Blocks(blocks) => Self::Blocks(BlocksShape { rows, ..blocks }),
            vector => vector,
        }
    }
}

impl BlocksShape {
    /// A list of `rows` single blocks of at most `degree`.
    pub(crate) fn of_degree(set: &'static ParameterSet, degree: u32, rows: usize) -> Shape {
        Shape::Blocks(Self { set, degrees: [degree].into(), rows: Some(rows) })
    }

    /// Compares a decoded list with the shape.
    pub(crate) fn check(&self, infos: &[CiphertextInfo]) -> Result<()> {
        let of_row = self.degrees.len();
        match self.rows {
            Some(rows) if rows.checked_mul(of_row) != Some(infos.len()) => {
                Err(unexpected("number of ciphertexts", infos.len(), format_args!("{rows} times {of_row}")))
            }
            None if !infos.len().is_multiple_of(of_row) => {
                Err(unexpected("number of ciphertexts", infos.len(), format_args!("a multiple of {of_row}")))
            }
            _ => {
                let degrees = self.degrees.iter().cycle();
                match infos.iter().zip(degrees).find(|(info, degree)| info.degree > **degree) {
                    Some((info, degree)) => Err(unexpected("degree", info.degree, format_args!("at most {degree}"))),
                    None => Ok(()),
                }
            }
        }
    }
}

impl VectorShape {
    /// Compares the header of an envelope with the shape. Nothing is decoded.
    pub(crate) fn check(&self, envelope: &[u8]) -> Result<()> {
        let VectorHeader { set, vector, .. } = VectorHeader::of(envelope)?;
        if set.id != self.set.id {
            return Err(unexpected("parameter set", set.name, self.set.name));
        }
        let got = CiphertextShape { level: vector.level, slots_log2: vector.slots_log2, scale: vector.scale };
        match self.vector.difference(got) {
            None => Ok(()),
            Some(difference) => Err(ClientError::UnexpectedList { difference }),
        }
    }
}

/// Description of a vector from its header, in the clear and unverified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorHeader {
    /// Parameter set of the ciphertext.
    pub set: &'static CkksSet,
    /// The key that the ciphertext was made under.
    pub key_id: KeyId,
    /// Slots, level and scale.
    pub vector: Vector,
}

impl VectorHeader {
    /// Reads the header of an envelope.
    pub fn of(envelope: &[u8]) -> Result<Self> {
        let reader = EnvelopeReader::open(envelope)?;
        let header = reader.header();
        let set = AnySet::find(header.set).ok_or(EnvelopeError::UnknownParameterSet { got: header.set })?;
        let is_vector = matches!(header.kind, ObjectKind::CkksCiphertext | ObjectKind::SeededCkksCiphertext);
        let Some(set) = set.ckks().filter(|_| is_vector) else {
            return Err(EnvelopeError::WrongKind { expected: ObjectKind::CkksCiphertext, got: header.kind }.into());
        };
        let CiphertextShape { level, slots_log2, scale } = CiphertextShape::of(set, &header.dimensions)?;
        Ok(Self { set, key_id: header.key_id, vector: Vector { slots_log2, level, scale } })
    }

    /// The shape that the header states. Only the reader of a trusted file may rely on this shape.
    pub fn shape(&self) -> Shape {
        Shape::Vector(VectorShape { set: self.set, vector: self.vector })
    }
}

fn unexpected(what: &str, got: impl std::fmt::Display, expected: impl std::fmt::Display) -> ClientError {
    ClientError::UnexpectedList { difference: format!("{what} {got}: expected {expected}") }
}
