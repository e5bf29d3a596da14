//! Everything that is bounded, and by how much.

use std::time::Duration;

/// The limits of a keystore. Each names its unit. There are no defaults here: whoever runs the keystore has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one upload that have been received and not yet written.
    pub window_bytes: u32,
    /// Uploads that one tenant may have open.
    pub uploads_per_tenant: u32,
    /// Uploads that may be open in all.
    pub uploads_total: u32,
    /// Uploads that may be receiving at the same time; each takes a thread while it does.
    pub writers_total: u32,
    /// Of these, the most that one tenant may have: less than all, so that none shuts the others out.
    pub writers_per_tenant: u32,
    /// Largest list of ciphertexts or lookup table. Keys have the size that their parameter set gives.
    pub list_bytes: u64,
    /// Bytes that one tenant may store, open uploads included.
    pub tenant_bytes: u64,
    /// Bytes of ciphertexts in all that nobody has pinned. Beyond it the tenant with most of them gives its least
    /// recently used ones, so that no tenant ever loses the space that an even share would leave it.
    pub unpinned_bytes: u64,
    /// Keys that one tenant may have.
    pub keys_per_tenant: u32,
    /// Parts that one key may have.
    pub parts_per_key: u32,
    /// Keys or uploads on one page of a list.
    pub page_entries: u32,
    /// Digests in one question for what is missing, or in one pin.
    pub digests_per_call: u32,
    /// How long an upload that nobody goes on with is kept.
    pub upload_expiry: Duration,
    /// How long a blob that has just been uploaded, or reported to be present, is kept from eviction; from eviction for
    /// its own tenant's sake only, once that tenant has more than an even share.
    pub keep: Duration,
    /// How long a request id is remembered.
    pub request_memory: Duration,
    /// Request ids of one tenant that are remembered; beyond it the oldest are forgotten early.
    pub request_ids_per_tenant: u32,
    /// Age from which objects in a remote store that the catalogue does not know are removed at start-up.
    pub orphan_age: Duration,
}
