//! Lists that describe a part of a wave. The host checks them before it copies them to the GPU,
//! because kernels do not check indices.

use std::sync::Arc;

use cloakwork_device::{NO_TABLE, Wave};
use cloakwork_params::ParameterSet;

use super::{Buffer, DriverError, View};

/// A lookup table on each GPU.
pub struct Table {
    /// The parameter set that the table is for.
    pub set: &'static ParameterSet,
    /// The body polynomial, by GPU.
    pub words: Vec<Buffer>,
    /// Coefficients that hold the table's results.
    pub outputs: Vec<usize>,
}

/// Lanes of a wave in the form that kernels read. Either all of them have a table or none has.
#[derive(Default)]
pub struct Work {
    /// By lane: the end of its terms in `slots` and `factors`.
    terms_end: Vec<u32>,
    /// By term: its slot and its factor.
    slots: Vec<u32>,
    factors: Vec<i64>,
    /// By lane: the constant of its sum, and the index of its table.
    constants: Vec<u64>,
    table_of: Vec<u32>,
    /// By output: the lane and coefficient that it is extracted from, and its slot.
    sources: Vec<u32>,
    coefficients: Vec<u32>,
    homes: Vec<u32>,
}

/// The lists of a [`Work`] on the GPU.
pub struct Lists<'b> {
    pub(super) lanes: usize,
    pub(super) outputs: usize,
    pub(super) terms_end: View<'b, u32>,
    pub(super) slots: View<'b, u32>,
    pub(super) factors: View<'b, i64>,
    pub(super) constants: View<'b, u64>,
    pub(super) table_of: View<'b, u32>,
    /// Addresses of the tables.
    pub(super) tables: View<'b, u64>,
    pub(super) sources: View<'b, u32>,
    pub(super) coefficients: View<'b, u32>,
    pub(super) homes: View<'b, u32>,
    /// 0, 1, 2 ... for results that go to consecutive rows before their slots.
    pub(super) rows: View<'b, u32>,
    /// Exclusive upper bound of the slots that terms or outputs name.
    pub(super) slots_end: usize,
    /// Bytes of the shortest table.
    pub(super) table_bytes: usize,
    /// Exclusive upper bound of the coefficients.
    pub(super) coefficients_end: usize,
}

/// Takes memory of a GPU for bytes, and has the bytes copied there.
type Put<'p, 'b> = dyn FnMut(&[u8]) -> Result<View<'b, u8>, DriverError> + 'p;

impl Lists<'_> {
    /// Number of results of all lanes.
    pub fn outputs(&self) -> usize {
        self.outputs
    }
}

impl Work {
    /// Collects the lists of the lanes with these numbers.
    pub fn of(wave: &Wave, lanes: &[u32], tables: &[Arc<Table>]) -> Self {
        let mut work = Self::default();
        for (source, &lane) in lanes.iter().enumerate() {
            let lane = lane as usize;
            for term in wave.terms(lane) {
                work.slots.push(term.slot);
                work.factors.push(term.factor);
            }
            work.terms_end.push(work.slots.len() as u32);
            let numbers = wave.lanes()[lane];
            work.constants.push(numbers.constant);
            work.homes.extend_from_slice(wave.outputs(lane));
            if numbers.table != NO_TABLE {
                work.table_of.push(numbers.table);
                let outputs = &tables[numbers.table as usize].outputs;
                work.sources.extend(outputs.iter().map(|_| source as u32));
                work.coefficients.extend(outputs.iter().map(|coefficient| *coefficient as u32));
            }
        }
        work
    }

    /// Bytes of the lists of one lane with `terms` terms and `outputs` outputs, without the
    /// addresses of tables and without alignment.
    pub fn bytes_of(terms: usize, outputs: usize) -> usize {
        terms * (size_of::<u32>() + size_of::<i64>()) + (2 + 4 * outputs) * size_of::<u32>() + size_of::<u64>()
    }

    /// Copies all lists to the GPU of number `gpu`. `put` takes memory for the bytes, aligned for
    /// any item, and has them copied there before the next kernel runs.
    pub fn upload<'b>(
        &self,
        gpu: usize,
        tables: &[Arc<Table>],
        put: &mut Put<'_, 'b>,
    ) -> Result<Lists<'b>, DriverError> {
        let words: Option<Vec<&Buffer>> = tables.iter().map(|table| table.words.get(gpu)).collect();
        let words = words.ok_or(DriverError::Misfit("a table for each GPU"))?;
        let addresses: Vec<u64> = words.iter().map(|words| words.address()).collect();
        let rows: Vec<u32> = (0..self.homes.len() as u32).collect();
        let mut staged = Staged::default();
        let [terms_end, slots, table_of, sources, coefficients, homes, rows] =
            [&self.terms_end, &self.slots, &self.table_of, &self.sources, &self.coefficients, &self.homes, &rows]
                .map(|list| staged.put(list));
        let (factors, constants, addresses) =
            (staged.put(&self.factors), staged.put(&self.constants), staged.put(&addresses));
        let bytes = put(&staged.0)?;
        let end = |list: &[u32]| list.iter().max().map_or(0, |last| *last as usize + 1);
        Ok(Lists {
            lanes: self.terms_end.len(),
            outputs: self.homes.len(),
            terms_end: terms_end.within(bytes)?,
            slots: slots.within(bytes)?,
            factors: factors.within(bytes)?,
            constants: constants.within(bytes)?,
            table_of: table_of.within(bytes)?,
            tables: addresses.within(bytes)?,
            sources: sources.within(bytes)?,
            coefficients: coefficients.within(bytes)?,
            homes: homes.within(bytes)?,
            rows: rows.within(bytes)?,
            slots_end: end(&self.slots).max(end(&self.homes)),
            table_bytes: words.iter().map(|words| words.bytes()).min().unwrap_or(usize::MAX),
            coefficients_end: end(&self.coefficients),
        })
    }
}

/// Lists in one run of bytes, so that one copy moves them all.
#[derive(Default)]
struct Staged(Vec<u8>);

/// Position of a list within the bytes.
struct Place<T> {
    first_byte: usize,
    len: usize,
    items: std::marker::PhantomData<T>,
}

impl Staged {
    fn put<T: bytemuck::Pod>(&mut self, items: &[T]) -> Place<T> {
        self.0.resize(self.0.len().next_multiple_of(align_of::<u64>()), 0);
        let first_byte = self.0.len();
        self.0.extend_from_slice(bytemuck::cast_slice(items));
        Place { first_byte, len: items.len(), items: std::marker::PhantomData }
    }
}

impl<T: bytemuck::Pod> Place<T> {
    fn within<'b>(&self, bytes: View<'b, u8>) -> Result<View<'b, T>, DriverError> {
        bytes.part(self.first_byte, self.len * size_of::<T>())?.cast()
    }
}
