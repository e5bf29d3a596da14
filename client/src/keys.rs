//! A client's keys: the secret key, and the parts of the evaluation key that the server gets.

mod any;
mod digests;
mod directory;
mod generate;
mod push;

use cloakwork_params::{
    AnySet, CiphertextInfo, EnvelopeReader, Expected, KeyId, ObjectKind, ParameterSet, TorusWidth,
    ckks::layout::KeyShape,
};
use cloakwork_secret::{
    ClientKey, LweList, Randomness, SecretError, SeededLweList, Torus,
    format::{self, CiphertextList},
};
use zeroize::Zeroizing;

pub use any::{AnyKeys, EvaluationKey};
pub use directory::{CLIENT_KEY_FILE, make_directory};
pub(crate) use directory::{UNFINISHED_SUFFIX, client_key_path, unfinished_path};

use crate::{ClientError, Encrypted, Integer, Result, Shape, Source, Type, shape::BlocksShape};

/// A client key and its evaluation key. `Debug` prints no secret, and the keys are wiped on drop.
#[derive(Debug)]
pub struct Keys {
    client: ClientKey,
    parts: Vec<Part>,
    /// One of the client key's sets, used for encryption.
    set: &'static ParameterSet,
}

/// A part of the evaluation key: one envelope.
#[derive(Clone, Debug)]
pub struct Part {
    /// Kind of the part.
    pub kind: ObjectKind,
    /// Parameter set of the part.
    pub set: AnySet,
    /// For a part of a CKKS key: its purpose, and the highest level that it serves.
    pub shape: Option<KeyShape>,
    /// Source of the part's bytes.
    pub source: Source,
}

impl Keys {
    /// Public identifier, carried by everything that is made under the key.
    pub fn key_id(&self) -> KeyId {
        self.client.key_id()
    }

    /// The set for which values are encrypted: the key's first set, unless [`Self::using`] selects
    /// another.
    pub fn set(&self) -> &'static ParameterSet {
        self.set
    }

    /// The sets that the key has parts for. The set that the key was made for comes first.
    pub fn sets(&self) -> impl Iterator<Item = &'static ParameterSet> {
        self.client.sets()
    }

    /// Selects another of the key's sets for encryption.
    pub fn using(self, set: &'static ParameterSet) -> Result<Self> {
        self.client.small(set)?;
        Ok(Self { set, ..self })
    }

    /// The parts of the evaluation key.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Encrypts values of at most `degree_max`, for the set that [`Self::set`] returns. The masks
    /// travel as a seed, so a value takes one word instead of thousands.
    ///
    /// The bound travels in the clear with the ciphertexts, and a program may require a lower
    /// bound. Choose a bound that does not depend on the values, such as the largest message or the
    /// largest value of a block.
    pub fn encrypt(&self, values: &[u64], degree_max: u32) -> Result<Encrypted> {
        if let Some(index) = values.iter().position(|value| *value > u64::from(degree_max)) {
            return Err(ClientError::ValueTooLarge { index, max: degree_max.into() });
        }
        let envelope = match self.set().torus {
            TorusWidth::U32 => self.encrypt_words::<u32>(values, degree_max)?,
            TorusWidth::U64 => self.encrypt_words::<u64>(values, degree_max)?,
        };
        Ok(Encrypted { envelope: envelope.into(), shape: BlocksShape::of_degree(self.set(), degree_max, values.len()) })
    }

    /// Encrypts values of a type. Each value becomes a ciphertext for each of its blocks, one after
    /// the other.
    pub fn encrypt_integers(&self, values: &[Integer], ty: Type) -> Result<Encrypted> {
        let digits: Zeroizing<Vec<u64>> = Zeroizing::new(values.iter().flat_map(|value| value.digits(ty)).collect());
        self.encrypt(&digits, self.degree_of(ty))
    }

    /// The shape of a list that holds this number of values of a type.
    pub fn shape_of_integers(&self, ty: Type, values: usize) -> Shape {
        BlocksShape::of_degree(self.set(), self.degree_of(ty), values.saturating_mul(ty.blocks()))
    }

    /// Largest value of each block of a value of a type. A block on its own holds a message.
    fn degree_of(&self, ty: Type) -> u32 {
        ty.degree().unwrap_or(CiphertextInfo::fresh(self.set()).degree)
    }

    /// Decrypts values of a type, like [`Self::decrypt`].
    pub fn decrypt_integers(&self, list: &Encrypted, ty: Type) -> Result<Vec<Integer>> {
        let digits = self.decrypt(list)?;
        Ok(digits.chunks(ty.blocks()).map(|digits| Integer::from_digits(digits, ty)).collect())
    }

    fn encrypt_words<T: Torus>(&self, values: &[u64], degree: u32) -> Result<Vec<u8>> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        let list = self.client.encrypt_seeded::<T>(self.set(), values, &mut randomness)?;
        let info = vec![CiphertextInfo { degree, ..CiphertextInfo::fresh(self.set()) }; list.len()];
        let list = CiphertextList::new(list, info).map_err(format::FormatError::from)?;
        let mut envelope = Vec::new();
        format::encode(&list, self.set(), self.key_id(), &mut envelope)?;
        Ok(envelope)
    }

    /// Decrypts a list that was made under the key for any of its sets. The list is checked,
    /// including its digest, and must have its shape. The values are wiped on drop.
    pub fn decrypt(&self, list: &Encrypted) -> Result<Zeroizing<Vec<u64>>> {
        let shape = list.shape.blocks()?;
        match shape.set.torus {
            TorusWidth::U32 => self.decrypt_words::<u32>(shape, &list.envelope),
            TorusWidth::U64 => self.decrypt_words::<u64>(shape, &list.envelope),
        }
    }

    fn decrypt_words<T: Torus>(&self, shape: &BlocksShape, envelope: &[u8]) -> Result<Zeroizing<Vec<u64>>> {
        let expected = Expected { set: Some(shape.set), key_id: Some(self.key_id()) };
        let (list, infos) = match EnvelopeReader::open(envelope)?.header().kind {
            ObjectKind::SeededLweList => {
                let list = format::decode::<CiphertextList<SeededLweList<T>>>(envelope, &expected)?.object;
                (list.list().expand(), list.into_parts().1)
            }
            _ => format::decode::<CiphertextList<LweList<T>>>(envelope, &expected)?.object.into_parts(),
        };
        shape.check(&infos)?;
        Ok(Zeroizing::new(self.client.decrypt(shape.set, &list)?))
    }
}

/// The set with this name.
pub fn set_by_name(name: &str) -> Result<&'static ParameterSet> {
    cloakwork_params::table::by_name(name).ok_or_else(|| ClientError::no_such_set(name))
}
