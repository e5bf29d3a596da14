//! Planted.
