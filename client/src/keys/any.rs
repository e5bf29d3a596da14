//! Keys of either scheme.

use std::{fs::File, path::Path};

use cloakwork_params::{EnvelopeReader, KeyId, ObjectKind};
use cloakwork_secret::file::KeyFileError;

use super::{Keys, Part, directory::client_key_path};
use crate::{CkksKeys, Result};

/// The keys of a directory, whatever they are of: what can be pushed, and named.
#[derive(Debug)]
pub enum AnyKeys {
    /// Of TFHE.
    Tfhe(Box<Keys>),
    /// Of CKKS.
    Ckks(Box<CkksKeys>),
}

impl AnyKeys {
    /// Reads a directory of keys, of which its client key's file says what they are.
    pub fn load(directory: &Path, passphrase: Option<&str>) -> Result<Self> {
        let path = client_key_path(directory);
        let file = File::open(&path).map_err(|error| crate::ClientError::io(&path, &error))?;
        let kind = EnvelopeReader::open_secret(file).map_err(KeyFileError::from)?.header().kind;
        match kind {
            ObjectKind::CkksClientKey => Ok(Self::Ckks(Box::new(CkksKeys::load(directory, passphrase)?))),
            _ => Ok(Self::Tfhe(Box::new(Keys::load(directory, passphrase)?))),
        }
    }

    /// The public name that everything made under the key carries.
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
