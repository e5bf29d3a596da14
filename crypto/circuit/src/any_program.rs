//! A program of either family.

use cloakwork_params::AnySet;
use prost::Message;

use crate::{LIMITS, Program, ProgramError, ProgramId, ckks};

/// A program. Its parameter set determines the family.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyProgram {
    /// A program on blocks, under a set of TFHE.
    Blocks(Program),
    /// A program on vectors of approximate numbers, under a set of CKKS.
    Vectors(ckks::Program),
}

/// The field of a program that determines its family. Decoding skips all other fields.
#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(string, tag = "1")]
    parameter_set: String,
}

impl AnyProgram {
    /// The parameter set that the bytes name. Nothing else in them is decoded.
    pub fn set_of(bytes: &[u8]) -> Result<AnySet, ProgramError> {
        let Head { parameter_set } = Head::decode(bytes).map_err(|error| ProgramError::Malformed(error.to_string()))?;
        AnySet::by_name(&parameter_set).ok_or(ProgramError::UnknownParameterSet(parameter_set))
    }

    /// Decodes and checks a program within the limits that every server and worker applies.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProgramError> {
        match Self::set_of(bytes)? {
            AnySet::Tfhe(_) => Program::decode(bytes, &LIMITS).map(Self::Blocks),
            AnySet::Ckks(_) => ckks::Program::decode(bytes, &ckks::LIMITS).map(Self::Vectors),
        }
    }

    /// Digest that names the program.
    pub fn id(&self) -> ProgramId {
        match self {
            Self::Blocks(program) => program.id(),
            Self::Vectors(program) => program.id(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn decoded(set: &str, ty: wire::Type) -> Result<AnyProgram, ProgramError> {
        let input =
            wire::program::Input { name: "x".to_owned(), r#type: ty.into(), slots_log2: 3, ..Default::default() };
        let message = wire::Program {
            parameter_set: set.to_owned(),
            inputs: vec![input],
            outputs: vec![0],
            ..Default::default()
        };
        AnyProgram::decode(&message.encode_to_vec())
    }

    #[test]
    fn the_parameter_set_determines_the_family() {
        let blocks = decoded("TOY_MESSAGE_2_CARRY_2", wire::Type::Bool);
        assert!(matches!(blocks, Ok(AnyProgram::Blocks(_))), "{blocks:?}");
        let vectors = decoded("TOY_CKKS_45_60_50", wire::Type::Vector);
        assert!(matches!(vectors, Ok(AnyProgram::Vectors(_))), "{vectors:?}");
        for (set, ty) in [("TOY_MESSAGE_2_CARRY_2", wire::Type::Vector), ("TOY_CKKS_45_60_50", wire::Type::Bool)] {
            assert!(decoded(set, ty).is_err(), "{set} has no {ty:?}");
        }
        let nowhere = ProgramError::UnknownParameterSet("NOWHERE".to_owned());
        assert_eq!(decoded("NOWHERE", wire::Type::Bool), Err(nowhere));
        assert!(matches!(AnyProgram::decode(b"\xff"), Err(ProgramError::Malformed(_))));
    }
}
