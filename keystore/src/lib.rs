//! Content-addressed, tenant-scoped blobs and key manifests.
//!
//! A client sends a blob through a resumable upload. The keystore verifies the bytes as they
//! arrive, and commits the blob whole or not at all. The bytes lie in a directory or in an
//! S3-compatible store. The metadata of blobs and keys lies in a catalogue (SQLite). A key is a
//! manifest of blobs. No code in this crate can decrypt a ciphertext, and a secret key is refused
//! by its header.

#![forbid(unsafe_code)]

mod abort;
mod catalogue;
mod changing;
mod claim;
mod detached;
mod error;
mod ids;
mod keys;
mod keystore;
mod known_keys;
mod limits;
mod lookup;
mod pins;
mod purge;
mod read;
mod reconcile;
mod reserve;
mod room;
mod staging;
mod store;
mod sweep;
mod upload;
mod verify;

pub use catalogue::{SCHEMA, absorb, shards::shard_of};
pub use claim::{ClaimError, adopt, check, claim, has_claimed};
pub use error::Error;
pub use ids::{Digest, Holder, RequestId, TenantId, UploadId};
pub use keys::{KeyInfo, KeyPage, KeyPart, KeyState};
pub use keystore::{BlobInfo, Keystore, Options};
pub use limits::{Limits, OwnLimits};
pub use pins::{Pin, Pinning, Releasing};
pub use reconcile::{Compared, Lost, compare, condemn};
pub use reserve::Reservation;
pub use store::{ByteStream, S3Options, StoreOptions, StoreWatch};
pub use sweep::Swept;
pub use upload::{UploadInfo, UploadPage, UploadWriter};
