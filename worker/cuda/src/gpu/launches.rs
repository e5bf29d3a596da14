//! Kernels as functions. Each function checks that its arguments fit together, so that no kernel
//! accesses memory outside its views.

mod key_switch;
mod keys;
mod rotations;

use std::ffi::c_void;

use bytemuck::Pod;
use cloakwork_math::Torus;
use cloakwork_params::Decomposition;

use super::{Description, Driver, DriverError, Lists, Stream, View};

pub use key_switch::{KeySwitchShape, Line};
pub use keys::SeededRows;
pub use rotations::{BootstrapKeyViews, RotationViews};

/// A complex number, as kernels store it: real part, imaginary part.
pub type Complex = [f64; 2];

/// Threads of a block of the exact kernels: THREADS in exact.cu.
const THREADS: u32 = 128;

/// Shape of a blind rotation: the ciphertext that it rotates, and its steps.
#[derive(Clone, Copy, Debug)]
pub struct RotationShape {
    /// Steps.
    pub steps: usize,
    /// Secret bits a step.
    pub grouping: usize,
    /// Polynomials of a mask.
    pub glwe_dimension: usize,
    /// Coefficients of a polynomial.
    pub polynomial_size: usize,
    /// Decomposition of words into digits.
    pub gadget: Decomposition,
}

impl RotationShape {
    /// Words of a GLWE ciphertext.
    pub fn glwe_words(&self) -> usize {
        (self.glwe_dimension + 1) * self.polynomial_size
    }

    /// Words of a small ciphertext.
    pub fn input_words(&self) -> usize {
        self.steps * self.grouping + 1
    }

    /// Complex numbers of scratch memory for a ciphertext.
    pub fn scratch_len(&self) -> usize {
        self.glwe_words() / 2
    }

    /// Polynomials of the key.
    pub fn key_polynomials(&self) -> usize {
        let selectors = if self.grouping == 1 { 1 } else { 1 << self.grouping };
        let columns = self.glwe_dimension + 1;
        self.steps * selectors * self.gadget.levels * columns * columns
    }

    /// Whether kernels exist for this shape. A block holds one transform in shared memory.
    pub fn is_possible(&self) -> bool {
        self.polynomial_size.is_power_of_two() && (4..=14).contains(&self.size_log2()) && self.grouping <= 4
    }

    /// Whether a GPU's blocks have enough shared memory for the kernels of this shape and of words
    /// of `bits` bits.
    pub fn fits(&self, bits: u32, gpu: &Description) -> bool {
        rotations::least_shared_bytes(*self, bits) <= gpu.shared_bytes
    }

    /// Whether optimized kernels exist for this shape and words of `bits` bits. These kernels use
    /// their own order of a key.
    pub fn is_fast(&self, bits: u32) -> bool {
        self.is_short(bits) && (self.polynomial_size, self.glwe_dimension) == (2048, 1)
    }

    /// Whether the kernels for this shape and words of `bits` bits keep only the upper half of each
    /// word.
    pub fn is_short(&self, bits: u32) -> bool {
        let Decomposition { base_log, levels } = self.gadget;
        let has_kernel = matches!((self.polynomial_size, self.glwe_dimension), (2048, 1) | (512, 4));
        has_kernel && (bits, levels, self.grouping) == (64, 1, 1) && base_log <= SHORT_BASE_LOG_MAX
    }

    fn size_log2(&self) -> u32 {
        self.polynomial_size.trailing_zeros()
    }

    /// Threads of a block: each processes a few of the transform's values at a time.
    fn threads(&self) -> u32 {
        (self.polynomial_size as u32 / 8).clamp(32, 256)
    }

    /// Shared memory of a block, which holds a whole transform.
    fn shared_bytes(&self) -> u32 {
        (self.polynomial_size / 2 * size_of::<Complex>()) as u32
    }
}

/// Maximum number of blocks of a launch in each direction, on every GPU.
const GRID_MAX: (usize, usize) = (i32::MAX as usize, u16::MAX as usize);

/// Maximum log2 of the base for kernels that keep upper halves. Products of longer digits and a
/// key's words exceed the precision of a double.
const SHORT_BASE_LOG_MAX: u32 = 23;

/// Launches on one stream.
#[derive(Clone, Copy)]
pub struct Launcher<'d> {
    /// The GPU.
    pub driver: &'d dyn Driver,
    /// The stream.
    pub stream: Stream,
}

fn check(holds: bool, what: &'static str) -> Result<(), DriverError> {
    if holds { Ok(()) } else { Err(DriverError::Misfit(what)) }
}

impl Launcher<'_> {
    /// Sums of slots, one sum for each lane.
    pub fn linear_combination<T: Torus + Pod>(
        &self,
        arena: View<'_, T>,
        lists: &Lists<'_>,
        sums: View<'_, T>,
        dimension: usize,
    ) -> Result<(), DriverError> {
        check(sums.len() == lanes_of(lists, dimension), "a sum for each lane")?;
        check(lists.slots_end * (dimension + 1) <= arena.len(), "slots of the arena")?;
        let arguments = [
            arena.address(),
            lists.terms_end.address(),
            lists.slots.address(),
            lists.factors.address(),
            lists.constants.address(),
            sums.address(),
            dimension as u64,
        ];
        // SAFETY: every lane's terms and sum and every term's slot lie within their views, as
        // checked.
        unsafe { self.launch(&format!("linear_combination_{}", T::BITS), (lists.lanes, 1), THREADS, 0, &arguments) }
    }

    /// Exponents below 2N, for all words of the ciphertexts.
    pub fn modulus_switch<T: Torus + Pod>(
        &self,
        inputs: View<'_, T>,
        dimension: usize,
        log2: u32,
        centred: bool,
        exponents: View<'_, u32>,
    ) -> Result<(), DriverError> {
        let lanes = inputs.len() / (dimension + 1);
        check(inputs.len() == lanes * (dimension + 1) && inputs.len() == exponents.len(), "an exponent for each word")?;
        check((1..T::BITS.min(32)).contains(&log2), "exponents shorter than a word")?;
        let arguments = [inputs.address(), exponents.address(), dimension as u64, u64::from(log2), u64::from(centred)];
        // SAFETY: both views hold `lanes` rows of `dimension + 1` words, as checked.
        unsafe { self.launch(&format!("modulus_switch_{}", T::BITS), (lanes, 1), THREADS, 0, &arguments) }
    }

    /// Polynomials of a bootstrap key, in the form that blind rotations read.
    pub fn transform_key<T: Torus + Pod>(
        &self,
        polynomials: View<'_, T>,
        roots: View<'_, Complex>,
        shape: RotationShape,
        spectra: View<'_, Complex>,
    ) -> Result<(), DriverError> {
        let (size, count) = (shape.polynomial_size, polynomials.len() / shape.polynomial_size);
        check(shape.is_possible() && roots.len() == 4 * size, "roots for the polynomials' size")?;
        check(polynomials.len() == count * size && spectra.len() == count * size / 2, "whole polynomials")?;
        if shape.is_fast(T::BITS) {
            check(count.is_multiple_of(4), "whole steps")?;
            let arguments = [polynomials.address(), spectra.address(), roots.address()];
            let (threads, shared_bytes) = (shape.threads(), 2 * shape.shared_bytes());
            // SAFETY: the views hold `count` polynomials of 2048 words, as many spectra, and the
            // roots of that size.
            return unsafe { self.launch("transform_key_2048_64", (count, 1), threads, shared_bytes, &arguments) };
        }
        let arguments = [polynomials.address(), spectra.address(), roots.address(), u64::from(shape.size_log2())];
        let kernel = format!("transform_key_{}", T::BITS);
        // SAFETY: the views hold `count` polynomials, as many spectra, and the roots of that size,
        // as checked.
        unsafe { self.launch(&kernel, (count, 1), shape.threads(), shape.shared_bytes(), &arguments) }
    }

    /// Extracts the results of rotated tables, each into a slot of the arena, or into consecutive
    /// rows.
    pub fn sample_extract<T: Torus + Pod>(
        &self,
        glwes: View<'_, T>,
        lists: &Lists<'_>,
        shape: RotationShape,
        into: Places<'_, T>,
    ) -> Result<(), DriverError> {
        let dimension = shape.glwe_dimension * shape.polynomial_size;
        check(glwes.len() == lists.lanes * shape.glwe_words(), "a ciphertext for each lane")?;
        check(lists.sources.len() == lists.outputs, "a source for each output")?;
        check(lists.coefficients_end <= shape.polynomial_size, "coefficients of a polynomial")?;
        let (places, words, rows) = match into {
            Places::Slots(arena) => (lists.homes, arena, lists.slots_end),
            Places::Rows(rows) => (lists.rows, rows, lists.outputs),
        };
        check(rows * (dimension + 1) <= words.len(), "a place for each output")?;
        let arguments = [
            glwes.address(),
            lists.sources.address(),
            lists.coefficients.address(),
            places.address(),
            words.address(),
            shape.glwe_dimension as u64,
            shape.polynomial_size as u64,
        ];
        let kernel = format!("sample_extract_{}", T::BITS);
        // SAFETY: every output's ciphertext, coefficient and place lie within their views, as
        // checked.
        unsafe { self.launch(&kernel, (lists.outputs, 1), THREADS, 0, &arguments) }
    }

    /// Copies rows of `words` words, one for each output, into the slots of these outputs.
    pub fn store_rows<T: Torus + Pod>(
        &self,
        rows: View<'_, T>,
        lists: &Lists<'_>,
        words: usize,
        arena: View<'_, T>,
    ) -> Result<(), DriverError> {
        check(rows.len() == lists.outputs * words, "a row for each output")?;
        check(lists.slots_end * words <= arena.len(), "slots of the arena")?;
        let arguments = [rows.address(), lists.homes.address(), arena.address(), words as u64];
        // SAFETY: every output's row and slot lie within their views, as checked.
        unsafe { self.launch(&format!("store_rows_{}", T::BITS), (lists.outputs, 1), THREADS, 0, &arguments) }
    }

    /// Launches a kernel, unless the grid is empty.
    ///
    /// # Safety
    /// The kernel takes as many arguments, each an address or a number of at most 64 bits. The
    /// kernel only accesses the memory at these addresses.
    unsafe fn launch(
        &self,
        kernel: &str,
        grid: (usize, usize),
        threads: u32,
        shared_bytes: u32,
        arguments: &[u64],
    ) -> Result<(), DriverError> {
        if grid.0 == 0 || grid.1 == 0 {
            return Ok(());
        }
        check(grid.0 <= GRID_MAX.0 && grid.1 <= GRID_MAX.1, "as many blocks as a launch may have")?;
        check(shared_bytes <= self.driver.describe().shared_bytes, "as many bytes as a block may share")?;
        // Kernels read numbers of 32 bits from the lower half of a value.
        const { assert!(cfg!(target_endian = "little")) };
        let mut values = arguments.to_vec();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let grid = (grid.0 as u32, grid.1 as u32);
        // SAFETY: the caller guarantees the arguments, and every pointer is to one of `values`.
        unsafe { self.driver.launch(self.stream, kernel, grid, threads, shared_bytes, &mut pointers) }
    }
}

/// Destination of results.
pub enum Places<'b, T> {
    /// The slots of the outputs.
    Slots(View<'b, T>),
    /// Consecutive rows.
    Rows(View<'b, T>),
}

/// Number of words in one ciphertext for each lane.
fn lanes_of(lists: &Lists<'_>, dimension: usize) -> usize {
    lists.lanes * (dimension + 1)
}
