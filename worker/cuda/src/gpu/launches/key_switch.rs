//! Launches of the key switch: a product of bytes.

use bytemuck::Pod;
use cloakwork_math::Torus;
use cloakwork_params::Decomposition;

use super::{Launcher, THREADS, check};
use crate::gpu::{DriverError, View};

/// Sixteen bytes of a key or of digits, as threads read them.
pub type Line = [u32; 4];

/// Columns of a tile: TILE in key_switch.cu.
const TILE: usize = 8;
/// Threads of a block that splits words into bytes: one for every four words of a tile's columns
/// times a step's rows.
const SPLIT_THREADS: u32 = 128;
/// Threads of a block that multiplies: THREADS in key_switch.cu.
const PRODUCT_THREADS: u32 = 256;
/// Maximum bits of a digit. Digits then lie from -64 to 64, and so fit a signed byte.
const BASE_LOG_MAX: u32 = 7;

/// A division of a product among blocks: `Arrangement` in key_switch.cu.
struct Arrangement {
    kernel: &'static str,
    /// Maximum number of ciphertexts for which the arrangement is used.
    lanes_max: usize,
    /// Ciphertexts and tiles of a block.
    lanes: usize,
    tiles: usize,
}

/// The launch uses the first arrangement whose `lanes_max` suffices. The boundary follows from a
/// count of the bytes of the key that each arrangement reads from the second-level cache. The
/// boundary is not measured.
const ARRANGEMENTS: [Arrangement; 2] = [
    Arrangement { kernel: "multiply_narrow", lanes_max: 64, lanes: 16, tiles: 1 },
    Arrangement { kernel: "multiply_wide", lanes_max: usize::MAX, lanes: 128, tiles: 4 },
];

/// Shape of a key switch: the decomposition of words and the rounding of bodies.
#[derive(Clone, Copy, Debug)]
pub struct KeySwitchShape {
    /// Dimension of the input key.
    pub input_dimension: usize,
    /// Dimension of the output key.
    pub output_dimension: usize,
    /// Decomposition of words into digits.
    pub gadget: Decomposition,
    /// log2 of the output modulus.
    pub modulus_log2: u32,
}

impl KeySwitchShape {
    /// Rows of a key that one step multiplies: STEP in key_switch.cu.
    pub const STEP: usize = 64;

    /// Whether kernels exist for this shape. Digits must fit bytes, and sums of their products with
    /// a key's bytes 32 bits.
    pub fn is_possible(&self) -> bool {
        let Decomposition { base_log, .. } = self.gadget;
        let fits = |digit_max: usize| digit_max * usize::from(u8::MAX) * self.rows() <= i32::MAX as usize;
        (1..=BASE_LOG_MAX).contains(&base_log) && fits(1 << (base_log - 1))
    }

    /// Rows of the key, one for each word and level.
    pub fn rows(&self) -> usize {
        self.input_dimension * self.gadget.levels
    }

    /// Words of a row.
    pub fn columns(&self) -> usize {
        self.output_dimension + 1
    }

    /// Lines of a key whose words have `bits` bits.
    pub fn key_lines(&self, bits: u32) -> usize {
        self.steps() * self.tiles() * Self::STEP * TILE * (bits as usize / 8) / size_of::<Line>()
    }

    /// Lines of the digits of a ciphertext.
    pub fn digit_lines(&self) -> usize {
        self.steps() * Self::STEP / size_of::<Line>()
    }

    fn steps(&self) -> usize {
        self.rows().div_ceil(Self::STEP)
    }

    fn tiles(&self) -> usize {
        self.columns().div_ceil(TILE)
    }

    fn check_key<S: Torus>(&self, key: View<'_, Line>) -> Result<(), DriverError> {
        check(self.is_possible(), "digits that are bytes")?;
        check(key.len() == self.key_lines(S::BITS), "a row for each word and level")
    }
}

impl Launcher<'_> {
    /// Rearranges rows of a key-switch key for products, from row `first` on, which begins a step.
    /// Only the key's last rows may end within a step.
    pub fn split_key<S: Torus + Pod>(
        &self,
        rows: View<'_, S>,
        first: usize,
        shape: KeySwitchShape,
        key: View<'_, Line>,
    ) -> Result<(), DriverError> {
        const STEP: usize = KeySwitchShape::STEP;
        let (columns, count) = (shape.columns(), rows.len() / shape.columns());
        check(rows.len() == count * columns && first.is_multiple_of(STEP), "whole rows from a step's first one on")?;
        let end = first + count;
        check(end == shape.rows() || (end < shape.rows() && count.is_multiple_of(STEP)), "whole steps of the key")?;
        shape.check_key::<S>(key)?;
        let arguments =
            [rows.address(), key.address(), count as u64, columns as u64, (first / STEP) as u64, shape.steps() as u64];
        let (kernel, grid) = (format!("split_key_{}", S::BITS), (count.div_ceil(STEP), shape.tiles()));
        // SAFETY: the views hold `count` rows and the whole key. These rows fill steps that the key
        // has, as checked.
        unsafe { self.launch(&kernel, grid, SPLIT_THREADS, 0, &arguments) }
    }

    /// Switches ciphertexts to the small key. `digits` is scratch memory for their digits.
    pub fn key_switch<T: Torus + Pod, S: Torus + Pod>(
        &self,
        inputs: View<'_, T>,
        key: View<'_, Line>,
        shape: KeySwitchShape,
        digits: View<'_, Line>,
        outputs: View<'_, S>,
    ) -> Result<(), DriverError> {
        let (stride, columns, gadget) = (shape.input_dimension + 1, shape.columns(), shape.gadget);
        let lanes = inputs.len() / stride;
        check(inputs.len() == lanes * stride && outputs.len() == lanes * columns, "whole ciphertexts")?;
        check(digits.len() == lanes * shape.digit_lines(), "room for the digits of each ciphertext")?;
        check(gadget.base_log * (gadget.levels as u32) < S::BITS, "digits that a word has")?;
        check((1..=S::BITS).contains(&shape.modulus_log2), "a modulus that fits the word")?;
        shape.check_key::<S>(key)?;
        let arguments = [
            inputs.address(),
            digits.address(),
            outputs.address(),
            shape.input_dimension as u64,
            shape.output_dimension as u64,
            u64::from(gadget.base_log),
            gadget.levels as u64,
            u64::from(shape.modulus_log2),
            shape.steps() as u64,
        ];
        let (kernel, strips) = (format!("cut_digits_{}_{}", T::BITS, S::BITS), stride.div_ceil(THREADS as usize));
        // SAFETY: the views hold `lanes` rows of input, digits and output, as checked.
        unsafe { self.launch(&kernel, (lanes, strips), THREADS, 0, &arguments) }?;
        self.multiply(digits, key, shape, lanes, outputs)
    }

    /// Subtracts the products of digits and key from the bodies.
    fn multiply<S: Torus + Pod>(
        &self,
        digits: View<'_, Line>,
        key: View<'_, Line>,
        shape: KeySwitchShape,
        lanes: usize,
        outputs: View<'_, S>,
    ) -> Result<(), DriverError> {
        let fits = |arrangement: &&Arrangement| lanes <= arrangement.lanes_max;
        let arrangement =
            ARRANGEMENTS.iter().find(fits).ok_or(DriverError::Misfit("ciphertexts that can be counted"))?;
        let arguments = [
            digits.address(),
            key.address(),
            outputs.address(),
            lanes as u64,
            shape.columns() as u64,
            shape.steps() as u64,
        ];
        let grid = (shape.tiles().div_ceil(arrangement.tiles), lanes.div_ceil(arrangement.lanes));
        let kernel = format!("{}_{}", arrangement.kernel, S::BITS);
        // SAFETY: the views hold the digits and outputs of `lanes` ciphertexts and the whole key,
        // as the caller has checked. Warps beyond the last ciphertext and the last tile read the
        // data of the last ones and write nothing.
        unsafe { self.launch(&kernel, grid, PRODUCT_THREADS, 0, &arguments) }
    }
}
