//! Content-addressed, tenant-scoped blobs and key manifests.
//!
//! A blob arrives through a resumable upload, is verified as it comes, and is committed whole or not at all. Its bytes
//! lie in a directory or an S3-compatible store; what is known of them lies in a catalogue (SQLite). Keys are manifests
//! of blobs. Nothing here can read a ciphertext, and a secret key is refused by its header.

#![forbid(unsafe_code)]

mod abort;
mod catalogue;
mod clock;
pub mod database;
mod error;
mod ids;
mod keys;
mod keystore;
mod known_keys;
mod limits;
mod lookup;
mod pins;
pub mod private;
mod read;
mod room;
mod staging;
mod store;
mod sweep;
mod upload;
mod verify;

pub use clock::Clock;
pub use error::Error;
pub use ids::{Digest, Holder, RequestId, TenantId, UploadId};
pub use keys::{KeyInfo, KeyPage, KeyPart, KeyState};
pub use keystore::{BlobInfo, Keystore, Options};
pub use limits::Limits;
pub use pins::Pin;
pub use store::{ByteStream, S3Options, StoreOptions};
pub use sweep::Swept;
pub use upload::{UploadInfo, UploadPage, UploadWriter};
