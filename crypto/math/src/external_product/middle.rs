//! All work between the first pass and its inverse: the other passes of the forward transforms, the
//! product with the key, and the inverses of those passes. The work proceeds ring by ring of the
//! first pass, and group by group within a ring. The current points thus stay in the first-level
//! cache.

use super::{
    ahead::{Ahead, Fetch, Nothing},
    complex::{Complex, Ring, transform},
    last::LastPass,
    plan::{Factor, GROUP, Middle, Plan},
};
use crate::simd::{BlocksMut, Kernel, Level, Pair, Simd, Vector, dispatch, whole, whole_mut};

/// Computes `columns[c] = sum over r of rows[r] * key[r][c]`, for rows after the first pass. The
/// columns replace the first rows and are ready for the inverse of the first pass.
///
/// The order of `key` is by group of [`GROUP`] vectors, column, vector and row, as pairs. The key
/// is read once, front to back.
pub(super) struct Product<'a> {
    pub(super) plan: &'a Plan,
    /// Points by row.
    pub(super) points: &'a mut [f64],
    /// Working memory for one group of every row.
    pub(super) group: &'a mut [f64],
    pub(super) columns: usize,
    pub(super) key: &'a [f64],
    pub(super) ahead: Ahead<'a>,
}

impl Product<'_> {
    /// Dispatches without inlining. Otherwise every crate that uses this generic code would compile
    /// the kernels again.
    #[inline(never)]
    pub(super) fn run_on(self, level: Level) {
        by_shape(level, self);
    }
}

/// A product whose shape is a compile-time constant.
struct Shaped<'a, const ROWS: usize, const COLUMNS: usize>(Product<'a>);

impl<const ROWS: usize, const COLUMNS: usize> Kernel for Shaped<'_, ROWS, COLUMNS> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        product::<S::F64, ROWS, COLUMNS>(self.0);
    }
}

/// Defines the shapes with a product: k and l, and the rows and columns that follow from them. The
/// numbers are constants of a product, so each shape compiles to code of its own. The list has one
/// line for each shape of the parameter sets.
macro_rules! shapes {
    ($(k $k:literal l $l:literal: $rows:literal x $columns:literal)*) => {
        /// k and l of the gadgets with a product.
        pub(super) const SHAPES: &[(usize, usize)] = &[$(($k, $l)),*];

        fn by_shape(level: Level, job: Product<'_>) {
            match (job.points.len() / (2 * job.plan.points), job.columns) {
                $(($rows, $columns) => dispatch(level, Shaped::<$rows, $columns>(job)),)*
                (rows, columns) => unreachable!("there is no product for {rows} rows of {columns}"),
            }
        }
    };
}

shapes! {
    k 1 l 1: 2 x 2
    k 1 l 2: 4 x 2
    k 1 l 3: 6 x 2
    k 2 l 1: 3 x 3
    k 2 l 2: 6 x 3
    k 3 l 2: 8 x 4
    k 4 l 1: 5 x 5
}

#[inline(always)]
fn product<V: Vector, const ROWS: usize, const COLUMNS: usize>(job: Product<'_>) {
    let Product { plan, points, group, columns: _, key, mut ahead } = job;
    let often = ahead.is_often();
    let row_len = plan.points / V::LANES;
    let points = whole_mut(points);
    let digits: &mut [_; ROWS] =
        (&mut whole_mut(group).as_chunks_mut::<GROUP>().0[..ROWS]).try_into().expect("cut to size");
    let keys = whole(key).as_chunks::<ROWS>().0.as_chunks::<GROUP>().0.as_chunks::<COLUMNS>().0;
    let last = LastPass::<V>::new(plan);
    let ring = row_len / plan.first.0;
    for ring_at in (0..row_len).step_by(ring) {
        for row in 0..ROWS {
            for pass in &plan.middle {
                let points = &mut points[row * row_len + ring_at..][..ring];
                if often {
                    middle::<V, false>(pass, ring_at, points, &mut ahead);
                } else {
                    middle::<V, false>(pass, ring_at, points, &mut Nothing);
                }
            }
        }
        for at in (ring_at..ring_at + ring).step_by(GROUP) {
            for row in 0..ROWS {
                ahead.fetch();
                let from = &points[row * row_len + at..][..GROUP];
                last.forward(at, from.try_into().expect("cut to size"), &mut digits[row]);
            }
            let key = &keys[at / GROUP];
            for column in 0..COLUMNS {
                ahead.fetch();
                let to = (&mut points[column * row_len + at..][..GROUP]).try_into().expect("cut to size");
                last.inverse(at, digits, &key[column], to);
            }
        }
        for column in 0..COLUMNS {
            for pass in plan.middle.iter().rev() {
                let points = &mut points[column * row_len + ring_at..][..ring];
                if often {
                    middle::<V, true>(pass, ring_at, points, &mut ahead);
                } else {
                    middle::<V, true>(pass, ring_at, points, &mut Nothing);
                }
            }
        }
    }
}

/// Stores one polynomial of the key in the spectrum: runs all passes after the first, then writes
/// each vector to its place.
pub(super) struct StoreKey<'a> {
    pub(super) plan: &'a Plan,
    pub(super) points: &'a mut [f64],
    pub(super) group: &'a mut [f64],
    pub(super) spectrum: &'a mut [f64],
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Row and column of this polynomial in the key.
    pub(super) row: usize,
    pub(super) column: usize,
}

impl StoreKey<'_> {
    /// Dispatches without inlining, as [`Product::run_on`].
    #[inline(never)]
    pub(super) fn run_on(self, level: Level) {
        dispatch(level, self);
    }
}

impl Kernel for StoreKey<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        store_key::<S::F64>(self);
    }
}

#[inline(always)]
fn store_key<V: Vector>(job: StoreKey<'_>) {
    let StoreKey { plan, points, group, spectrum, rows, columns, row, column } = job;
    let (points, spectrum) = (whole_mut(points), whole_mut(spectrum));
    let done: &mut [_; GROUP] = (&mut whole_mut(group)[..GROUP]).try_into().expect("cut to size");
    let last = LastPass::<V>::new(plan);
    let ring = points.len() / plan.first.0;
    for ring_at in (0..points.len()).step_by(ring) {
        for pass in &plan.middle {
            middle::<V, false>(pass, ring_at, &mut points[ring_at..][..ring], &mut Nothing);
        }
        for at in (ring_at..ring_at + ring).step_by(GROUP) {
            last.forward(at, (&points[at..][..GROUP]).try_into().expect("cut to size"), done);
            for (vector, done) in done.iter().enumerate() {
                let place = (at * columns + column * GROUP + vector) * rows + row;
                Complex::<V>::load(done).store(&mut spectrum[place]);
            }
        }
    }
}

/// Runs a pass, or its inverse, over the rings in `points`, which begin at vector `first` of the
/// polynomial.
#[inline(always)]
fn middle<V: Vector, const INVERSE: bool>(pass: &Middle, first: usize, points: &mut [Pair<V>], ahead: &mut impl Fetch) {
    let ring = pass.ring / V::LANES;
    let mut factors = &pass.factors[first / ring * pass.radix..];
    for at in (0..points.len()).step_by(ring) {
        let ring = &mut points[at..][..ring];
        match pass.radix {
            4 => middle_ring::<V, 4, INVERSE>(ring, factors, ahead),
            _ => middle_ring::<V, 8, INVERSE>(ring, factors, ahead),
        }
        factors = &factors[pass.radix..];
    }
}

#[inline(always)]
fn middle_ring<V: Vector, const R: usize, const INVERSE: bool>(
    ring: &mut [Pair<V>],
    factors: &[Factor],
    ahead: &mut impl Fetch,
) {
    let run = ring.len() / R;
    let mut blocks = BlocksMut::<_, R>::new(ring, run, run);
    let mut splat = [Complex::<V>::zero(); R];
    for power in 1..R {
        splat[power] = Complex::splat(factors[power]);
    }
    for at in 0..run {
        ahead.fetch();
        transform::<V, R, INVERSE>(&mut InPlace::<V, R, INVERSE> { points: &mut blocks, factors: &splat, at });
    }
}

/// One vector of each block of a ring. The factor is applied before the transform, or after the
/// inverse transform.
struct InPlace<'a, 'p, V: Vector, const R: usize, const INVERSE: bool> {
    points: &'a mut BlocksMut<'p, Pair<V>, R>,
    factors: &'a [Complex<V>; R],
    at: usize,
}

impl<V: Vector, const R: usize, const INVERSE: bool> Ring<V> for InPlace<'_, '_, V, R, INVERSE> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let number = Complex::load(self.points.get(index, self.at));
        if INVERSE || index == 0 { number } else { number.mul(self.factors[index]) }
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        let number = if INVERSE && index > 0 { value.mul_conjugate(self.factors[index]) } else { value };
        number.store(self.points.get(index, self.at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external_product::plan::POINTS;

    /// Runs all middle passes over a whole polynomial.
    struct Passes<'a> {
        plan: &'a Plan,
        asked: &'a mut StepCounter,
    }

    /// Counts the calls, which are the steps.
    #[derive(Default)]
    struct StepCounter(usize);

    impl Fetch for StepCounter {
        fn fetch(&mut self) {
            self.0 += 1;
        }
    }

    impl Kernel for Passes<'_> {
        #[inline(always)]
        fn run<S: Simd>(self) {
            let mut points = vec![0.0; 2 * self.plan.points];
            let points: &mut [Pair<S::F64>] = whole_mut(&mut points);
            let ring = points.len() / self.plan.first.0;
            for at in (0..points.len()).step_by(ring) {
                for pass in &self.plan.middle {
                    middle::<S::F64, false>(pass, at, &mut points[at..][..ring], self.asked);
                }
            }
        }
    }

    #[test]
    fn passes_have_as_many_steps_as_the_plan_counts() {
        for best in Level::available() {
            for points in (POINTS.start().ilog2()..=POINTS.end().ilog2()).map(|log2| 1 << log2) {
                let (plan, mut asked) = (Plan::new(points, best), StepCounter::default());
                dispatch(plan.level, Passes { plan: &plan, asked: &mut asked });
                let said = [plan.steps(3, 0), plan.steps(1, 2)].map(|steps| steps.middle);
                assert_eq!(said, [3 * asked.0; 2], "{points} points on {}", best.name());
            }
        }
    }
}
