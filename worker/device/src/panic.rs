//! The message of a panic.

use std::any::Any;

/// The text that a caught panic carries. `panic!` makes a `&str` or a `String`; anything else has no text.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_panic_is_told_by_its_text() {
        let caught = |work: fn()| catch_unwind(work).expect_err("it panics");
        assert_eq!(panic_message(&*caught(|| panic!("fixed"))), "fixed");
        assert_eq!(panic_message(&*caught(|| panic!("made of {}", 2))), "made of 2");
        assert_eq!(panic_message(&*caught(|| std::panic::panic_any(7))), "it panicked");
    }
}
