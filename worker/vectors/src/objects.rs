//! What a job reads and returns, as bytes.

use std::io::Read;

use cloakwork_circuit::ckks::Input;
use cloakwork_ckks::{
    Ciphertext, CkksError, KeyPart, Ring, SeededCiphertext,
    format::{Decoded, FormatError, decode, encode},
};
use cloakwork_params::{
    EnvelopeReader, KeyId, ObjectKind,
    ckks::layout::{CiphertextShape, Expected, conform},
};

/// Why an input is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// It is not what it should be.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It is none that the program declares.
    #[error("{0}")]
    Undeclared(String),
}

/// Reads an input in either form, made under a key. It is held to the program's declaration before its numbers are read.
pub fn read_input(bytes: &[u8], ring: &Ring, key_id: KeyId, declared: &Input) -> Result<Ciphertext, InputError> {
    let header = EnvelopeReader::open(bytes).map_err(FormatError::from)?.header().clone();
    let expected = Expected { set: Some(ring.set()), key_id: Some(key_id) };
    let is_seeded = header.kind == ObjectKind::SeededCkksCiphertext;
    let kind = if is_seeded { header.kind } else { ObjectKind::CkksCiphertext };
    conform(&header, kind, &expected).map_err(FormatError::from)?;
    let shape = CiphertextShape::of(ring.set(), &header.dimensions).map_err(FormatError::from)?;
    if let Some(difference) = declared.vector.difference(shape) {
        return Err(InputError::Undeclared(difference));
    }
    let ciphertext = if is_seeded {
        let Decoded { object, .. } = decode::<SeededCiphertext>(bytes, ring, Some(key_id))?;
        object.expand(ring).map_err(FormatError::from)?
    } else {
        decode::<Ciphertext>(bytes, ring, Some(key_id))?.object
    };
    // What differs by less than a rounding is the scale that the program says.
    Ok(Ciphertext { scale: declared.vector.scale, ..ciphertext })
}

/// An output as it goes back.
pub fn write_output(output: &Ciphertext, ring: &Ring, key_id: KeyId) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    encode(output, ring, key_id, &mut bytes)?;
    Ok(bytes)
}

/// A part of a key, made under a key id.
pub fn read_part(input: impl Read, ring: &Ring, key_id: KeyId) -> Result<KeyPart, FormatError> {
    Ok(decode::<KeyPart>(input, ring, Some(key_id))?.object)
}

impl From<CkksError> for InputError {
    fn from(error: CkksError) -> Self {
        Self::Format(error.into())
    }
}
