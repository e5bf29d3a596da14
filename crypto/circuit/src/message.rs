//! Decoding of the message that carries a program.

use prost::Message;

use crate::{ProgramError, wire};

/// Counts the parts of a message. Decoding skips the content of the parts and allocates nothing for
/// it.
#[derive(Clone, PartialEq, Message)]
struct Parts {
    #[prost(message, repeated, tag = "2")]
    inputs: Vec<()>,
    #[prost(message, repeated, tag = "3")]
    operations: Vec<()>,
}

/// Decodes a message within limits on bytes, inputs and operations. Parts are counted before they
/// are decoded, because two bytes of a message become hundreds of bytes in memory.
pub(crate) fn decode(
    bytes: &[u8],
    bytes_max: usize,
    inputs_max: usize,
    operations_max: usize,
) -> Result<wire::Program, ProgramError> {
    at_most("bytes", bytes_max, bytes.len())?;
    let malformed = |error: prost::DecodeError| ProgramError::Malformed(error.to_string());
    let parts = Parts::decode(bytes).map_err(malformed)?;
    at_most("inputs", inputs_max, parts.inputs.len())?;
    at_most("operations", operations_max, parts.operations.len())?;
    wire::Program::decode(bytes).map_err(malformed)
}

/// Refuses more than `max` of something.
pub(crate) fn at_most(what: &'static str, max: usize, got: usize) -> Result<(), ProgramError> {
    if got <= max { Ok(()) } else { Err(ProgramError::TooMany { what, max: max as u64, got: got as u64 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_by_the_field_numbers_of_the_message() {
        let message = wire::Program {
            inputs: vec![wire::program::Input { name: "x".to_owned(), ..Default::default() }; 3],
            operations: vec![wire::Operation { arguments: vec![0, 1], ..Default::default() }; 5],
            outputs: vec![7],
            ..Default::default()
        };
        let bytes = message.encode_to_vec();
        let decoded = |inputs, operations| decode(&bytes, bytes.len(), inputs, operations);
        assert_eq!(decoded(3, 5), Ok(message));
        assert_eq!(decoded(2, 5), Err(ProgramError::TooMany { what: "inputs", max: 2, got: 3 }));
        assert_eq!(decoded(3, 4), Err(ProgramError::TooMany { what: "operations", max: 4, got: 5 }));
        let short = decode(&bytes, bytes.len() - 1, 3, 5);
        assert!(matches!(short, Err(ProgramError::TooMany { what: "bytes", .. })), "{short:?}");
    }
}
