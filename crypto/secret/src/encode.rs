//! Conversion between messages and plaintexts.

use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet};
use zeroize::Zeroizing;

use crate::SecretError;

/// Encodes messages: below message times carry modulus, or 0 and 1 for false and true.
pub(crate) fn plaintexts<T: Torus>(set: &ParameterSet, messages: &[u64]) -> Result<Zeroizing<Vec<T>>, SecretError> {
    let max = message_count(set) - 1;
    if let Some(index) = messages.iter().position(|&message| message > max) {
        return Err(SecretError::MessageTooLarge { index, set: set.name, max });
    }
    // Allocate the full length at once: a vector that grows would leave copies of secrets behind.
    let mut plaintexts = Zeroizing::new(Vec::with_capacity(messages.len()));
    plaintexts.extend(messages.iter().map(|&message| plaintext::<T>(set, message)));
    Ok(plaintexts)
}

/// Encodes one message that is within the range.
fn plaintext<T: Torus>(set: &ParameterSet, message: u64) -> T {
    match set.encoding {
        Encoding::Shortint { .. } => T::from_u64(message * step::<T>(set)),
        Encoding::Boolean => {
            // A product and not a branch, so that true and false take the same time.
            let eighth = 1_u64 << (T::BITS - 3);
            T::from_u64((2 * message).wrapping_sub(1).wrapping_mul(eighth))
        }
    }
}

/// Decodes a phase to the message with the nearest plaintext.
pub(crate) fn message<T: Torus>(set: &ParameterSet, phase: T) -> u64 {
    match set.encoding {
        Encoding::Shortint { .. } => {
            let step = step::<T>(set);
            let rounded = phase.wrapping_add(T::from_u64(step / 2)).to_u64();
            // Step and count are powers of two. A division's time may depend on the phase.
            rounded >> step.ilog2() & (message_count(set) - 1)
        }
        Encoding::Boolean => u64::from(phase.to_i64() >= 0),
    }
}

fn message_count(set: &ParameterSet) -> u64 {
    match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => message_modulus * carry_modulus,
        Encoding::Boolean => 2,
    }
}

/// Distance between neighbouring messages: the torus without its padding bit, divided by their
/// number.
fn step<T: Torus>(set: &ParameterSet) -> u64 {
    (1 << (T::BITS - 1)) / message_count(set)
}
