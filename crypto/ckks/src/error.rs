//! What can be wrong with an operation. No message carries a number that was to be encrypted.

use cloakwork_params::ckks::bootstrap::NoSuchBootstrap;

/// An operation on CKKS ciphertexts that cannot be carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CkksError {
    /// A number is infinite or not a number.
    #[error("number {index} is not a finite one")]
    NotFinite {
        /// Where it is.
        index: usize,
    },
    /// A number times the scale does not fit the modulus. How large it is is not told, only how large it may be.
    #[error("the numbers are too large: a modulus of {modulus_log2:.1} bits and a scale of 2^{scale_log2:.1} have room for magnitudes below {}", magnitude(modulus_log2 - 1.0 - scale_log2))]
    TooLarge {
        /// log2 of the scale.
        scale_log2: f64,
        /// Bits there are.
        modulus_log2: f64,
    },
    /// Not a power of two up to N / 2.
    #[error("{got} numbers: a ciphertext of this set holds a power of two, up to {max}")]
    WrongSlots {
        /// How many there are.
        got: usize,
        /// How many there may be.
        max: usize,
    },
    /// A bootstrap that there is not.
    #[error("{0}")]
    NoSuchBootstrap(NoSuchBootstrap),
    /// Two operands have other numbers of slots.
    #[error("{left} slots and {right} slots: both operands must have as many")]
    OtherSlots {
        /// Of one.
        left: usize,
        /// Of the other.
        right: usize,
    },
    /// Two operands of a sum have other scales.
    #[error("scales of 2^{left_log2:.6} and 2^{right_log2:.6}: a sum is of operands of one scale")]
    OtherScale {
        /// log2 of one.
        left_log2: f64,
        /// log2 of the other.
        right_log2: f64,
    },
    /// Nothing can be taken away below level 0.
    #[error("level {got}, and {what} needs at least {least}")]
    LevelTooLow {
        /// The operation.
        what: &'static str,
        /// What there is.
        got: usize,
        /// What it takes.
        least: usize,
    },
    /// There is no such level.
    #[error("level {got}: {what} goes up to level {max}")]
    LevelTooHigh {
        /// What has levels.
        what: &'static str,
        /// What was asked for.
        got: usize,
        /// What there is.
        max: usize,
    },
    /// A key that is not one of the set, or not whole.
    #[error("not a key of this set: {what}")]
    MalformedKey {
        /// What is wrong with it.
        what: &'static str,
    },
    /// Things of two sets.
    #[error("{left} and {right} are two sets: all that is computed with must be of one")]
    OtherSet {
        /// One.
        left: &'static str,
        /// The other.
        right: &'static str,
    },
    /// Whoever watches a bootstrap has said that it shall not go on.
    #[error("given up in the middle of a bootstrap")]
    GivenUp,
    /// A sum of nothing.
    #[error("a polynomial has at least one coefficient")]
    NoCoefficients,
    /// A key that the operation needs is not there.
    #[error("the key for {what} is missing")]
    MissingKey {
        /// What it is for.
        what: String,
    },
    /// Two keys of one client are for the same: nobody could say which one counts.
    #[error("there are two keys for {what}")]
    DoubleKey {
        /// What they are for.
        what: String,
    },
}

/// A power of two as people read it, rounded down: whatever is below that is below the power as well.
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
    fn numbers_that_are_too_large_are_told_how_large_they_may_be() {
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
