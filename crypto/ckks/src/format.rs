//! Conversion between objects and envelopes. `docs/formats.md` is the specification.
//!
//! Each type of object defines its dimensions and how its payload is read and written. Everything
//! else, from the header to the digest, is common to all types and happens in [`encode`] and
//! [`decode`].

mod ciphertext;
mod error;
mod key;
mod public_key;
mod residues;

use std::io::{Read, Write};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{
    EnvelopeError, EnvelopeReader, EnvelopeWriter, Header, KeyId, ObjectKind, Seed,
    ckks::{
        CkksSet,
        layout::{self, Expected},
    },
    envelope::Dimensions,
};

use crate::ring::Ring;

pub use error::FormatError;

/// An object that can be stored in an envelope.
pub trait WireObject: Sized {
    /// Kind of the object in the envelope's header.
    const KIND: ObjectKind;

    /// Dimensions of the object, in the order of the kind's layout.
    fn dimensions(&self, set: &CkksSet) -> Result<Dimensions, FormatError>;

    /// Start of the mask stream, for seeded kinds.
    fn seed(&self) -> Option<MaskSeed>;

    /// Writes the payload of an object whose dimensions are those of the ring's set.
    fn write_payload<W: Write>(&self, ring: &Ring, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError>;

    /// Reads the payload that follows a header whose dimensions are those of the ring's set.
    fn read_payload<R: Read>(ring: &Ring, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError>;
}

/// An object with the facts from its envelope's header.
pub struct Decoded<O> {
    /// The object.
    pub object: O,
    /// Identifier of the key that the object was made under.
    pub key_id: KeyId,
}

/// Writes `object` as an envelope. An object that does not conform to the ring's set is refused.
pub fn encode<O: WireObject>(object: &O, ring: &Ring, key_id: KeyId, out: impl Write) -> Result<(), FormatError> {
    let set = ring.set();
    let dimensions = object.dimensions(set)?;
    let payload_len = layout::payload_len(O::KIND, set, &dimensions)?;
    if let Some(got) = object.seed().map(|seed| seed.byte).filter(|byte| *byte > 15) {
        return Err(EnvelopeError::SeedOutOfRange { got }.into());
    }
    let seed = object.seed().map(|seed| Seed { key: seed.key, block: seed.block, byte: seed.byte });
    let header = Header { kind: O::KIND, set: set.id, key_id, dimensions, seed, payload_len };
    let mut envelope = EnvelopeWriter::new(out, &header)?;
    object.write_payload(ring, &mut envelope)?;
    envelope.finish()?;
    Ok(())
}

/// Reads an envelope that ends where `input` ends. If `key_id` is given, the object must have been
/// made under this key. Memory use stays below about twice the size of the data received, unpacked,
/// whatever the header claims.
pub fn decode<O: WireObject>(input: impl Read, ring: &Ring, key_id: Option<KeyId>) -> Result<Decoded<O>, FormatError> {
    let mut envelope = EnvelopeReader::open(input)?;
    layout::conform(envelope.header(), O::KIND, &Expected { set: Some(ring.set()), key_id })?;
    let key_id = envelope.header().key_id;
    let object = O::read_payload(ring, &mut envelope)?;
    envelope.finish_at_end()?;
    Ok(Decoded { object, key_id })
}

/// Start of the mask stream of a seeded kind, from the envelope's header.
fn mask_seed<R: Read>(envelope: &EnvelopeReader<R>) -> MaskSeed {
    let seed = envelope.header().seed.expect("the header of a seeded kind has a seed");
    MaskSeed { key: seed.key, block: seed.block, byte: seed.byte }
}
