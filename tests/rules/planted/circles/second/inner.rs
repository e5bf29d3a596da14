//! Uses the third room.

pub struct Inner(super::super::third::Third);
pub struct Other;
