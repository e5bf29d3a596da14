//! Upload of a key of about a gigabyte, beside the disk alone.

use std::{
    fs::File,
    io::{self, Write as _},
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_client::{Progress, Source};
use cloakwork_params::{
    EnvelopeWriter, Header, KeyId, Layout, ObjectKind, ParameterSet, Seed, Standing, envelope::Dimensions, table::SETS,
};
use cloakwork_tests_service::{Server, Setup};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    processes::own_and_children,
    report::{Bound, Report, Row},
};

const KIND: ObjectKind = ObjectKind::SeededBootstrapKey;
/// Smallest size of the key.
const WANTED_BYTES: u64 = 400_000_000;

/// Size of a write to the disk alone. An upload sends messages of this size.
const CHUNK_BYTES: usize = 1 << 20;

/// Directory of files in memory, on systems that have one.
const MEMORY: &str = "/dev/shm";

/// Measures the upload in megabytes per second. The first rate is the user's, compared with writing
/// the bytes to the disk alone. The second has the server's directory in memory, which shows the
/// service itself. Disks of rented machines are fast for some gigabytes only.
///
/// The disk alone writes the bytes twice, and the quicker time counts. The first time may fill
/// pages that a virtual machine has to obtain from its host, and the second time fills those pages
/// again. The disk comes first in even rounds, and last in odd rounds.
pub(crate) fn measure(runtime: &Runtime, rounds: usize, report: &mut Report) {
    let set = smallest_of(WANTED_BYTES);
    let (mut new_pages, mut disk) = (Vec::new(), Vec::new());
    let (mut sent, mut hashed, mut in_memory) = (Vec::new(), Vec::new(), Vec::new());
    let (mut client, mut server) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let bytes = key(set, round as u64);
        let mut to_disk = || {
            let directory = tempfile::tempdir().expect("a directory");
            let [first, second] = [(); 2].map(|()| written(&directory, &bytes).expect("room on the disk"));
            new_pages.push(rate(bytes.len(), first));
            disk.push(rate(bytes.len(), first.min(second)));
        };
        let is_disk_first = round % 2 == 0;
        if is_disk_first {
            to_disk();
        }
        let times = upload(runtime, tempfile::tempdir().expect("a directory"), &bytes);
        sent.push(rate(bytes.len(), times.sending));
        hashed.push(rate(bytes.len(), times.hashing + times.sending));
        client.push(of_a_gigabyte(bytes.len(), times.client));
        server.push(of_a_gigabyte(bytes.len(), times.server));
        if !is_disk_first {
            to_disk();
        }
        // A container may have little room in this directory.
        if let Some(directory) = tempfile::tempdir_in(MEMORY).ok().filter(|place| written(place, &bytes).is_ok()) {
            in_memory.push(rate(bytes.len(), upload(runtime, directory, &bytes).sending));
        }
    }
    let size = bytes_of(set) / 1_000_000;
    let over_disk: Vec<f64> = sent.iter().zip(&disk).map(|(sent, disk)| sent / disk).collect();
    report.add(Row::of(&format!("the disk alone, {size} MB written and synced"), "MB/s", &disk));
    report.add(Row::of("    the first of two times", "MB/s", &new_pages));
    report.add(Row::of(&format!("upload of {size} MB"), "MB/s", &sent).required(Bound::Least(500.0)));
    report.add(Row::of("    with the client's hashing", "MB/s", &hashed));
    report.add(Row::of("    over the disk alone", "ratio", &over_disk).required(Bound::Least(0.8)));
    report.add(Row::of("    client's time on the cores, without hashing", "s/GB", &client));
    report.add(Row::of("    server's time on the cores", "s/GB", &server));
    if !in_memory.is_empty() {
        let row = Row::of("    with the server's directory in memory", "MB/s", &in_memory);
        report.add(row.required(Bound::Least(500.0)));
    }
}

struct Times {
    hashing: Duration,
    sending: Duration,
    /// Time of the client's process on the cores while it sends, and of the server's process.
    client: Duration,
    server: Duration,
}

/// Uploads the bytes to a new server with its files in `directory`. The server has no worker, whose
/// self-test after the start would take the cores.
fn upload(runtime: &Runtime, directory: TempDir, bytes: &Bytes) -> Times {
    let server = runtime.block_on(Server::start_in(directory, Setup::of_benchmark().without_worker()));
    let client = runtime.block_on(server.client());
    let source = Source::Bytes(bytes.clone());
    let begun = Instant::now();
    let digest = runtime.block_on(source.digest()).expect("a digest");
    let hashing = begun.elapsed();
    let (own, children) = own_and_children();
    let begun = Instant::now();
    runtime.block_on(client.upload("a key", &source, digest, &Progress::none())).expect("the key is taken");
    let sending = begun.elapsed();
    let (own_now, children_now) = own_and_children();
    Times { hashing, sending, client: own_now - own, server: children_now - children }
}

/// Measures the time that the system takes to write and sync the bytes. Removes the file.
fn written(directory: &TempDir, bytes: &[u8]) -> io::Result<Duration> {
    let path = directory.path().join("bytes");
    let begun = Instant::now();
    let write = |mut file: File| {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            file.write_all(chunk)?;
        }
        file.sync_all()
    };
    let done = File::create(&path).and_then(write);
    let elapsed = begun.elapsed();
    std::fs::remove_file(&path)?;
    done.map(|()| elapsed)
}

/// Seconds for a gigabyte.
fn of_a_gigabyte(bytes: usize, time: Duration) -> f64 {
    time.as_secs_f64() * 1e9 / bytes as f64
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 * 1e-6 / time.as_secs_f64()
}

/// The served set with the smallest bootstrap key of at least `bytes` bytes.
fn smallest_of(bytes: u64) -> &'static ParameterSet {
    let served = SETS.iter().filter(|set| set.standing == Standing::Served && bytes_of(set) >= bytes);
    served.min_by_key(|set| bytes_of(set)).expect("some set is as large")
}

fn bytes_of(set: &ParameterSet) -> u64 {
    Layout::of(KIND, set, &Dimensions::default()).map_or(0, |layout| layout.payload_len)
}

/// A key with the correct form and pseudorandom words, which look like those of a real key.
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
