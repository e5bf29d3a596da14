//! Inputs, outputs and key parts of a job, as bytes.

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
    /// The bytes are not a valid ciphertext.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The ciphertext differs from the program's declaration.
    #[error("{0}")]
    Undeclared(String),
}

/// Reads an input, seeded or not, under a key. Checks the header against the program's declaration
/// before it reads the numbers.
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
    // The scales differ at most by a rounding, so the program's value is taken.
    Ok(Ciphertext { scale: declared.vector.scale, ..ciphertext })
}

/// Encodes an output.
pub fn write_output(output: &Ciphertext, ring: &Ring, key_id: KeyId) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    encode(output, ring, key_id, &mut bytes)?;
    Ok(bytes)
}

/// Reads a part of a key that has the given key id.
pub fn read_part(input: impl Read, ring: &Ring, key_id: KeyId) -> Result<KeyPart, FormatError> {
    Ok(decode::<KeyPart>(input, ring, Some(key_id))?.object)
}

impl From<CkksError> for InputError {
    fn from(error: CkksError) -> Self {
        Self::Format(error.into())
    }
}
