//! Why a program is refused.

/// Why a program is refused, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// More than a program may have.
    #[error("{got} {what}: a program may have {max}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: u64,
        /// What came.
        got: u64,
    },
    /// More than a row of a program may take.
    #[error(
        "up to {got} bootstraps for a row, as its types say before it is lowered: a program may have {max}; cut it into \
         several, each of which takes what the one before it returned"
    )]
    TooManyBootstraps {
        /// The limit.
        max: u64,
        /// The upper bound.
        got: u64,
    },
    /// Not a program at all.
    #[error("not an encoded cloakwork.v1.Program: {0}")]
    Malformed(String),
    /// No such parameter set.
    #[error("no parameter set is called '{0}'")]
    UnknownParameterSet(String),
    /// Without an output there is nothing to compute.
    #[error("the program has no outputs")]
    NoOutputs,
    /// An output that is no value.
    #[error("output {index} is value {value}, but there are {values} values")]
    OutputOutOfRange {
        /// Place among the outputs.
        index: usize,
        /// The value asked for.
        value: u32,
        /// Number of values.
        values: usize,
    },
    /// An output that nobody need compute.
    #[error("output {index} is clear: only what is encrypted is returned")]
    ClearOutput {
        /// Place among the outputs.
        index: usize,
    },
    /// Lengths of outputs that the values to return do not make up.
    #[error("the outputs' lengths say {expected} values to return: there are {got}")]
    OutputLengths {
        /// Values that the lengths add up to.
        expected: u64,
        /// Values to return.
        got: usize,
    },
    /// An array of several types.
    #[error("output {index} is an array of {first} and {other}: its elements must have one type")]
    MixedOutput {
        /// Place among the outputs.
        index: usize,
        /// Type of the first element.
        first: crate::Type,
        /// Another element's.
        other: crate::Type,
    },
    /// Something is wrong with an input.
    #[error("input {index} ('{name}'): {problem}")]
    Input {
        /// Place among the inputs.
        index: usize,
        /// Its name.
        name: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Something is wrong with an operation.
    #[error("operation {index} ({kind}): {problem}")]
    Operation {
        /// Place among the operations.
        index: usize,
        /// Its name in the protocol.
        kind: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}
