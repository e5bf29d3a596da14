//! The named sets.
