//! A job's outputs: filled row by row, then encoded.

use cloakwork_circuit::Output;
use cloakwork_device::{Arena, Device, DeviceError, WordsMut};
use cloakwork_params::{CiphertextInfo, KeyId, ParameterSet, TorusWidth};
use cloakwork_tfhe::{
    LweList, Torus,
    format::{CiphertextList, FormatError, encode},
};

/// The ciphertexts of one output.
pub(crate) enum OutputList {
    U32(LweList<u32>),
    U64(LweList<u64>),
}

impl OutputList {
    pub(crate) fn new(set: &ParameterSet, rows: usize) -> Self {
        match set.torus {
            TorusWidth::U32 => Self::U32(LweList::zeros(set.input_dimension(), rows)),
            TorusWidth::U64 => Self::U64(LweList::zeros(set.input_dimension(), rows)),
        }
    }

    /// Takes a row from a slot.
    pub(crate) fn read(&mut self, row: usize, device: &dyn Device, arena: Arena, slot: u32) -> Result<(), DeviceError> {
        match self {
            Self::U32(list) => device.read(arena, &[slot], WordsMut::U32(list.get_mut(row))),
            Self::U64(list) => device.read(arena, &[slot], WordsMut::U64(list.get_mut(row))),
        }
    }

    /// The envelope that goes back.
    pub(crate) fn encode(self, set: &ParameterSet, key_id: KeyId, output: &Output) -> Result<Vec<u8>, FormatError> {
        match self {
            Self::U32(list) => bytes(list, set, key_id, output),
            Self::U64(list) => bytes(list, set, key_id, output),
        }
    }
}

fn bytes<T: Torus>(
    list: LweList<T>,
    set: &ParameterSet,
    key_id: KeyId,
    output: &Output,
) -> Result<Vec<u8>, FormatError> {
    let info = CiphertextInfo { degree: output.degree, noise_level: output.noise_level };
    let info = vec![info; list.len()];
    let mut bytes = Vec::with_capacity(size_of_val(list.words()) + 256);
    encode(&CiphertextList::new(list, info)?, set, key_id, &mut bytes)?;
    Ok(bytes)
}
