//! The contract between the engines of a worker and the devices that compute for them.
//!
//! A [`Device`] holds keys, tables and an arena of ciphertext slots, and computes [`Wave`]s. A wave
//! is a flat list of lanes. Each lane is a linear combination of slots, with or without a table.
//! The parameter set determines the words of a ciphertext, and their layout is the device's
//! business. On the host they are [`Words`]. A device describes its [`Capabilities`], and may have
//! a [`VectorUnit`], which computes programs on vectors.

#![forbid(unsafe_code)]

mod curve;
mod device;
mod error;
mod key_source;
mod panic;
mod self_test;
mod slot_states;
mod vector_unit;
mod wave;
mod words;

pub use curve::Curve;
pub use device::{Arena, Capabilities, CurvePoint, Device, DeviceInfo, KeySlot, LutSlot, Ticket, Waker, WorkStats};
pub use error::DeviceError;
pub use key_source::{KeySource, SeededParts, part_error};
pub use panic::panic_message;
pub use self_test::self_test;
pub use slot_states::{SLOT_STATE_BYTES, SlotStates};
pub use vector_unit::{Row, RowError, RowResult, Times, VectorUnit};
pub use wave::{Lane, NO_TABLE, Term, Wave, WaveError};
pub use words::{HostLut, Words, WordsMut};
