//! Keys of either scheme.

use std::{fs::File, path::Path};

use cloakwork_params::{EnvelopeReader, KeyId, ObjectKind};
use cloakwork_secret::file::KeyFileError;

use super::{Keys, Part, directory::client_key_path};
use crate::{CkksKeys, Result};

/// A key whose parts a server gets.
pub trait EvaluationKey {
    /// Public identifier, carried by everything that is made under the key.
    fn key_id(&self) -> KeyId;

    /// The parts of the evaluation key.
    fn parts(&self) -> &[Part];
}

impl EvaluationKey for Keys {
    fn key_id(&self) -> KeyId {
        self.key_id()
    }

    fn parts(&self) -> &[Part] {
        self.parts()
    }
}

impl EvaluationKey for CkksKeys {
    fn key_id(&self) -> KeyId {
        self.key_id()
    }

    fn parts(&self) -> &[Part] {
        self.parts()
    }
}

impl EvaluationKey for AnyKeys {
    fn key_id(&self) -> KeyId {
        self.key_id()
    }

    fn parts(&self) -> &[Part] {
        self.parts()
    }
}

/// The keys of a directory, of either scheme, with the operations that both schemes share: pushing
/// the parts and naming the key.
#[derive(Debug)]
pub enum AnyKeys {
    /// Keys of TFHE.
    Tfhe(Box<Keys>),
    /// Keys of CKKS.
    Ckks(Box<CkksKeys>),
}

impl AnyKeys {
    /// Reads a directory of keys. The file of the client key determines the scheme.
    pub fn load(directory: &Path, passphrase: Option<&str>) -> Result<Self> {
        let path = client_key_path(directory);
        let file = File::open(&path).map_err(|error| crate::ClientError::io(&path, &error))?;
        let kind = EnvelopeReader::open_secret(file).map_err(KeyFileError::from)?.header().kind;
        match kind {
            ObjectKind::CkksClientKey => Ok(Self::Ckks(Box::new(CkksKeys::load(directory, passphrase)?))),
            _ => Ok(Self::Tfhe(Box::new(Keys::load(directory, passphrase)?))),
        }
    }

    /// Public identifier, carried by everything that is made under the key.
    pub fn key_id(&self) -> KeyId {
        match self {
            Self::Tfhe(keys) => keys.key_id(),
            Self::Ckks(keys) => keys.key_id(),
        }
    }

    /// The parts of the evaluation key.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::Tfhe(keys) => keys.parts(),
            Self::Ckks(keys) => keys.parts(),
        }
    }
}
