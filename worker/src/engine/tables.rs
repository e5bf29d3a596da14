//! Lookup tables on the device, each loaded as long as a job needs it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
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

/// The tables of a group. The limits of the jobs' programs bound their number.
#[derive(Default)]
pub(super) struct Tables {
    known: HashMap<Functions, Weak<Table>>,
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
        self.known.retain(|_, table| table.strong_count() > 0);
        let mut get = |functions: &Functions| {
            if let Some(table) = self.known.get(functions).and_then(Weak::upgrade) {
                return Ok(table);
            }
            let table = Arc::new(Table { slot: load(device.as_ref(), set, functions)?, device: device.clone() });
            self.known.insert(functions.clone(), Arc::downgrade(&table));
            Ok(table)
        };
        tables.iter().map(&mut get).collect()
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
