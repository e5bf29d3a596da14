//! The parts of a key that a job reads.

use cloakwork_keystore::Digest;
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Error};

use super::Store;
use crate::jobs::id;

/// Bytes of a stored part: its 32-byte hash and its size.
const PART_BYTES: usize = 40;

impl Store {
    /// The key parts of a job on vectors, for a worker.
    pub async fn key_parts(&self, job: JobId) -> Result<Vec<Digest>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let row = reader.query("SELECT key_parts FROM jobs WHERE id = $1").bind(id::to_bytes(job)).one().await?;
        let parts = row.bytes_or_null("key_parts")?.and_then(of_bytes);
        parts.ok_or_else(|| Error::Damaged("a job: key_parts".to_owned()))
    }
}

pub(super) fn to_bytes(parts: &[Digest]) -> Vec<u8> {
    parts.iter().flat_map(|part| [&part.blake3[..], &part.size_bytes.to_le_bytes()].concat()).collect()
}

fn of_bytes(bytes: &[u8]) -> Option<Vec<Digest>> {
    let parts = bytes.chunks(PART_BYTES).map(|part| {
        let (blake3, size) = part.split_at_checked(32)?;
        let size_bytes = u64::from_le_bytes(size.try_into().ok()?);
        Some(Digest { blake3: blake3.try_into().ok()?, size_bytes })
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_key_parts_are_read_back_unchanged() {
        let parts: Vec<Digest> =
            (0..3).map(|number| Digest { blake3: [number; 32], size_bytes: u64::from(number) << 40 }).collect();
        let bytes = to_bytes(&parts);
        assert_eq!(bytes.len(), 3 * PART_BYTES);
        assert_eq!(of_bytes(&bytes), Some(parts));
        assert_eq!(of_bytes(&[]), Some(Vec::new()));
        assert_eq!(of_bytes(&bytes[..41]), None);
    }
}
