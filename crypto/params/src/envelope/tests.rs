use std::io::{Read, Write};

use super::*;
use crate::{
    kind::{KeyId, ObjectKind},
    set::SetId,
};

fn header() -> Header {
    Header {
        kind: ObjectKind::SeededKeySwitchKey,
        set: SetId(0xff00),
        key_id: KeyId([7; 16]),
        dimensions: [1, 2, 3, 4, 5, 6, 7, u32::MAX],
        seed: Some(Seed { key: 1 << 127, block: 5, byte: 15 }),
        payload_len: 100_000,
    }
}

fn payload() -> Vec<u8> {
    (0..100_000u32).map(|index| (index.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

fn envelope(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut writer = EnvelopeWriter::new(Vec::new(), header).expect("header");
    writer.write_all(payload).expect("payload");
    writer.finish().expect("trailer")
}

#[test]
fn payloads_round_trip_in_reads_of_any_size() {
    let bytes = envelope(&header(), &payload());
    assert_eq!(bytes.len(), HEADER_BYTES + 100_000 + TRAILER_BYTES);
    assert_eq!(EnvelopeReader::open(&bytes[..]).and_then(EnvelopeReader::verify), Ok(header()));
    let mut reader = EnvelopeReader::open(&bytes[..]).expect("header");
    let mut read = vec![0; 77];
    reader.fill(&mut read).expect("first bytes");
    reader.read_to_end(&mut read).expect("the rest");
    assert_eq!((read, reader.payload_left()), (payload(), 0));
    reader.finish_at_end().expect("digest");
}

#[test]
fn the_digest_covers_header_and_payload() {
    let bytes = envelope(&header(), &payload());
    let (content, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
    assert_eq!(blake3::hash(content).as_bytes(), trailer);
}

#[test]
fn bytes_after_an_envelope_are_returned_or_refused() {
    let mut bytes = envelope(&Header { payload_len: 0, ..header() }, &[]);
    bytes.push(42);
    let rest = EnvelopeReader::open(&bytes[..]).and_then(EnvelopeReader::finish);
    assert_eq!(rest, Ok(&[42][..]));
    let refused = EnvelopeReader::open(&bytes[..]).and_then(EnvelopeReader::finish_at_end);
    assert_eq!(refused, Err(EnvelopeError::TrailingBytes { expected: 144 }));
}

#[test]
fn a_payload_of_another_length_is_refused() {
    let mut writer = EnvelopeWriter::new(Vec::new(), &header()).expect("header");
    writer.write_all(&[1, 2, 3]).expect("payload");
    let refused = writer.finish();
    assert_eq!(refused, Err(EnvelopeError::WrongPayloadLength { expected: 100_000, got: 3 }));

    let bytes = envelope(&header(), &payload());
    let mut reader = EnvelopeReader::open(&bytes[..]).expect("header");
    let refused = reader.fill(&mut vec![0; 100_001]);
    assert_eq!(refused, Err(EnvelopeError::WrongPayloadLength { expected: 100_001, got: 100_000 }));
    let refused = reader.finish();
    assert_eq!(refused.err(), Some(EnvelopeError::WrongPayloadLength { expected: 0, got: 100_000 }));
}

#[test]
fn each_field_of_the_header_is_validated() {
    let good = envelope(&header(), &payload());
    let refused = |offset: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[offset] = byte;
        EnvelopeReader::open(&bytes[..]).err()
    };
    assert_eq!(refused(0, b'X'), Some(EnvelopeError::WrongMagic { got: *b"XLOAKWRK" }));
    assert_eq!(refused(8, 2), Some(EnvelopeError::UnsupportedVersion { expected: 1, got: 2 }));
    assert_eq!(refused(10, 0xee), Some(EnvelopeError::UnknownKind { got: 0xee }));
    assert_eq!(refused(11, 0x80), Some(EnvelopeError::SecretKeyRefused { got: 0x8011 }));
    assert_eq!(refused(14, 1), Some(EnvelopeError::ReservedNotZero { offset: 14, got: 1 }));
    assert_eq!(refused(103, 9), Some(EnvelopeError::ReservedNotZero { offset: 103, got: 9 }));
    assert_eq!(refused(96, 16), Some(EnvelopeError::SeedOutOfRange { got: 16 }));
    // In a kind without a seed, the seed's fields are reserved.
    assert_eq!(refused(10, 1), Some(EnvelopeError::ReservedNotZero { offset: 79, got: 0x80 }));
}

#[test]
fn a_secret_key_is_refused_unless_asked_for() {
    let secret = Header { kind: ObjectKind::ClientKey, seed: None, payload_len: 0, ..header() };
    let bytes = envelope(&secret, &[]);
    let refused = EnvelopeReader::open(&bytes[..]).err();
    assert_eq!(refused, Some(EnvelopeError::SecretKeyRefused { got: 0x8000 }));
    let read = EnvelopeReader::open_secret(&bytes[..]).and_then(EnvelopeReader::verify);
    assert_eq!(read, Ok(secret));
}

#[test]
fn truncations_report_the_received_length() {
    let bytes = envelope(&Header { payload_len: 10, ..header() }, &[1; 10]);
    for len in 0..bytes.len() {
        let expected = if len < HEADER_BYTES { HEADER_BYTES } else { bytes.len() } as u64;
        let error = EnvelopeReader::open(&bytes[..len]).and_then(EnvelopeReader::verify).err();
        assert_eq!(error, Some(EnvelopeError::Truncated { expected, got: len as u64 }));
    }
    let mut reader = EnvelopeReader::open(&bytes[..HEADER_BYTES + 4]).expect("header");
    let error = reader.read_to_end(&mut Vec::new()).expect_err("ends early");
    assert_eq!(EnvelopeError::from(error), EnvelopeError::Truncated { expected: 154, got: 116 });
}

#[test]
fn every_flipped_bit_is_detected() {
    let bytes = envelope(&Header { payload_len: 10, ..header() }, &[1; 10]);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(EnvelopeReader::open(&flipped[..]).and_then(EnvelopeReader::verify).is_err(), "bit {bit}");
    }
}
