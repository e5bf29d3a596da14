//! Launches of blind rotations: the choice of a kernel by shape and number of ciphertexts, and its
//! launch.

use bytemuck::Pod;
use cloakwork_math::Torus;

use super::{Complex, Launcher, RotationShape, check};
use crate::gpu::{Address, Description, DriverError, Lists, View};

/// An optimized kernel for one shape that keeps the upper half of each word.
struct Short {
    name: &'static str,
    /// Ciphertexts of a block.
    lanes: usize,
    /// Threads of a block.
    threads: u32,
    /// Shared memory of a block: the size of its structure in the kernel's file.
    shared_bytes: u32,
}

// The kernels' files assert these sizes of the structures.
const _: () = assert!(THROUGHPUT_2048.shared_bytes == 217_088 && FEW_2048.shared_bytes == 66_560);
const _: () = assert!(THROUGHPUT_512.shared_bytes == 101_312 && CLUSTER_SHARED_BYTES == 153_360);

/// rotation_2048.cu: squares and accumulators of each ciphertext, and factors.
const THROUGHPUT_2048: Short = Short {
    name: "blind_rotate_2048_64",
    lanes: 4,
    threads: 4 * 64,
    shared_bytes: 4 * 2 * (32 * 33 * 16 + 2048 * 4) + 2 * 16 * 32 * 16,
};

/// rotation_2048_few.cu: a square and accumulator for each polynomial of one ciphertext, and
/// factors.
const FEW_2048: Short = Short {
    name: "blind_rotate_2048_few_64",
    lanes: 1,
    threads: 128,
    shared_bytes: 2 * (32 * 33 * 16 + 2048 * 4) + 2 * 16 * 32 * 16,
};

/// rotation_512.cu: squares and accumulators of each ciphertext, factors, and the columns' last
/// factors.
const THROUGHPUT_512: Short = Short {
    name: "blind_rotate_512_64",
    lanes: 3,
    threads: 256,
    shared_bytes: 3 * 5 * (16 * 17 * 16 + (512 + 16) * 4) + 2 * 8 * 16 * 16 + 16 * 16,
};

/// Maximum number of ciphertexts for each multiprocessor that count as few. This many blocks of one
/// ciphertext run together on a multiprocessor.
const FEW_PER_MULTIPROCESSOR: usize = 2;

impl Short {
    /// The kernel for `lanes` ciphertexts of a shape, if one exists. On a GPU whose blocks lack the
    /// shared memory for the throughput kernel, any number of ciphertexts counts as few.
    fn of(shape: RotationShape, bits: u32, lanes: usize, gpu: &Description) -> Option<&'static Self> {
        let is_few = lanes <= FEW_PER_MULTIPROCESSOR * gpu.multiprocessors as usize
            || gpu.shared_bytes < THROUGHPUT_2048.shared_bytes;
        match shape.polynomial_size {
            _ if !shape.is_short(bits) => None,
            2048 if is_few => Some(&FEW_2048),
            2048 => Some(&THROUGHPUT_2048),
            _ => Some(&THROUGHPUT_512),
        }
    }
}

/// Shared memory of a block for this shape's kernel with the smallest need. The key's transform
/// needs no more.
pub(super) fn least_shared_bytes(shape: RotationShape, bits: u32) -> u32 {
    match shape.polynomial_size {
        _ if !shape.is_short(bits) => shape.shared_bytes(),
        2048 => FEW_2048.shared_bytes,
        _ => THROUGHPUT_512.shared_bytes,
    }
}

/// Constants of rotation_2048_cluster.cu: BLOCKS of a cluster and THREADS of a block.
const CLUSTER_BLOCKS: usize = 8;
const CLUSTER_THREADS: u32 = 256;
/// Shared memory of a block of a cluster: values of a step's key, received values, products,
/// rotations, the roots of the circle, and the counts of received bytes.
const CLUSTER_SHARED_BYTES: u32 = (32 * 256 + 2 * 8 * 33 + 2 * 256) * 16 + 2 * 8 * 16 * (16 + 4) + 32 * 16 + 2 * 8;

/// Whether the cluster kernel serves this shape, with words of `bits` and inputs of `input_bits`
/// bits.
fn has_cluster_kernel(shape: RotationShape, bits: u32, input_bits: u32, gpu: &Description) -> bool {
    let sizes = (shape.polynomial_size, shape.glwe_dimension, shape.gadget.levels);
    let is_made = sizes == (2048, 1, 1) && (2..=4).contains(&shape.grouping) && (bits, input_bits) == (64, 64);
    is_made && gpu.has_clusters && gpu.shared_bytes >= CLUSTER_SHARED_BYTES
}

impl Launcher<'_> {
    /// Rotates tables by exponents.
    pub fn blind_rotate<T: Torus + Pod>(
        &self,
        exponents: View<'_, u32>,
        lists: &Lists<'_>,
        key: BootstrapKeyViews<'_>,
        shape: RotationShape,
        outputs: RotationViews<'_, T>,
    ) -> Result<(), DriverError> {
        check(shape.grouping == 1, "one secret bit a step")?;
        check(exponents.len() == lists.lanes * shape.input_words(), "exponents for each lane")?;
        self.check_rotation(lists, key, shape, outputs)?;
        if let Some(kernel) = Short::of(shape, T::BITS, lists.lanes, self.driver.describe()) {
            let own = [lists.lanes as u64, shape.steps as u64, u64::from(shape.gadget.base_log)];
            let arguments = [&read_and_written(exponents.address(), lists, key, outputs)[..], &own[..]].concat();
            let blocks = lists.lanes.div_ceil(kernel.lanes);
            // SAFETY: every lane has its exponents, table and ciphertext, and every step its key. A
            // block has shared memory of the size of its structure. A block with fewer lanes than
            // it has room for writes no other lanes.
            return unsafe { self.launch(kernel.name, (blocks, 1), kernel.threads, kernel.shared_bytes, &arguments) };
        }
        let own = [
            outputs.scratch.address(),
            shape.steps as u64,
            shape.glwe_dimension as u64,
            u64::from(shape.size_log2()),
            u64::from(shape.gadget.base_log),
            shape.gadget.levels as u64,
        ];
        let arguments = [&read_and_written(exponents.address(), lists, key, outputs)[..], &own[..]].concat();
        let kernel = format!("blind_rotate_{}", T::BITS);
        // SAFETY: every lane has its exponents, table, ciphertext and scratch, and every step its
        // key, as checked. Kernels take exponents modulo 2N.
        unsafe { self.launch(&kernel, (lists.lanes, 1), shape.threads(), shape.shared_bytes(), &arguments) }
    }

    /// Rotates tables by ciphertexts, with several secret bits a step.
    pub fn blind_rotate_groups<T: Torus + Pod, S: Torus + Pod>(
        &self,
        inputs: View<'_, S>,
        lists: &Lists<'_>,
        key: BootstrapKeyViews<'_>,
        shape: RotationShape,
        outputs: RotationViews<'_, T>,
    ) -> Result<(), DriverError> {
        check((2..=4).contains(&shape.grouping), "a few secret bits a step")?;
        check(inputs.len() == lists.lanes * shape.input_words(), "a ciphertext for each lane")?;
        self.check_rotation(lists, key, shape, outputs)?;
        if has_cluster_kernel(shape, T::BITS, S::BITS, self.driver.describe()) {
            let own = [shape.steps as u64, shape.grouping as u64, u64::from(shape.gadget.base_log)];
            let arguments = [&read_and_written(inputs.address(), lists, key, outputs)[..], &own[..]].concat();
            let (blocks, kernel) = (lists.lanes * CLUSTER_BLOCKS, "blind_rotate_groups_2048_64");
            // SAFETY: every lane has its ciphertext, table and result, and a cluster of blocks.
            // Every step has its key, and a block has shared memory of the size of its structure.
            return unsafe { self.launch(kernel, (blocks, 1), CLUSTER_THREADS, CLUSTER_SHARED_BYTES, &arguments) };
        }
        let own = [
            outputs.scratch.address(),
            shape.steps as u64,
            shape.grouping as u64,
            shape.glwe_dimension as u64,
            u64::from(shape.size_log2()),
            u64::from(shape.gadget.base_log),
            shape.gadget.levels as u64,
        ];
        let arguments = [&read_and_written(inputs.address(), lists, key, outputs)[..], &own[..]].concat();
        let kernel = format!("blind_rotate_groups_{}_{}", T::BITS, S::BITS);
        // SAFETY: every lane has its ciphertext, table, result and scratch, and every step its key,
        // as checked.
        unsafe { self.launch(&kernel, (lists.lanes, 1), shape.threads(), shape.shared_bytes(), &arguments) }
    }

    fn check_rotation<T: Torus + Pod>(
        &self,
        lists: &Lists<'_>,
        key: BootstrapKeyViews<'_>,
        shape: RotationShape,
        outputs: RotationViews<'_, T>,
    ) -> Result<(), DriverError> {
        let (size, gadget) = (shape.polynomial_size, shape.gadget);
        check(shape.is_possible() && shape.steps > 0, "a shape that kernels are made for")?;
        check(gadget.base_log > 0 && gadget.base_log * (gadget.levels as u32) < T::BITS, "digits that a word has")?;
        check(lists.table_of.len() == lists.lanes, "a table for each lane")?;
        check(lists.table_bytes == size * size_of::<T>(), "tables of as many words as a polynomial")?;
        check(key.spectra.len() == shape.key_polynomials() * size / 2, "a key for each step")?;
        check(key.roots.len() == 4 * size, "roots for the polynomials' size")?;
        check(outputs.glwes.len() == lists.lanes * shape.glwe_words(), "a ciphertext for each lane")?;
        check(outputs.scratch.len() == lists.lanes * shape.scratch_len(), "scratch for each lane")
    }
}

/// First arguments of every kernel: the addresses that it reads, and that of its results.
fn read_and_written<T: Torus + Pod>(
    rotates_by: Address,
    lists: &Lists<'_>,
    key: BootstrapKeyViews<'_>,
    outputs: RotationViews<'_, T>,
) -> [u64; 6] {
    let (tables, table_of) = (lists.tables.address(), lists.table_of.address());
    [rotates_by, tables, table_of, key.spectra.address(), key.roots.address(), outputs.glwes.address()]
}

/// A bootstrap key, and the roots with which its polynomials were transformed.
#[derive(Clone, Copy)]
pub struct BootstrapKeyViews<'b> {
    /// The transformed polynomials of the key.
    pub spectra: View<'b, Complex>,
    /// The roots.
    pub roots: View<'b, Complex>,
}

/// Memory that a blind rotation writes.
pub struct RotationViews<'b, T> {
    /// A ciphertext for each lane.
    pub glwes: View<'b, T>,
    /// Scratch memory for the sums of the lanes.
    pub scratch: View<'b, Complex>,
}

impl<T> Clone for RotationViews<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RotationViews<'_, T> {}
