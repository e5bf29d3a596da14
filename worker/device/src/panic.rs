//! The message of a panic.

use std::any::Any;

/// The text of a caught panic. `panic!` makes a `&str` or a `String`; any other payload has no
/// text.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn the_message_of_a_panic_is_its_text() {
        let caught = |work: fn()| catch_unwind(work).expect_err("it panics");
        assert_eq!(panic_message(&*caught(|| panic!("fixed"))), "fixed");
        assert_eq!(panic_message(&*caught(|| panic!("made of {}", 2))), "made of 2");
        assert_eq!(panic_message(&*caught(|| std::panic::panic_any(7))), "it panicked");
    }
}
