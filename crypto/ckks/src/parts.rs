//! Keys of a client, part by part, as they are stored and sent. Memory never needs to hold all of
//! them at once, and bootstraps of several sizes share their common keys.

use std::collections::BTreeMap;

use cloakwork_params::ckks::{
    bootstrap::BootstrapShape,
    layout::{KeyShape, Purpose},
};

use crate::{
    bootstrap::SeededBootstrapKeys,
    error::CkksError,
    key::{SeededSwitchKey, conjugation_power, rotation_power},
    ring::Ring,
};

/// The keys that a client needs: one for each purpose, up to the highest level requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlan {
    levels: BTreeMap<Purpose, usize>,
}

impl KeyPlan {
    /// Adds products up to a level.
    pub fn products(&mut self, level: usize) {
        self.want(KeyShape { purpose: Purpose::Relinearization, level });
    }

    /// Adds rotations by `steps` to the left, up to a level. A rotation by 0 needs no key switch.
    pub fn rotation(&mut self, ring: &Ring, steps: i64, level: usize) {
        let power = rotation_power(ring, steps);
        if power != 1 {
            self.want(KeyShape { purpose: Purpose::Move { power }, level });
        }
    }

    /// Adds complex conjugation up to a level.
    pub fn conjugation(&mut self, ring: &Ring, level: usize) {
        self.want(KeyShape { purpose: Purpose::Move { power: conjugation_power(ring) }, level });
    }

    /// Adds all keys of a bootstrap, if the ring supports its shape. This encodes no matrices.
    pub fn bootstrap(&mut self, ring: &Ring, shape: BootstrapShape) -> Result<(), CkksError> {
        shape.check(ring.set()).map_err(CkksError::NoSuchBootstrap)?;
        for (key, level) in shape.keys(ring.set()) {
            key.purposes(ring.set()).into_iter().for_each(|purpose| self.want(KeyShape { purpose, level }));
        }
        Ok(())
    }

    /// Adds a key. If a key for this purpose is planned, the higher level counts.
    pub fn want(&mut self, KeyShape { purpose, level }: KeyShape) {
        let highest = self.levels.entry(purpose).or_default();
        *highest = level.max(*highest);
    }

    /// The planned keys.
    pub fn shapes(&self) -> impl ExactSizeIterator<Item = KeyShape> {
        self.levels.iter().map(|(purpose, level)| KeyShape { purpose: *purpose, level: *level })
    }
}

/// One key of a client with its purpose.
pub struct KeyPart {
    /// Purpose of the key.
    pub purpose: Purpose,
    /// The key.
    pub key: SeededSwitchKey,
}

impl KeyPart {
    /// Purpose and level of the key.
    pub fn shape(&self) -> KeyShape {
        KeyShape { purpose: self.purpose, level: self.key.basis.level }
    }
}

impl SeededBootstrapKeys {
    /// Splits the keys into parts.
    pub fn into_parts(self) -> impl Iterator<Item = KeyPart> {
        let Self { to_sparse, to_dense, relinearization, moves } = self;
        let moves = moves.into_iter().map(|(power, key)| (Purpose::Move { power }, key));
        let others =
            [(Purpose::Relinearization, relinearization), (Purpose::ToSparse, to_sparse), (Purpose::ToDense, to_dense)];
        others.into_iter().chain(moves).map(|(purpose, key)| KeyPart { purpose, key })
    }

    /// Joins the keys from their parts. Each key must occur exactly once. Which rotations and
    /// conjugations a bootstrap needs is not checked here.
    pub fn of_parts(parts: impl IntoIterator<Item = KeyPart>) -> Result<Self, CkksError> {
        let (mut relinearization, mut to_sparse, mut to_dense) = (None, None, None);
        let mut moves: Vec<(usize, SeededSwitchKey)> = Vec::new();
        for KeyPart { purpose, key } in parts {
            let is_double = match purpose {
                Purpose::Relinearization => relinearization.replace(key).is_some(),
                Purpose::ToSparse => to_sparse.replace(key).is_some(),
                Purpose::ToDense => to_dense.replace(key).is_some(),
                Purpose::Move { power } => {
                    let is_double = moves.iter().any(|(other, _)| *other == power);
                    moves.push((power, key));
                    is_double
                }
            };
            if is_double {
                return Err(CkksError::DoubleKey { what: purpose.to_string() });
            }
        }
        Ok(Self {
            to_sparse: present(to_sparse, Purpose::ToSparse)?,
            to_dense: present(to_dense, Purpose::ToDense)?,
            relinearization: present(relinearization, Purpose::Relinearization)?,
            moves,
        })
    }
}

fn present(key: Option<SeededSwitchKey>, purpose: Purpose) -> Result<SeededSwitchKey, CkksError> {
    key.ok_or_else(|| CkksError::MissingKey { what: purpose.to_string() })
}
