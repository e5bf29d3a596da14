//! Limits on everything that can grow in the keystore.
//!
//! Single tenants may have limits of their own ([`OwnLimits`]).

use std::time::Duration;

/// Limits of a keystore, each with its unit. There are no defaults here: the program that runs the
/// keystore supplies the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes of one upload that are received and not yet written. A slice of a
    /// larger buffer counts with its whole buffer.
    pub window_bytes: u32,
    /// Maximum number of open uploads of one tenant.
    pub uploads_per_tenant: u32,
    /// Maximum number of open uploads over all tenants.
    pub uploads_total: u32,
    /// Maximum number of uploads of clients that receive at the same time. Each receiving upload
    /// occupies a thread. Results of workers have a limit of their own.
    pub writers_total: u32,
    /// Maximum number of receiving uploads of one tenant. A value below the total keeps one tenant
    /// from shutting out the others.
    pub writers_per_tenant: u32,
    /// Largest list of ciphertexts or lookup table, in bytes. The parameter set determines the size
    /// of keys.
    pub list_bytes: u64,
    /// Maximum number of bytes that one tenant may store, open uploads included.
    pub tenant_bytes: u64,
    /// Maximum number of bytes of unpinned ciphertexts over all tenants. Beyond the limit, the
    /// tenant with the most unpinned bytes loses its least recently used ciphertexts. A tenant
    /// never loses the space of an even share.
    pub unpinned_bytes: u64,
    /// Maximum number of keys of one tenant.
    pub keys_per_tenant: u32,
    /// Maximum number of parts of one key.
    pub parts_per_key: u32,
    /// Maximum number of keys or uploads on one page of a list.
    pub page_entries: u32,
    /// Maximum number of digests in one query for missing blobs, or in one pin.
    pub digests_per_call: u32,
    /// Maximum number of bytes in the staging directory, over all tenants. An upload that receives
    /// counts with its whole size, and any other unfinished upload with its received bytes. Blobs
    /// from memory count until they are stored.
    pub staged_bytes: u64,
    /// Time after which an upload without a writer expires.
    pub upload_expiry: Duration,
    /// Time for which a blob is kept from eviction after its upload, or after a report that it is
    /// present. If its tenant holds more than an even share, uploads of other tenants may evict the
    /// blob earlier.
    pub keep: Duration,
    /// Time for which a request id is remembered.
    pub request_memory: Duration,
    /// Maximum number of remembered request ids of one tenant. Beyond the limit, the oldest are
    /// forgotten early.
    pub request_ids_per_tenant: u32,
    /// Minimum age of an object in a remote store, unknown to the catalogue, that a start removes.
    pub orphan_age: Duration,
}

/// Limits of single tenants, in place of those of all.
pub trait OwnLimits: std::fmt::Debug + Send + Sync {
    /// Maximum number of bytes that the tenant may store, where all others may store `of_all`.
    fn bytes(&self, tenant: &str, of_all: u64) -> u64;

    /// Maximum number of keys of the tenant, where all others may have `of_all`.
    fn keys(&self, tenant: &str, of_all: u64) -> u64;
}
