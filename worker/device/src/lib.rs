//! The contract between the wave engine and whatever computes a wave.
//!
//! A [`Device`] holds keys, tables and an arena of ciphertext slots, and computes [`Wave`]s: flat lists of lanes, each
//! a linear combination of slots with or without a table. What words a ciphertext is made of follows from the
//! parameter set and is the device's business; on the host they are [`Words`].

#![forbid(unsafe_code)]

mod curve;
mod device;
mod error;
mod key_source;
mod panic;
mod self_test;
mod slot_states;
mod wave;
mod words;

pub use curve::Curve;
pub use device::{Arena, CurvePoint, Device, DeviceInfo, KeySlot, LutSlot, Ticket, Waker, WorkStats};
pub use error::DeviceError;
pub use key_source::{KeySource, SeededParts, part_error};
pub use panic::panic_message;
pub use self_test::self_test;
pub use slot_states::{SLOT_STATE_BYTES, SlotStates};
pub use wave::{Lane, NO_TABLE, Term, Wave, WaveError};
pub use words::{HostLut, Words, WordsMut};
