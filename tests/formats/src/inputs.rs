//! Decoders on arbitrary bytes: a decoder refuses the bytes, or they are the only encoding of the
//! decoded object.

use std::io::Read;

use cloakwork_circuit::{Goal, LIMITS, Limits, Program, RowType, ckks as vectors};
use cloakwork_params::{
    EnvelopeReader, Expected,
    ckks::layout::KeyShape,
    envelope::{HEADER_BYTES, TRAILER_BYTES},
};
use cloakwork_tfhe::{
    CompactList, CompactPublicKey, CompressedList, Lut, LweList, SeededBootstrapKey, SeededDecompressionKey,
    SeededKeySwitchKey, SeededLweList, SeededPackingKey,
    format::{CiphertextList, WireObject, decode, encode},
};

use crate::{attestations, ckks};

/// A decoder to fuzz.
pub struct Target {
    /// Name of the fuzz target, and of its corpus folder.
    pub name: &'static str,
    /// Decodes arbitrary bytes. Panics if an invariant is violated.
    pub run: fn(&[u8]),
}

/// All decoders.
pub const TARGETS: &[Target] = &[
    Target { name: "envelope", run: verify_envelope_input },
    Target { name: "lwe_list", run: decode_lwe_list_input },
    Target { name: "seeded_lwe_list", run: decode_seeded_lwe_list_input },
    Target { name: "compact_list", run: decode_compact_list_input },
    Target { name: "compact_public_key", run: decode_compact_public_key_input },
    Target { name: "compressed_list", run: decode_compressed_list_input },
    Target { name: "lut", run: decode_lut_input },
    Target { name: "attestation", run: attestations::verify_attestation_input },
    Target { name: "anchor", run: attestations::read_anchor_input },
    Target { name: "program", run: decode_program_input },
    Target { name: "vector_program", run: decode_vector_program_input },
    Target { name: "seeded_packing_key", run: decode_seeded_packing_key_input },
    Target { name: "seeded_decompression_key", run: decode_seeded_decompression_key_input },
    Target { name: "seeded_bootstrap_key", run: decode_seeded_bootstrap_key_input },
    Target { name: "seeded_key_switch_key", run: decode_seeded_key_switch_key_input },
    Target { name: "ckks_ciphertext", run: ckks::decode_ckks_ciphertext_input },
    Target { name: "seeded_ckks_ciphertext", run: ckks::decode_seeded_ckks_ciphertext_input },
    Target { name: "seeded_ckks_public_key", run: ckks::decode_seeded_ckks_public_key_input },
    Target { name: "seeded_ckks_switch_key", run: ckks::decode_seeded_ckks_switch_key_input },
];

/// Verifies an envelope without its object, both in one go and in small steps.
pub fn verify_envelope_input(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), reseal(bytes)] {
        let whole = EnvelopeReader::open_secret(&bytes[..]).and_then(EnvelopeReader::verify);
        let stepwise = EnvelopeReader::open_secret(&bytes[..]).and_then(|mut reader| {
            let mut step = [0; 3];
            while reader.payload_left() > 0 {
                let _ = reader.read(&mut step)?;
            }
            let header = reader.header().clone();
            reader.finish_at_end().map(|()| header)
        });
        assert_eq!(whole, stepwise);
        if let Ok(header) = whole {
            assert_eq!(header.to_bytes(), bytes[..HEADER_BYTES], "a header has one encoding");
            assert_eq!(header.kind.is_secret(), EnvelopeReader::open(&bytes[..]).is_err());
        }
    }
}

/// Decodes a lookup table in either width.
pub fn decode_lut_input(bytes: &[u8]) {
    check::<Lut<u64>>(bytes);
    check::<Lut<u32>>(bytes);
}

/// Decodes a program. An accepted program lowers to at most the announced number of bootstraps.
pub fn decode_program_input(bytes: &[u8]) {
    // Small programs, so that the fuzzer tries many.
    let limits = Limits { bootstraps: 4096, ..LIMITS };
    let Ok(program) = Program::decode(bytes, &limits) else { return };
    for goal in [Goal::Work, Goal::Depth] {
        let graph = program.lower(goal);
        assert!(graph.pbs_count() <= program.bootstraps_max());
        let returned = graph.outputs.iter().map(Vec::len);
        assert!(returned.eq(program.output_types().map(RowType::blocks)));
    }
}

/// Decodes a program on vectors. The steps of an accepted program refer only to earlier values, and
/// it runs with the keys that it names.
pub fn decode_vector_program_input(bytes: &[u8]) {
    // Small programs, so that the fuzzer tries many.
    let limits = vectors::Limits { degree: 31, ..vectors::LIMITS };
    let Ok(program) = vectors::Program::decode(bytes, &limits) else { return };
    let (outline, set) = (program.outline(), program.set());
    for (index, step) in program.steps().iter().enumerate() {
        let value = program.inputs().len() + index;
        assert!(step.action.arguments().chain(step.last_uses.iter().copied()).all(|argument| argument < value));
        assert!(step.vector.level <= set.level_max() && step.vector.scale.is_finite());
    }
    let keys = outline.keys.iter().map(|need| KeyShape { purpose: need.purpose.purposes(set)[0], level: need.level });
    let keys: Vec<KeyShape> = keys.collect();
    assert!(outline.choose_keys(&keys).is_ok_and(|chosen| chosen.len() <= keys.len()));
    assert_eq!(outline.choose_keys(&[]).is_err(), !keys.is_empty());
    assert!(outline.cost.work > 0 && outline.cost.memory_bytes <= limits.memory_bytes);
    let slots_log2 = program.inputs().iter().map(|input| input.vector.slots_log2).max().unwrap_or(0);
    if slots_log2 <= EVALUATED_SLOTS_LOG2_MAX && program.steps().len() <= EVALUATED_STEPS_MAX {
        let inputs = program.inputs().iter().map(|input| vec![[0.25, -0.5]; 1 << input.vector.slots_log2]);
        let outputs = program.evaluate(&inputs.collect::<Vec<_>>());
        let lengths = outline.outputs.iter().map(|vector| 1_usize << vector.slots_log2);
        assert!(outputs.iter().map(Vec::len).eq(lengths));
    }
}

/// Programs up to this number of slots (as log2) and steps are also evaluated in the clear.
const EVALUATED_SLOTS_LOG2_MAX: u32 = 6;
const EVALUATED_STEPS_MAX: usize = 64;

/// Decodes a list of LWE ciphertexts in either width.
pub fn decode_lwe_list_input(bytes: &[u8]) {
    check::<CiphertextList<LweList<u64>>>(bytes);
    check::<CiphertextList<LweList<u32>>>(bytes);
}

/// Decodes a list of seeded LWE ciphertexts in either width.
pub fn decode_seeded_lwe_list_input(bytes: &[u8]) {
    check::<CiphertextList<SeededLweList<u64>>>(bytes);
    check::<CiphertextList<SeededLweList<u32>>>(bytes);
}

/// Decodes a compact list in either width.
pub fn decode_compact_list_input(bytes: &[u8]) {
    check::<CiphertextList<CompactList<u64>>>(bytes);
    check::<CiphertextList<CompactList<u32>>>(bytes);
}

/// Decodes a compact public key in either width.
pub fn decode_compact_public_key_input(bytes: &[u8]) {
    check::<CompactPublicKey<u64>>(bytes);
    check::<CompactPublicKey<u32>>(bytes);
}

/// Decodes a compressed list.
pub fn decode_compressed_list_input(bytes: &[u8]) {
    check::<CiphertextList<CompressedList>>(bytes);
}

/// Decodes a packing key.
pub fn decode_seeded_packing_key_input(bytes: &[u8]) {
    check::<SeededPackingKey<u64>>(bytes);
}

/// Decodes a decompression key.
pub fn decode_seeded_decompression_key_input(bytes: &[u8]) {
    check::<SeededDecompressionKey>(bytes);
}

/// Decodes a bootstrap key in either width.
pub fn decode_seeded_bootstrap_key_input(bytes: &[u8]) {
    check::<SeededBootstrapKey<u64>>(bytes);
    check::<SeededBootstrapKey<u32>>(bytes);
}

/// Decodes a key-switch key in either width.
pub fn decode_seeded_key_switch_key_input(bytes: &[u8]) {
    check::<SeededKeySwitchKey<u64>>(bytes);
    check::<SeededKeySwitchKey<u32>>(bytes);
}

/// Returns the bytes with the correct payload length and digest, so that a decoder gets past the
/// envelope and reaches other errors.
pub fn reseal(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(payload_len) = bytes.len().checked_sub(HEADER_BYTES + TRAILER_BYTES) {
        bytes[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&(payload_len as u64).to_le_bytes());
        let (content, trailer) = bytes.split_at_mut(HEADER_BYTES + payload_len);
        trailer.copy_from_slice(blake3::hash(content).as_bytes());
    }
    bytes
}

fn check<O: WireObject>(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), reseal(bytes)] {
        if let Ok(decoded) = decode::<O>(&bytes[..], &Expected::default()) {
            let mut again = Vec::new();
            encode(&decoded.object, decoded.set, decoded.key_id, &mut again).expect("what was read can be written");
            assert!(again == bytes, "an object has one encoding");
        }
    }
}
