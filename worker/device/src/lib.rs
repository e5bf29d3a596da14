//! The contract between the wave engine and the devices that compute waves.
//!
//! A [`Device`] holds keys, tables and an arena of ciphertext slots, and computes [`Wave`]s. A wave
//! is a flat list of lanes. Each lane is a linear combination of slots, with or without a table.
//! The parameter set determines the words of a ciphertext, and their layout is the device's
//! business. On the host they are [`Words`].

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
