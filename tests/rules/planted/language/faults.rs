//! What this module does.

/// Is it full?
pub fn is_full() -> bool {
    true
}

// A comment in a line of its own must stay within a hundred columns, whoever wrote it and for what reason.
fn written() {}
