//! Well-formed keys and lists of arbitrary words, for tests.

use std::io::Write as _;

use bytes::Bytes;
use cloakwork_params::{CiphertextInfo, EnvelopeWriter, Header, KeyId, Layout, ObjectKind, ParameterSet, Seed, table};

/// The client key of the objects.
pub(crate) const KEY: KeyId = KeyId([7; 16]);

/// The parameter set of the objects.
pub(crate) fn set() -> &'static ParameterSet {
    table::by_name("TOY_MESSAGE_2_CARRY_2").unwrap()
}

/// A list of results. A different `salt` gives other words.
pub(crate) fn list(count: u32, salt: u8) -> Bytes {
    object(ObjectKind::LweList, count, salt)
}

/// One of the two parts of a key.
pub(crate) fn key_part() -> Bytes {
    object(ObjectKind::SeededKeySwitchKey, 0, 0)
}

/// Both parts of a key.
pub(crate) fn key_parts() -> [Bytes; 2] {
    [key_part(), object(ObjectKind::SeededBootstrapKey, 0, 0)]
}

/// An object that holds `count` ciphertexts, if it is a list.
fn object(kind: ObjectKind, count: u32, salt: u8) -> Bytes {
    let layout = Layout::of(kind, set(), &[count, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut dimensions = [0; 8];
    for (value, (_, wanted)) in dimensions.iter_mut().zip(&layout.dimensions) {
        *value = u32::try_from(*wanted).unwrap();
    }
    let seed = kind.is_seeded().then_some(Seed { key: 1, block: 0, byte: 0 });
    let payload_len = layout.payload_len;
    let header = Header { kind, set: set().id, key_id: KEY, dimensions, seed, payload_len };
    let mut payload = vec![salt; usize::try_from(payload_len).unwrap()];
    if kind == ObjectKind::LweList {
        for entry in payload.chunks_exact_mut(8).take(count as usize) {
            entry.copy_from_slice(&CiphertextInfo { degree: 3, noise_level: 1 }.to_bytes());
        }
    }
    let mut out = EnvelopeWriter::new(Vec::new(), &header).unwrap();
    out.write_all(&payload).unwrap();
    out.finish().unwrap().into()
}
