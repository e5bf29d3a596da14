//! Groups of jobs that may share waves.

use bytes::Bytes;
use cloakwork_params::{AnySet, KeyId};

/// Bytes of a group's ID.
pub const GROUP_BYTES: usize = 16;

/// The ID of a group of jobs that may share waves.
pub fn group_bytes(tenant: &str, key_id: KeyId, set: AnySet) -> Bytes {
    let mut hasher = blake3::Hasher::new_derive_key("cloakwork server, group of jobs that may share waves");
    hasher.update(tenant.as_bytes()).update(&[0]).update(&key_id.0).update(&set.id().0.to_le_bytes());
    Bytes::copy_from_slice(&hasher.finalize().as_bytes()[..GROUP_BYTES])
}
