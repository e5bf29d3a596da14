//! Conversion between objects and envelopes. `docs/formats.md` is the specification.
//!
//! Each type of object defines its dimensions and how its payload is read and written. Everything
//! else, from the header to the digest, is common to all types and happens in [`encode`] and
//! [`decode`].

mod error;
mod info;
mod keys;
mod list;
mod lut;
mod lwe;
mod packing;
mod words;

use std::io::{Read, Write};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{
    EnvelopeError, EnvelopeReader, EnvelopeWriter, Expected, Header, KeyId, Layout, ObjectKind, ParameterSet, Seed,
    envelope::Dimensions, layout,
};

pub use cloakwork_params::CiphertextInfo;
pub use error::FormatError;
pub use list::{CiphertextList, ListForm};

/// An object that can be stored in an envelope.
pub trait WireObject: Sized {
    /// Kind of the object in the envelope's header.
    const KIND: ObjectKind;

    /// Dimensions of the object, in the order of the kind's layout.
    fn dimensions(&self) -> Result<Dimensions, FormatError>;

    /// Start of the mask stream, for seeded kinds.
    fn seed(&self) -> Option<MaskSeed>;

    /// Writes the payload of an object whose dimensions are those of `set`.
    fn write_payload<W: Write>(&self, set: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError>;

    /// Reads the payload that follows a header whose dimensions are those of `set`.
    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError>;
}

/// An object with the facts from its envelope's header.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<O> {
    /// The object.
    pub object: O,
    /// Parameter set of the object.
    pub set: &'static ParameterSet,
    /// Identifier of the key that the object was made under.
    pub key_id: KeyId,
}

/// Writes `object` as an envelope. An object that does not conform to `set` is refused.
pub fn encode<O: WireObject>(
    object: &O,
    set: &ParameterSet,
    key_id: KeyId,
    out: impl Write,
) -> Result<(), FormatError> {
    let dimensions = object.dimensions()?;
    let layout = Layout::of(O::KIND, set, &dimensions)?;
    layout.check(&dimensions)?;
    if O::KIND == ObjectKind::Lut && key_id != KeyId::NONE {
        return Err(EnvelopeError::WrongKeyId { expected: KeyId::NONE, got: key_id }.into());
    }
    if let Some(got) = object.seed().map(|seed| seed.byte).filter(|byte| *byte > 15) {
        return Err(EnvelopeError::SeedOutOfRange { got }.into());
    }
    let seed = object.seed().map(|seed| Seed { key: seed.key, block: seed.block, byte: seed.byte });
    let header = Header { kind: O::KIND, set: set.id, key_id, dimensions, seed, payload_len: layout.payload_len };
    let mut envelope = EnvelopeWriter::new(out, &header)?;
    object.write_payload(set, &mut envelope)?;
    envelope.finish()?;
    Ok(())
}

/// Reads an envelope that ends where `input` ends. Memory use stays below twice the number of bytes
/// received, whatever the header claims.
pub fn decode<O: WireObject>(input: impl Read, expected: &Expected) -> Result<Decoded<O>, FormatError> {
    let mut envelope = EnvelopeReader::open(input)?;
    let set = layout::conform(envelope.header(), O::KIND, expected)?;
    let key_id = envelope.header().key_id;
    let object = O::read_payload(set, &mut envelope)?;
    envelope.finish_at_end()?;
    Ok(Decoded { object, set, key_id })
}

/// Start of the mask stream of a seeded kind, from the envelope's header.
fn mask_seed<R: Read>(envelope: &EnvelopeReader<R>) -> MaskSeed {
    let seed = envelope.header().seed.expect("the header of a seeded kind has a seed");
    MaskSeed { key: seed.key, block: seed.block, byte: seed.byte }
}

/// Converts the dimensions of a kind to those of a header.
fn dimensions<const N: usize>(values: [(&'static str, usize); N]) -> Result<Dimensions, FormatError> {
    let mut dimensions = Dimensions::default();
    for (slot, (what, value)) in dimensions.iter_mut().zip(values) {
        *slot = u32::try_from(value).map_err(|_| FormatError::ValueOutOfRange {
            what,
            index: 0,
            limit: u64::from(u32::MAX),
            got: value as u64,
        })?;
    }
    Ok(dimensions)
}
