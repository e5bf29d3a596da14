//! Objects to envelopes and back; `docs/formats.md` is the specification.
//!
//! An object says what its numbers are and how its payload is read and written. Everything else, from the header to the
//! digest, is the same for all of them and happens in [`encode`] and [`decode`].

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

/// Something that travels in an envelope.
pub trait WireObject: Sized {
    /// What the envelope calls it.
    const KIND: ObjectKind;

    /// Its numbers, in the order of the kind's layout.
    fn dimensions(&self, set: &CkksSet) -> Result<Dimensions, FormatError>;

    /// Where its mask stream starts, in seeded kinds.
    fn seed(&self) -> Option<MaskSeed>;

    /// Writes the payload of an object whose dimensions are those of the ring's set.
    fn write_payload<W: Write>(&self, ring: &Ring, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError>;

    /// Reads the payload behind a header whose dimensions are those of the ring's set.
    fn read_payload<R: Read>(ring: &Ring, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError>;
}

/// An object and what its envelope said of it.
pub struct Decoded<O> {
    /// The object.
    pub object: O,
    /// The key it was made under.
    pub key_id: KeyId,
}

/// Writes `object` as an envelope; one that does not conform to the ring's set is refused.
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

/// Reads an envelope that ends where `input` ends, made under a certain key where one is named. Memory in use stays below
/// about twice what the bytes that came stand for, whatever the header claims.
pub fn decode<O: WireObject>(input: impl Read, ring: &Ring, key_id: Option<KeyId>) -> Result<Decoded<O>, FormatError> {
    let mut envelope = EnvelopeReader::open(input)?;
    layout::conform(envelope.header(), O::KIND, &Expected { set: Some(ring.set()), key_id })?;
    let key_id = envelope.header().key_id;
    let object = O::read_payload(ring, &mut envelope)?;
    envelope.finish_at_end()?;
    Ok(Decoded { object, key_id })
}

/// The mask stream of an envelope of a seeded kind.
fn mask_seed<R: Read>(envelope: &EnvelopeReader<R>) -> MaskSeed {
    let seed = envelope.header().seed.expect("the header of a seeded kind has a seed");
    MaskSeed { key: seed.key, block: seed.block, byte: seed.byte }
}
