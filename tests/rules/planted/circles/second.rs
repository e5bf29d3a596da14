//! The second room.

pub mod inner;
