//! The key matrix, in the order in which the product reads it.

use std::marker::PhantomData;

use cloakwork_params::Decomposition;

use crate::{
    aligned::Aligned,
    simd::bytes::{COLUMNS, Line, ROWS},
    torus::Torus,
};

/// Maximum number of matrix rows in one block, for gadgets of up to 512 levels.
pub(super) const BLOCK_ROWS: usize = 2048;
/// Bytes of a word that are multiplied together, one plane for each byte.
pub(super) const STRIP_PLANES: usize = 4;

/// A matrix of words with one row for each input word and level, split into bytes.
///
/// The order from the outermost dimension is: blocks of rows; panels of 16 columns; strips of four
/// bytes of the word, the lowest first; levels, the smallest weight first; groups of four inputs;
/// bytes of the word; columns; inputs. Padding inputs and columns in the last group and panel are
/// zero.
pub struct KeyMatrix<S> {
    shape: Shape,
    bytes: Aligned<u8>,
    word: PhantomData<S>,
}

#[derive(Clone, Copy)]
struct Shape {
    gadget: Decomposition,
    inputs: usize,
    columns: usize,
    /// Strips of a word, and planes of a strip. A modulus that leaves the word's lowest byte empty
    /// has one plane fewer.
    strips: usize,
    planes: usize,
}

impl Shape {
    fn new<S: Torus>(gadget: Decomposition, inputs: usize, columns: usize, modulus_log2: u32) -> Self {
        let strips = S::BITS.div_ceil(32) as usize;
        let planes = if strips == 1 && modulus_log2 <= 24 { STRIP_PLANES - 1 } else { STRIP_PLANES };
        Self { gadget, inputs, columns, strips, planes }
    }

    fn block_inputs(&self) -> usize {
        BLOCK_ROWS / self.gadget.levels / ROWS * ROWS
    }

    fn panels(&self) -> usize {
        self.columns.div_ceil(COLUMNS)
    }

    /// Bytes of one strip for this number of inputs.
    fn strip_bytes(&self, inputs: usize) -> usize {
        inputs.div_ceil(ROWS) * self.gadget.levels * self.planes * size_of::<Line>()
    }

    fn block_bytes(&self, inputs: usize) -> usize {
        self.panels() * self.strips * self.strip_bytes(inputs)
    }

    fn bytes(&self) -> usize {
        let (whole, rest) = (self.inputs / self.block_inputs(), self.inputs % self.block_inputs());
        whole * self.block_bytes(self.block_inputs()) + self.block_bytes(rest)
    }

    /// First input and number of inputs of every block.
    fn blocks(self) -> impl Iterator<Item = (usize, usize)> {
        let step = self.block_inputs();
        (0..self.inputs).step_by(step).map(move |first| (first, step.min(self.inputs - first)))
    }

    /// For each plane of a group, the offset in the block of its first column and input, and the
    /// right shift that extracts the plane's byte from a word.
    fn planes_of(self, panel: usize, inputs: usize, group: usize) -> impl Iterator<Item = (usize, u32)> {
        let strip_bytes = self.strip_bytes(inputs);
        (0..self.strips).flat_map(move |strip| {
            let start = (panel * self.strips + strip) * strip_bytes + group * self.planes * size_of::<Line>();
            let skipped = STRIP_PLANES - self.planes;
            (0..self.planes).map(move |plane| {
                let shift = 8 * (strip * STRIP_PLANES + skipped + plane);
                (start + plane * size_of::<Line>(), shift as u32)
            })
        })
    }
}

impl<S: Torus> KeyMatrix<S> {
    /// Creates a matrix of zeros for `inputs` input words. Words keep their value in the top
    /// `modulus_log2` bits. Lower bits may be dropped.
    pub fn new(gadget: Decomposition, inputs: usize, columns: usize, modulus_log2: u32) -> Self {
        let shape = Shape::new::<S>(gadget, inputs, columns, modulus_log2);
        Self { shape, bytes: Aligned::new(shape.bytes()), word: PhantomData }
    }

    /// Gadget of the inputs.
    pub fn gadget(&self) -> Decomposition {
        self.shape.gadget
    }

    /// Input words of the product.
    pub fn inputs(&self) -> usize {
        self.shape.inputs
    }

    /// Words of a row.
    pub fn columns(&self) -> usize {
        self.shape.columns
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that [`Self::new`] allocates: the kept bytes of the words, and the padding of the last
    /// group and panel.
    pub fn bytes_of(gadget: Decomposition, inputs: usize, columns: usize, modulus_log2: u32) -> usize {
        Shape::new::<S>(gadget, inputs, columns, modulus_log2).bytes()
    }

    /// The blocks, which can be filled independently.
    pub fn blocks_mut(&mut self) -> Vec<BlockMut<'_, S>> {
        let shape = self.shape;
        let mut bytes: &mut [u8] = &mut self.bytes;
        let blocks = shape.blocks().map(|(first_input, inputs)| BlockMut {
            shape,
            first_input,
            inputs,
            bytes: bytes.split_off_mut(..shape.block_bytes(inputs)).expect("all blocks together have these bytes"),
            word: PhantomData,
        });
        blocks.collect()
    }

    /// Reassembles the words of row `index`.
    pub fn read_row(&self, index: usize, row: &mut [S]) {
        let Shape { inputs, columns, gadget: Decomposition { levels, .. }, .. } = self.shape;
        let (input, level) = (index / levels, index % levels);
        assert!(input < inputs && row.len() == columns, "a row that there is");
        let step = self.shape.block_inputs();
        let (first, in_block) = (input / step * step, input % step);
        let count = step.min(inputs - first);
        let block = &self.bytes[self.shape.block_bytes(step) * (input / step)..];
        let group = level * count.div_ceil(ROWS) + in_block / ROWS;
        for (panel, row) in row.chunks_mut(COLUMNS).enumerate() {
            row.fill(S::default());
            for (start, shift) in self.shape.planes_of(panel, count, group) {
                let bytes = block[start..].iter().skip(in_block % ROWS).step_by(ROWS);
                for (word, byte) in row.iter_mut().zip(bytes) {
                    *word = word.wrapping_add(S::from_u64(u64::from(*byte) << shift));
                }
            }
        }
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let Self { shape, bytes, .. } = self;
        let mut bytes: &[u8] = bytes;
        shape.blocks().map(move |(first_input, inputs)| {
            let (block, rest) = bytes.split_at(shape.block_bytes(inputs));
            bytes = rest;
            Block { first_input, inputs, bytes: block, strip_bytes: shape.strip_bytes(inputs), strips: shape.strips }
        })
    }

    /// Planes of a strip.
    pub(super) fn planes(&self) -> usize {
        self.shape.planes
    }
}

/// A block of rows as the product reads it.
pub(super) struct Block<'a> {
    pub(super) first_input: usize,
    pub(super) inputs: usize,
    bytes: &'a [u8],
    strip_bytes: usize,
    strips: usize,
}

impl<'a> Block<'a> {
    /// The strips in memory order, each with its panel and its index within the word.
    pub(super) fn strips<const PLANES: usize>(&self) -> impl Iterator<Item = (usize, usize, &'a [[Line; PLANES]])> {
        let strips = self.strips;
        self.bytes.chunks_exact(self.strip_bytes).enumerate().map(move |(index, bytes)| {
            let (lines, _) = bytes.as_chunks();
            (index / strips, index % strips, lines.as_chunks().0)
        })
    }
}

/// A block of rows to be filled.
pub struct BlockMut<'a, S> {
    shape: Shape,
    first_input: usize,
    inputs: usize,
    bytes: &'a mut [u8],
    word: PhantomData<S>,
}

impl<S: Torus> BlockMut<'_, S> {
    /// The first matrix row of this block, counted by input, then level.
    pub fn first_row(&self) -> usize {
        self.first_input * self.shape.gadget.levels
    }

    /// Fills the block: `set_row` sets the words of each row, in order, given the row's index in
    /// the matrix.
    pub fn fill(&mut self, mut set_row: impl FnMut(usize, &mut [S])) {
        let Shape { columns, gadget: Decomposition { levels, .. }, .. } = self.shape;
        // Rows by input, then level.
        let mut rows = vec![S::default(); ROWS * levels * columns];
        for first in (0..self.inputs).step_by(ROWS) {
            let count = ROWS.min(self.inputs - first) * levels * columns;
            let first_row = self.first_row() + first * levels;
            for (index, row) in rows[..count].chunks_exact_mut(columns).enumerate() {
                set_row(first_row + index, row);
            }
            rows[count..].fill(S::default());
            for level in 0..levels {
                let of_level = std::array::from_fn(|input| &rows[(input * levels + level) * columns..][..columns]);
                self.put(level * self.inputs.div_ceil(ROWS) + first / ROWS, of_level);
            }
        }
    }

    /// Stores the rows of one group.
    fn put(&mut self, group: usize, rows: [&[S]; ROWS]) {
        for panel in 0..self.shape.panels() {
            let first = panel * COLUMNS;
            let width = COLUMNS.min(self.shape.columns - first);
            let rows = rows.map(|row| &row[first..][..width]);
            for (start, shift) in self.shape.planes_of(panel, self.inputs, group) {
                let (line, _) = self.bytes[start..][..size_of::<Line>()].as_chunks_mut::<ROWS>();
                for (column, bytes) in line[..width].iter_mut().enumerate() {
                    *bytes = rows.map(|row| (row[column].to_u64() >> shift) as u8);
                }
            }
        }
    }
}
