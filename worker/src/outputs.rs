//! Outputs of a job: filled row by row, then encoded.

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
    /// A list of `count` zero ciphertexts.
    pub(crate) fn new(set: &ParameterSet, count: usize) -> Self {
        match set.torus {
            TorusWidth::U32 => Self::U32(LweList::zeros(set.input_dimension(), count)),
            TorusWidth::U64 => Self::U64(LweList::zeros(set.input_dimension(), count)),
        }
    }

    /// Reads ciphertexts from slots into the places from `first` on.
    pub(crate) fn read(
        &mut self,
        first: usize,
        device: &dyn Device,
        arena: Arena,
        slots: &[u32],
    ) -> Result<(), DeviceError> {
        let places = |words: usize| first * words..(first + slots.len()) * words;
        let words = match self {
            Self::U32(list) => {
                let places = places(list.dimension() + 1);
                WordsMut::U32(&mut list.words_mut()[places])
            }
            Self::U64(list) => {
                let places = places(list.dimension() + 1);
                WordsMut::U64(&mut list.words_mut()[places])
            }
        };
        device.read(arena, slots, words)
    }

    /// Encodes the list as an envelope. `blocks` describes the blocks of one row.
    pub(crate) fn encode(self, set: &ParameterSet, key_id: KeyId, blocks: &[Output]) -> Result<Vec<u8>, FormatError> {
        match self {
            Self::U32(list) => bytes(list, set, key_id, blocks),
            Self::U64(list) => bytes(list, set, key_id, blocks),
        }
    }
}

fn bytes<T: Torus>(
    list: LweList<T>,
    set: &ParameterSet,
    key_id: KeyId,
    blocks: &[Output],
) -> Result<Vec<u8>, FormatError> {
    let info = |block: &Output| CiphertextInfo { degree: block.degree, noise_level: block.noise_level };
    let info: Vec<CiphertextInfo> = blocks.iter().map(info).cycle().take(list.len()).collect();
    let mut bytes = Vec::with_capacity(size_of_val(list.words()) + 256);
    encode(&CiphertextList::new(list, info)?, set, key_id, &mut bytes)?;
    Ok(bytes)
}
