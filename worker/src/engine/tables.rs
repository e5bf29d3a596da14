//! Lookup tables on the device. A table stays loaded while a job uses it. The tables of the group's
//! last job stay longer: the next job to begin drops those that it does not use.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use cloakwork_circuit::Table as Functions;
use cloakwork_device::{Device, DeviceError, HostLut, LutSlot};
use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tfhe::{Lut, LutError};

/// A loaded table. The device evicts the table when the last reference is dropped.
pub(super) struct Table {
    pub(super) slot: LutSlot,
    device: Arc<dyn Device>,
}

impl Drop for Table {
    fn drop(&mut self) {
        self.device.evict_lut(self.slot);
    }
}

/// The tables of a group. The limits of the programs of its jobs bound their number, or of its last
/// job while there are none.
#[derive(Default)]
pub(super) struct Tables {
    known: HashMap<Functions, Arc<Table>>,
}

/// Why a table cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum TableError {
    #[error(transparent)]
    Lut(#[from] LutError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// 1/8 of the torus, in units of 2^-64: the encoding of the boolean true.
const EIGHTH: u64 = 1 << 61;

impl Tables {
    /// The tables of a graph, in its order.
    pub(super) fn get(
        &mut self,
        device: &Arc<dyn Device>,
        set: &'static ParameterSet,
        tables: &[Functions],
    ) -> Result<Vec<Arc<Table>>, TableError> {
        // Dropped tables make room before others are loaded.
        let wanted: HashSet<&Functions> = tables.iter().collect();
        self.known.retain(|functions, table| Arc::strong_count(table) > 1 || wanted.contains(functions));
        let mut get = |functions: &Functions| {
            if let Some(table) = self.known.get(functions) {
                return Ok(table.clone());
            }
            let table = Arc::new(Table { slot: load(device.as_ref(), set, functions)?, device: device.clone() });
            self.known.insert(functions.clone(), table.clone());
            Ok(table)
        };
        tables.iter().map(&mut get).collect()
    }

    /// Drops the tables that no job uses.
    pub(super) fn drop_unused(&mut self) {
        self.known.retain(|_, table| Arc::strong_count(table) > 1);
    }
}

fn load(device: &dyn Device, set: &'static ParameterSet, table: &Functions) -> Result<LutSlot, TableError> {
    Ok(match (table, set.torus) {
        (Functions::Sign, TorusWidth::U32) => {
            device.load_lut(set, HostLut::U32(&Lut::sign(set.polynomial_size, (EIGHTH >> 32) as u32)))?
        }
        (Functions::Sign, TorusWidth::U64) => {
            device.load_lut(set, HostLut::U64(&Lut::sign(set.polynomial_size, EIGHTH)))?
        }
        (Functions::Functions(functions), _) => {
            device.load_lut(set, HostLut::U64(&Lut::from_halves(set, functions)?))?
        }
    })
}
