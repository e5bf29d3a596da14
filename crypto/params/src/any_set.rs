//! A parameter set of either scheme.

use crate::{
    ckks::{self, CkksSet},
    set::{ParameterSet, SetId, Standing},
    table,
};

/// A parameter set, as the header of an object names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnySet {
    /// A set of TFHE.
    Tfhe(&'static ParameterSet),
    /// A set of CKKS.
    Ckks(&'static CkksSet),
}

impl AnySet {
    /// The set with this number. Numbers are unique across both schemes.
    pub fn find(id: SetId) -> Option<Self> {
        table::find(id).map(Self::Tfhe).or_else(|| ckks::find(id).map(Self::Ckks))
    }

    /// The set with this name. Names are unique across both schemes.
    pub fn by_name(name: &str) -> Option<Self> {
        table::by_name(name).map(Self::Tfhe).or_else(|| ckks::by_name(name).map(Self::Ckks))
    }

    /// All sets of both schemes.
    pub fn all() -> impl Iterator<Item = Self> {
        table::SETS.iter().map(Self::Tfhe).chain(ckks::CKKS_SETS.iter().map(Self::Ckks))
    }

    /// Number of the set.
    pub fn id(self) -> SetId {
        match self {
            Self::Tfhe(set) => set.id,
            Self::Ckks(set) => set.id,
        }
    }

    /// Name of the set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tfhe(set) => set.name,
            Self::Ckks(set) => set.name,
        }
    }

    /// Whether a server may use the set without an explicit permission for weak sets.
    pub fn standing(self) -> Standing {
        match self {
            Self::Tfhe(set) => set.standing,
            Self::Ckks(set) => set.standing,
        }
    }

    /// The set, if it is a set of TFHE.
    pub fn tfhe(self) -> Option<&'static ParameterSet> {
        match self {
            Self::Tfhe(set) => Some(set),
            Self::Ckks(_) => None,
        }
    }

    /// The set, if it is a set of CKKS.
    pub fn ckks(self) -> Option<&'static CkksSet> {
        match self {
            Self::Tfhe(_) => None,
            Self::Ckks(set) => Some(set),
        }
    }
}
