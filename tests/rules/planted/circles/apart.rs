//! Uses nothing.

pub struct Apart;
