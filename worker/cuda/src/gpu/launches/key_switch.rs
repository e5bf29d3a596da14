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
/// A tile's columns times a step's rows have a thread for four of them that splits their words into bytes.
const SPLIT_THREADS: u32 = 128;
/// Threads that multiply: THREADS in key_switch.cu.
const PRODUCT_THREADS: u32 = 256;
/// Most bits of a digit: from -64 to 64, so that it is a signed byte.
const BASE_LOG_MAX: u32 = 7;

/// A way to share a product among blocks: `Arrangement` in key_switch.cu.
struct Arrangement {
    kernel: &'static str,
    /// Most ciphertexts that it is for.
    lanes_max: usize,
    /// Ciphertexts and tiles of a block.
    lanes: usize,
    tiles: usize,
}

/// The first that is for so many is taken. Where one ends and the next begins follows from how much of the key each reads from the
/// second-level cache, as counted; it is not measured.
const ARRANGEMENTS: [Arrangement; 2] = [
    Arrangement { kernel: "multiply_narrow", lanes_max: 64, lanes: 16, tiles: 1 },
    Arrangement { kernel: "multiply_wide", lanes_max: usize::MAX, lanes: 128, tiles: 4 },
];

/// How a key switch cuts words and rounds bodies.
#[derive(Clone, Copy, Debug)]
pub struct KeySwitchShape {
    /// Length of the key that ciphertexts come in under.
    pub input_dimension: usize,
    /// Length of the key that they go out under.
    pub output_dimension: usize,
    /// How words are cut into digits.
    pub gadget: Decomposition,
    /// log2 of the output modulus.
    pub modulus_log2: u32,
}

impl KeySwitchShape {
    /// Rows of a key that are multiplied together: STEP in key_switch.cu.
    pub const STEP: usize = 64;

    /// Are there kernels for it? Digits are bytes, and sums of their products with a key's bytes fit 32 bits.
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

    /// Lines of a key of words of so many bits.
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
    /// Rows of a key-switch key from row `first` on, which begins a step, as products read them. Only the key's last rows may end
    /// within a step.
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
        // SAFETY: the views hold `count` rows and the whole key, of which these rows fill steps that it has, as checked.
        unsafe { self.launch(&kernel, grid, SPLIT_THREADS, 0, &arguments) }
    }

    /// Ciphertexts to the small key. `digits` is room for what they are cut into.
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

    /// Takes the products of digits and key off the bodies.
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
        // SAFETY: the views hold the digits and outputs of `lanes` ciphertexts and the whole key, as the caller has checked;
        // warps beyond the last ciphertext and the last tile read what the last ones do and write nothing.
        unsafe { self.launch(&kernel, grid, PRODUCT_THREADS, 0, &arguments) }
    }
}
