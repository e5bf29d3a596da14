//! Errors of operations. No message contains a number that was to be encrypted.

use cloakwork_params::ckks::bootstrap::NoSuchBootstrap;

/// An operation on CKKS ciphertexts that cannot be performed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CkksError {
    /// A number is infinite or not a number.
    #[error("number {index} is not finite")]
    NotFinite {
        /// Index of the number.
        index: usize,
    },
    /// A number times the scale does not fit the modulus. The message gives only the allowed
    /// magnitude, not that of the number.
    #[error("the numbers are too large: a modulus of {modulus_log2:.1} bits and a scale of 2^{scale_log2:.1} have room for magnitudes below {}", magnitude(modulus_log2 - 1.0 - scale_log2))]
    TooLarge {
        /// log2 of the scale.
        scale_log2: f64,
        /// Number of bits of the modulus.
        modulus_log2: f64,
    },
    /// The number of slots is not a power of two up to N / 2.
    #[error("{got} numbers: a ciphertext of this set holds a power of two, up to {max}")]
    WrongSlots {
        /// Number of slots requested.
        got: usize,
        /// Maximum number of slots.
        max: usize,
    },
    /// The set has no bootstrap of this shape.
    #[error("{0}")]
    NoSuchBootstrap(NoSuchBootstrap),
    /// Two operands differ in the number of slots.
    #[error("{left} slots and {right} slots: both operands must have the same number")]
    OtherSlots {
        /// Slots of the first operand.
        left: usize,
        /// Slots of the second operand.
        right: usize,
    },
    /// Two operands of a sum differ in scale.
    #[error("scales of 2^{left_log2:.6} and 2^{right_log2:.6}: the operands of a sum must have one scale")]
    OtherScale {
        /// log2 of the first scale.
        left_log2: f64,
        /// log2 of the second scale.
        right_log2: f64,
    },
    /// The level is too low for the operation.
    #[error("level {got}, and {what} needs at least {least}")]
    LevelTooLow {
        /// The operation.
        what: &'static str,
        /// Actual level.
        got: usize,
        /// Minimum level.
        least: usize,
    },
    /// The requested level does not exist.
    #[error("level {got}: {what} goes up to level {max}")]
    LevelTooHigh {
        /// The object with levels.
        what: &'static str,
        /// Requested level.
        got: usize,
        /// Maximum level.
        max: usize,
    },
    /// A key does not belong to the set, or is not complete.
    #[error("not a key of this set: {what}")]
    MalformedKey {
        /// Description of the violation.
        what: &'static str,
    },
    /// Two objects belong to different sets.
    #[error("{left} and {right} are two sets: all objects of a computation must belong to one")]
    OtherSet {
        /// Name of the first set.
        left: &'static str,
        /// Name of the second set.
        right: &'static str,
    },
    /// The watcher of a bootstrap has stopped it.
    #[error("the bootstrap was stopped before its end")]
    GivenUp,
    /// A polynomial has no coefficients.
    #[error("a polynomial has at least one coefficient")]
    NoCoefficients,
    /// A key that the operation needs is missing.
    #[error("the key for {what} is missing")]
    MissingKey {
        /// Purpose of the key.
        what: String,
    },
    /// A client has two keys for one purpose, so the choice between them would be ambiguous.
    #[error("there are two keys for {what}")]
    DoubleKey {
        /// Purpose of the keys.
        what: String,
    },
}

/// Formats a power of two for people, rounded down. Every number below the printed value is below
/// the power as well.
fn magnitude(log2: f64) -> String {
    match log2.exp2() {
        small if small < 1.0 => format!("2^{:.1}", (log2 * 10.0).floor() / 10.0),
        number if log2 < 24.0 => format!("{}", number.floor()),
        _ => format!("2^{:.0}", log2.floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_too_large_numbers_state_the_allowed_magnitude() {
        for (modulus_log2, scale_log2, expected) in [
            (53.0, 45.0, "below 128"),
            (52.99, 45.0, "below 127"),
            (98.2, 45.0, "below 2^52"),
            (97.99, 45.0, "below 2^51"),
            (40.0, 45.0, "below 2^-6.0"),
            (39.96, 45.0, "below 2^-6.1"),
            (45.99, 45.0, "below 2^-0.1"),
        ] {
            let message = CkksError::TooLarge { scale_log2, modulus_log2 }.to_string();
            assert!(message.ends_with(expected), "{message}");
        }
    }
}
