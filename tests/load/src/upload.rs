//! A key of some hundred megabytes on its way to the server.

use std::{io::Write as _, time::Instant};

use bytes::Bytes;
use cloakwork_client::{Progress, Source};
use cloakwork_params::{
    EnvelopeWriter, Header, KeyId, Layout, ObjectKind, ParameterSet, Seed, Standing, envelope::Dimensions, table::SETS,
};
use cloakwork_tests_service::Server;
use tokio::runtime::Runtime;

use crate::report::{Bound, Report, Row};

const KIND: ObjectKind = ObjectKind::SeededBootstrapKey;
/// At least as long as the key should be.
const WANTED_BYTES: u64 = 400_000_000;

/// Megabytes a second, with and without the client's hashing.
pub(crate) fn measure(runtime: &Runtime, server: &Server, rounds: usize, report: &mut Report) {
    let client = runtime.block_on(server.client());
    let set = smallest_of(WANTED_BYTES);
    let (mut sent, mut hashed) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let source = Source::Bytes(key(set, round as u64));
        let begun = Instant::now();
        let digest = runtime.block_on(source.digest()).expect("a digest");
        let hashing = begun.elapsed();
        let begun = Instant::now();
        runtime.block_on(client.upload("a key", &source, digest, &Progress::none())).expect("the key is taken");
        let sending = begun.elapsed();
        let megabytes = digest.size_bytes as f64 * 1e-6;
        sent.push(megabytes / sending.as_secs_f64());
        hashed.push(megabytes / (hashing + sending).as_secs_f64());
    }
    let size = bytes_of(set) / 1_000_000;
    report.add(Row::of(&format!("upload of {size} MB"), "MB/s", &sent).required(Bound::Least(500.0)));
    report.add(Row::of("    with the client's hashing", "MB/s", &hashed));
}

/// Of the sets that are served, the one with the smallest bootstrap key of so many bytes.
fn smallest_of(bytes: u64) -> &'static ParameterSet {
    let served = SETS.iter().filter(|set| set.standing == Standing::Served && bytes_of(set) >= bytes);
    served.min_by_key(|set| bytes_of(set)).expect("some set is as large")
}

fn bytes_of(set: &ParameterSet) -> u64 {
    Layout::of(KIND, set, &Dimensions::default()).map_or(0, |layout| layout.payload_len)
}

/// A key by its form. Its words are random, as those of a real one look.
fn key(set: &'static ParameterSet, salt: u64) -> Bytes {
    let layout = Layout::of(KIND, set, &Dimensions::default()).expect("every set has the kind");
    let mut dimensions = Dimensions::default();
    for (value, (_, wanted)) in dimensions.iter_mut().zip(&layout.dimensions) {
        *value = *wanted as u32;
    }
    let seed = Some(Seed { key: salt.into(), block: 0, byte: 0 });
    let payload_len = layout.payload_len;
    let header = Header { kind: KIND, set: set.id, key_id: KeyId([7; 16]), dimensions, seed, payload_len };
    let mut words = blake3::Hasher::new().update(&salt.to_le_bytes()).finalize_xof();
    let out = Vec::with_capacity(payload_len as usize + (1 << 10));
    let mut out = EnvelopeWriter::new(out, &header).expect("memory");
    let mut piece = vec![0; 1 << 20];
    let mut left = payload_len as usize;
    while left > 0 {
        let some = left.min(piece.len());
        words.fill(&mut piece[..some]);
        out.write_all(&piece[..some]).expect("memory");
        left -= some;
    }
    out.finish().expect("memory").into()
}
