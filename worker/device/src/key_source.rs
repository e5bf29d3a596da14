//! Evaluation keys as streams of parts.

use std::io::{self, Read};

use cloakwork_params::{EnvelopeError, EnvelopeReader, Expected, KeyId, ObjectKind, ParameterSet};
use cloakwork_tfhe::{
    SeededBootstrapKey, SeededKeySwitchKey, Torus,
    format::{Decoded, FormatError, WireObject, decode},
};

use crate::DeviceError;

/// An evaluation key, part by part.
///
/// A reader returns an error of kind [`io::ErrorKind::InvalidData`] if its bytes differ from the
/// requested ones. Errors of any other kind are assumed to be transient.
pub trait KeySource {
    /// The parameter set that the key must have.
    fn set(&self) -> &'static ParameterSet;

    /// Id of the key. Every part must carry this id.
    fn key_id(&self) -> KeyId;

    /// Identifier of this key's exact bytes and of their owner, or `None` if neither is known. A
    /// device that remembers a key with equal contents need not open its parts.
    fn contents(&self) -> Option<Vec<u8>> {
        None
    }

    /// Number of parts.
    fn parts(&self) -> usize;

    /// Opens a part for reading. Its bytes are an envelope.
    fn open(&self, part: usize) -> io::Result<Box<dyn Read + '_>>;
}

/// The parts that a bootstrap needs, in host memory and in seeded form.
pub struct SeededParts<T, S> {
    /// The key-switch key.
    pub key_switch: SeededKeySwitchKey<S>,
    /// The bootstrap key.
    pub bootstrap: SeededBootstrapKey<T>,
}

impl<T: Torus, S: Torus> SeededParts<T, S> {
    /// Reads the parts that a bootstrap needs and skips the rest. Every byte of a used part is
    /// verified.
    pub fn read(source: &dyn KeySource) -> Result<Self, DeviceError> {
        let (mut key_switch, mut bootstrap) = (None, None);
        for part in 0..source.parts() {
            let io_error = |error: io::Error| part_error(part, EnvelopeError::from(error).into());
            let mut input = source.open(part).map_err(io_error)?;
            let mut head = Vec::new();
            let header_bytes = cloakwork_params::envelope::HEADER_BYTES as u64;
            input.by_ref().take(header_bytes).read_to_end(&mut head).map_err(io_error)?;
            let kind = EnvelopeReader::open(&head[..]).map(|envelope| envelope.header().kind);
            let whole = head.as_slice().chain(input);
            match kind.map_err(|error| part_error(part, error.into()))? {
                ObjectKind::SeededKeySwitchKey => key_switch = Some(decode_part(source, part, whole)?),
                ObjectKind::SeededBootstrapKey => bootstrap = Some(decode_part(source, part, whole)?),
                _ => {}
            }
        }
        let missing = |what| DeviceError::MissingKeyPart { what, set: source.set().name };
        Ok(Self {
            key_switch: key_switch.ok_or(missing("key-switch key"))?,
            bootstrap: bootstrap.ok_or(missing("bootstrap key"))?,
        })
    }
}

/// Classifies a failure to read part `part` as wrong bytes or as unavailable bytes.
pub fn part_error(part: usize, problem: FormatError) -> DeviceError {
    match problem {
        FormatError::Envelope(EnvelopeError::Io { kind, message }) if kind != io::ErrorKind::InvalidData => {
            DeviceError::Unreadable { part, message }
        }
        problem => DeviceError::BadKeyPart { part, problem },
    }
}

fn decode_part<O: WireObject>(source: &dyn KeySource, part: usize, input: impl Read) -> Result<O, DeviceError> {
    let expected = Expected { set: Some(source.set()), key_id: Some(source.key_id()) };
    let Decoded { object, .. } = decode(input, &expected).map_err(|problem| part_error(part, problem))?;
    Ok(object)
}
