//! The product in the transformed domain: rows of digits times the key's matrix.

use tfhe_fft::c64;

use crate::simd::{F64x8, Kernel, Simd};

/// Points handled together.
pub(super) const LANES: usize = 8;
/// Doubles of one block of points.
pub(super) const BLOCK: usize = 2 * LANES;

/// `columns[c] = sum over r of rows[r] * key[r][c]`, point by point.
///
/// `key` lies as block of [`LANES`] points, row, column, then the block's real and imaginary parts apart,
/// in the order that [`F64x8::load_complex`] gives them: it is read once, front to back, without shuffles.
pub(super) struct Multiply<'a> {
    pub(super) rows: &'a [c64],
    pub(super) key: &'a [f64],
    pub(super) columns: &'a mut [c64],
    pub(super) points: usize,
}

impl Kernel for Multiply<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        match self.columns.len() / self.points {
            2 => multiply::<S, 2>(self),
            3 => multiply::<S, 3>(self),
            4 => multiply::<S, 4>(self),
            5 => multiply::<S, 5>(self),
            columns => unreachable!("a kernel is made for 2 to 5 columns, not {columns}"),
        }
    }
}

#[inline(always)]
fn multiply<S: Simd, const COLUMNS: usize>(job: Multiply<'_>) {
    let Multiply { rows, key, columns, points } = job;
    let row_count = rows.len() / points;
    for (block, key) in key.chunks_exact(row_count * COLUMNS * BLOCK).enumerate() {
        let at = block * LANES;
        let mut sums = [(S::F64x8::zero(), S::F64x8::zero()); COLUMNS];
        for (row, key) in rows.chunks_exact(points).zip(key.chunks_exact(COLUMNS * BLOCK)) {
            let (re, im) = S::F64x8::load_complex(lanes(&row[at..]));
            for (sum, key) in sums.iter_mut().zip(key.chunks_exact(BLOCK)) {
                let (key_re, key_im) = (S::F64x8::load(lanes(key)), S::F64x8::load(lanes(&key[LANES..])));
                sum.0 = im.neg_mul_add(key_im, re.mul_add(key_re, sum.0));
                sum.1 = im.mul_add(key_re, re.mul_add(key_im, sum.1));
            }
        }
        for (column, sum) in columns.chunks_exact_mut(points).zip(sums) {
            S::F64x8::store_complex(sum.0, sum.1, lanes_mut(&mut column[at..]));
        }
    }
}

/// Writes one transformed key polynomial to its place in the blocks, `step` doubles apart.
pub(super) struct StoreKey<'a> {
    pub(super) points: &'a [c64],
    pub(super) key: &'a mut [f64],
    pub(super) step: usize,
}

impl Kernel for StoreKey<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (points, key) in self.points.chunks_exact(LANES).zip(self.key.chunks_mut(self.step)) {
            let (re, im) = S::F64x8::load_complex(lanes(points));
            re.store(lanes_mut(key));
            im.store(lanes_mut(&mut key[LANES..]));
        }
    }
}

#[inline(always)]
fn lanes<E>(from: &[E]) -> &[E; LANES] {
    from[..LANES].try_into().expect("cut to size")
}

#[inline(always)]
fn lanes_mut<E>(from: &mut [E]) -> &mut [E; LANES] {
    (&mut from[..LANES]).try_into().expect("cut to size")
}
