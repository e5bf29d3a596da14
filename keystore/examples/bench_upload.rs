//! Measures how fast a 400 MB blob, the size of a key, goes from memory into the keystore. For
//! comparison, the same bytes are written and fsynced plainly. Rounds alternate, so that a
//! disturbance hits both.
//!
//! `cargo run --release -p cloakwork-keystore --example bench_upload -- [directory] [rounds]`

use std::{
    error::Error,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_clock::Clock;
use cloakwork_keystore::{Digest, Keystore, Limits, Options, SCHEMA, StoreOptions, TenantId};
use cloakwork_params::{EnvelopeWriter, Header, KeyId, Layout, ObjectKind, table};
use cloakwork_storage::Database;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = PathBuf::from(arguments.next().unwrap_or_else(|| "target/bench/keystore".to_owned()));
    let rounds: u32 = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    std::fs::create_dir_all(&root)?;
    let database = Database::open(&root.join("catalogue.db"), &[SCHEMA], 4).await?;
    let options = Options {
        staging: root.join("staging"),
        store: StoreOptions::Local(root.join("blobs")),
        allow_weak_sets: false,
        limits: limits(),
        clock: Clock::system(),
        own_limits: None,
        watch: None,
    };
    let keystore = Keystore::open(options, &database).await?;
    let tenant = TenantId::new("bench")?;
    println!(
        "{:>5} {:>12} {:>12} {:>12} {:>12} {:>8}",
        "round", "disk MB/s", "append MB/s", "finish ms", "upload MB/s", "ratio"
    );
    for round in 0..rounds {
        // Each round has new bytes; otherwise the second upload would be complete at once.
        let blob = list_of_400_mb(round)?;
        let megabytes = blob.len() as f64 / 1e6;
        let plain = write_plainly(&root.join("plain"), &blob)?;
        let digest = Digest::of(&blob);
        let begun = keystore.begin_upload(&tenant, &u128::from(round).to_le_bytes(), &digest).await?;
        let start = Instant::now();
        let mut writer = keystore.append(&tenant, &begun.id, 0).await?;
        for chunk in blob.chunks(CHUNK_BYTES) {
            writer.write(blob.slice_ref(chunk)).await?;
        }
        let appended = start.elapsed().as_secs_f64();
        writer.finish().await?;
        let finished = start.elapsed().as_secs_f64();
        println!(
            "{round:>5} {:>12.0} {:>12.0} {:>12.0} {:>12.0} {:>8.2}",
            megabytes / plain,
            megabytes / appended,
            (finished - appended) * 1e3,
            megabytes / finished,
            plain / finished
        );
        keystore.delete(&tenant, &digest).await?;
    }
    database.close().await;
    Ok(())
}

/// Default limits of a server.
fn limits() -> Limits {
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
    Limits {
        window_bytes: 8 << 20,
        uploads_per_tenant: 32,
        uploads_total: 256,
        writers_total: 128,
        writers_per_tenant: 32,
        list_bytes: 16 << 30,
        tenant_bytes: 64 << 30,
        unpinned_bytes: 32 << 30,
        keys_per_tenant: 100,
        parts_per_key: 64,
        page_entries: 100,
        digests_per_call: 1000,
        staged_bytes: 1 << 40,
        upload_expiry: day,
        keep: hour,
        request_memory: day,
        request_ids_per_tenant: 1000,
        orphan_age: day,
    }
}

/// Writes the same pieces to one file with one fsync at the end, and returns the seconds.
fn write_plainly(path: &Path, blob: &Bytes) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let mut file = File::create(path)?;
    for chunk in blob.chunks(CHUNK_BYTES) {
        file.write_all(chunk)?;
    }
    file.sync_all()?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(seconds)
}

/// A well-formed list of about 400 MB, with arbitrary words.
fn list_of_400_mb(round: u32) -> Result<Bytes, Box<dyn Error>> {
    let set = table::by_name("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").ok_or("a row")?;
    let count = 24_400;
    let layout = Layout::of(ObjectKind::LweList, set, &[count, 0, 0, 0, 0, 0, 0, 0])?;
    let mut dimensions = [0; 8];
    for (value, (_, wanted)) in dimensions.iter_mut().zip(&layout.dimensions) {
        *value = u32::try_from(*wanted)?;
    }
    let header = Header {
        kind: ObjectKind::LweList,
        set: set.id,
        key_id: KeyId([1; 16]),
        dimensions,
        seed: None,
        payload_len: layout.payload_len,
    };
    let mut words = blake3::Hasher::new().update(&round.to_le_bytes()).finalize_xof();
    let mut payload = vec![0; usize::try_from(layout.payload_len)?];
    words.fill(&mut payload);
    payload[..count as usize * 8].fill(0);
    let mut out = EnvelopeWriter::new(Vec::new(), &header)?;
    out.write_all(&payload)?;
    Ok(out.finish()?.into())
}

/// Size in bytes of a chunk, as in a gRPC stream.
const CHUNK_BYTES: usize = 1 << 20;
