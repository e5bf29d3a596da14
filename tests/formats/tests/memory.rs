//! A header with false sizes allocates nothing. The test is alone in its process, because it
//! measures the growth of the process.
#![cfg(target_os = "linux")]

use cloakwork_params::{
    EnvelopeError, Expected, Header, KeyId, Layout, ObjectKind, ParameterSet, Seed, envelope::DIMENSIONS, table,
};
use cloakwork_tests_formats::all;
use cloakwork_tfhe::format::FormatError;

/// Largest size of this process's address space so far, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).expect("its peak");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// A header with the largest possible count. Everything else matches its set.
fn oversized_header(kind: ObjectKind, set: &ParameterSet) -> Option<(u64, Vec<u8>)> {
    let layout = Layout::of(kind, set, &[u32::MAX; DIMENSIONS]).ok()?;
    let mut dimensions = [0; DIMENSIONS];
    for (slot, (_, value)) in dimensions.iter_mut().zip(&layout.dimensions) {
        *slot = u32::try_from(*value).expect("dimensions fit their field");
    }
    let seed = kind.is_seeded().then_some(Seed { key: 1, block: 0, byte: 0 });
    let key_id = if kind == ObjectKind::Lut { KeyId::NONE } else { KeyId([1; 16]) };
    let payload_len = layout.payload_len;
    let header = Header { kind, set: set.id, key_id, dimensions, seed, payload_len };
    // Some payload follows, so that the decoder starts to read it.
    Some((payload_len, [&header.to_bytes()[..], &[0; 100_000]].concat()))
}

#[test]
fn a_header_that_claims_terabytes_allocates_only_for_received_bytes() {
    let cases = all();
    let before = peak_kib();
    let mut claimed = 0;
    for set in table::SETS {
        for case in &cases {
            let Some((payload_len, bytes)) = oversized_header(case.kind, set) else { continue };
            if payload_len <= 100_000 {
                continue;
            }
            let error = (case.decode)(&bytes, &Expected::default()).expect_err("the payload is incomplete");
            let known = matches!(
                error,
                FormatError::Envelope(EnvelopeError::Truncated { .. })
                    | FormatError::ValueOutOfRange { .. }
                    | FormatError::WrongWord { .. }
            );
            assert!(known, "{}: {error}", set.name);
            claimed += u128::from(payload_len);
        }
    }
    assert!(claimed > 1 << 45, "the headers claimed only {claimed} bytes");
    let grown = peak_kib() - before;
    assert!(grown < 128 << 10, "the process grew by {grown} KiB");
}
