//! A set of either scheme.

use crate::{
    ckks::{self, CkksSet},
    set::{ParameterSet, SetId, Standing},
    table,
};

/// A parameter set, as the header of an object names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnySet {
    /// Of TFHE.
    Tfhe(&'static ParameterSet),
    /// Of CKKS.
    Ckks(&'static CkksSet),
}

impl AnySet {
    /// The set with this number; no two have the same, be they of different schemes.
    pub fn find(id: SetId) -> Option<Self> {
        table::find(id).map(Self::Tfhe).or_else(|| ckks::find(id).map(Self::Ckks))
    }

    /// The set of this name; no two have the same.
    pub fn by_name(name: &str) -> Option<Self> {
        table::by_name(name).map(Self::Tfhe).or_else(|| ckks::by_name(name).map(Self::Ckks))
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        table::SETS.iter().map(Self::Tfhe).chain(ckks::CKKS_SETS.iter().map(Self::Ckks))
    }

    /// Its number.
    pub fn id(self) -> SetId {
        match self {
            Self::Tfhe(set) => set.id,
            Self::Ckks(set) => set.id,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tfhe(set) => set.name,
            Self::Ckks(set) => set.name,
        }
    }

    /// May a server use it without being told to allow weak sets?
    pub fn standing(self) -> Standing {
        match self {
            Self::Tfhe(set) => set.standing,
            Self::Ckks(set) => set.standing,
        }
    }

    /// The set, if it is one of TFHE.
    pub fn tfhe(self) -> Option<&'static ParameterSet> {
        match self {
            Self::Tfhe(set) => Some(set),
            Self::Ckks(_) => None,
        }
    }

    /// The set, if it is one of CKKS.
    pub fn ckks(self) -> Option<&'static CkksSet> {
        match self {
            Self::Tfhe(_) => None,
            Self::Ckks(set) => Some(set),
        }
    }
}
