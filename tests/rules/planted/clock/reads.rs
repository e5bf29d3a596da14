//! Reads the time of day from the system, in place of a clock that it is given.

use std::time::SystemTime;

/// Whether a time has passed. A comment may name SystemTime::now.
pub fn has_passed(time: SystemTime) -> bool {
    time <= SystemTime::now()
}
