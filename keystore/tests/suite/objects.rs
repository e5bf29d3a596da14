//! Well-formed blobs, made with the envelope code alone.

use std::io::Write;

use bytes::Bytes;
use cloakwork_params::{
    CiphertextInfo, EnvelopeWriter, Header, KeyId, Layout, ObjectKind, ParameterSet, Seed,
    ckks::{
        self,
        layout::{KeyShape, Purpose, payload_len},
    },
    table,
};

pub(crate) const KEY: KeyId = KeyId([7; 16]);

pub(crate) fn set(name: &str) -> &'static ParameterSet {
    table::by_name(name).expect("a row")
}

/// A set with small keys and large lists.
pub(crate) fn toy() -> &'static ParameterSet {
    set("TOY_MESSAGE_2_CARRY_2")
}

pub(crate) fn served() -> &'static ParameterSet {
    set("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128")
}

/// An object of arbitrary words. A different `salt` gives different bytes.
pub(crate) fn object(kind: ObjectKind, set: &'static ParameterSet, key_id: KeyId, count: u32, salt: u64) -> Bytes {
    let layout = Layout::of(kind, set, &[count, 0, 0, 0, 0, 0, 0, 0]).expect("the set has the kind");
    let mut dimensions = [0; 8];
    for (value, (_, wanted)) in dimensions.iter_mut().zip(&layout.dimensions) {
        *value = *wanted as u32;
    }
    let seed = kind.is_seeded().then_some(Seed { key: salt.into(), block: 0, byte: 0 });
    let header = Header { kind, set: set.id, key_id, dimensions, seed, payload_len: layout.payload_len };
    let mut payload = vec![0; layout.payload_len as usize];
    blake3::Hasher::new().update(&salt.to_le_bytes()).finalize_xof().fill(&mut payload);
    if kind == ObjectKind::LweList {
        for entry in payload.chunks_exact_mut(8).take(count as usize) {
            entry.copy_from_slice(&CiphertextInfo { degree: 3, noise_level: 1 }.to_bytes());
        }
    }
    let mut out = EnvelopeWriter::new(Vec::new(), &header).expect("memory");
    out.write_all(&payload).expect("memory");
    out.finish().expect("memory").into()
}

/// A list with about 2 KB for each ciphertext.
pub(crate) fn list(count: u32, salt: u64) -> Bytes {
    object(ObjectKind::LweList, toy(), KEY, count, salt)
}

pub(crate) fn bootstrap_key(set: &'static ParameterSet, key_id: KeyId, salt: u64) -> Bytes {
    object(ObjectKind::SeededBootstrapKey, set, key_id, 0, salt)
}

pub(crate) fn key_switch_key(set: &'static ParameterSet, key_id: KeyId, salt: u64) -> Bytes {
    object(ObjectKind::SeededKeySwitchKey, set, key_id, 0, salt)
}

/// A part of a CKKS key of a toy set, small at level 0.
pub(crate) fn ckks_part(purpose: Purpose, level: usize, salt: u64) -> Bytes {
    let set = ckks::by_name("TOY_CKKS_45_60_50").expect("a row");
    let (kind, dimensions) =
        (ObjectKind::SeededCkksSwitchKey, KeyShape { purpose, level }.to_dimensions(set).expect("such a key"));
    let payload_len = payload_len(kind, set, &dimensions).expect("such a key");
    let seed = Some(Seed { key: salt.into(), block: 0, byte: 0 });
    let header = Header { kind, set: set.id, key_id: KEY, dimensions, seed, payload_len };
    let mut out = EnvelopeWriter::new(Vec::new(), &header).expect("memory");
    out.write_all(&vec![0; payload_len as usize]).expect("memory");
    out.finish().expect("memory").into()
}

/// The beginning of a client key file, followed by arbitrary bytes.
pub(crate) fn client_key() -> Vec<u8> {
    let mut bytes = list(3, 99).to_vec();
    bytes[10..12].copy_from_slice(&ObjectKind::ClientKey.number().to_le_bytes());
    bytes
}
