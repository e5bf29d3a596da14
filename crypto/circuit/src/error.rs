//! Reasons to refuse a program.

/// Why a program is refused, and where in it the problem is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A count exceeds the limit for programs.
    #[error("{got} {what}: a program may have {max}")]
    TooMany {
        /// Name of the counted parts.
        what: &'static str,
        /// The limit.
        max: u64,
        /// The program's count.
        got: u64,
    },
    /// A row may take more bootstraps than the limit allows.
    #[error(
        "up to {got} bootstraps for a row, as estimated from its types: a program may have {max}; cut it into several, \
         each of which takes the results of the one before it"
    )]
    TooManyBootstraps {
        /// The limit.
        max: u64,
        /// The upper bound.
        got: u64,
    },
    /// The bytes do not encode a program.
    #[error("not an encoded cloakwork.v1.Program: {0}")]
    Malformed(String),
    /// The parameter set does not exist.
    #[error("no parameter set is called '{0}'")]
    UnknownParameterSet(String),
    /// A program without an output computes nothing.
    #[error("the program has no outputs")]
    NoOutputs,
    /// An output names a value that does not exist.
    #[error("output {index} is value {value}, but there are {values} values")]
    OutputOutOfRange {
        /// Index of the output.
        index: usize,
        /// Number of the value that the output names.
        value: u32,
        /// Number of values.
        values: usize,
    },
    /// An output is clear. The client knows its value, so it needs no computation.
    #[error("output {index} is clear: a program returns only encrypted values")]
    ClearOutput {
        /// Index of the output.
        index: usize,
    },
    /// The lengths of the outputs do not add up to the number of values to return.
    #[error("the outputs' lengths say {expected} values to return: there are {got}")]
    OutputLengths {
        /// Sum of the lengths.
        expected: u64,
        /// Number of values to return.
        got: usize,
    },
    /// The elements of an output array differ in type.
    #[error("output {index} is an array of {first} and {other}: its elements must have one type")]
    MixedOutput {
        /// Index of the output.
        index: usize,
        /// Type of the first element.
        first: crate::Type,
        /// Type of an element that differs.
        other: crate::Type,
    },
    /// An input is invalid.
    #[error("input {index} ('{name}'): {problem}")]
    Input {
        /// Index of the input.
        index: usize,
        /// Name of the input.
        name: String,
        /// Description of the problem and of what is expected.
        problem: String,
    },
    /// An operation is invalid.
    #[error("operation {index} ({kind}): {problem}")]
    Operation {
        /// Index of the operation.
        index: usize,
        /// Name of the operation in the protocol.
        kind: String,
        /// Description of the problem and of what is expected.
        problem: String,
    },
}
