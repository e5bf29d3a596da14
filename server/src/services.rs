//! The gRPC services. The services parse requests into typed names, check them, and call the
//! component that does the work.

mod admin;
mod blob;
mod capability;
mod ciphertext;
mod delivery;
mod intake;
mod job;
mod key;
mod program;
mod transfer;
mod worker;

pub use admin::{Admin, day_text};
pub use blob::Blobs;
pub use capability::Capabilities;
pub use ciphertext::Ciphertexts;
pub use intake::Intake;
pub use job::Jobs;
pub use key::Keys;
pub use program::Programs;
pub use transfer::Transfers;
pub use worker::{Failures, OutputMemory, Outputs, READS_MAX, Reads, Workers};
