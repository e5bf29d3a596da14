//! The external product, which is the step of a blind rotation: a GGSW ciphertext times a GLWE
//! ciphertext.

pub mod accumulator;
mod ahead;
mod complex;
mod digit;
mod first;
mod last;
mod middle;
mod plan;

use cloakwork_params::{Decomposition, ParameterSet};

pub(crate) use self::first::{FromDigits, FromWords, ToWords};
use self::{
    ahead::{Ahead, Steps},
    digit::Digit,
    middle::{Product, SHAPES, StoreKey},
    plan::{GROUP, POINTS, Plan},
};
use crate::{aligned::Aligned, decomposition::BASE_LOG_MAX, simd::Level, torus::Torus};

/// The shape shared by every GGSW ciphertext of a bootstrap key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgswShape {
    /// k.
    pub glwe_dimension: usize,
    /// N.
    pub polynomial_size: usize,
    /// The gadget.
    pub gadget: Decomposition,
}

impl GgswShape {
    /// Shape under the big key of a set.
    pub fn of_set(set: &ParameterSet, gadget: Decomposition) -> Self {
        Self { glwe_dimension: set.glwe_dimension, polynomial_size: set.polynomial_size, gadget }
    }

    /// Polynomials of a GLWE ciphertext, k + 1.
    pub fn glwe_size(&self) -> usize {
        self.glwe_dimension + 1
    }

    /// Words of a GLWE ciphertext.
    pub fn glwe_words(&self) -> usize {
        self.glwe_size() * self.polynomial_size
    }

    /// GLWE rows of one GGSW ciphertext: one row for each level and polynomial.
    pub fn rows(&self) -> usize {
        self.gadget.levels * self.glwe_size()
    }

    /// Words of the bodies of one GGSW ciphertext.
    pub fn body_words(&self) -> usize {
        self.rows() * self.polynomial_size
    }

    /// Words of one GGSW ciphertext, masks included.
    pub fn words(&self) -> usize {
        self.rows() * self.glwe_words()
    }

    /// log2 of 2N, the modulus of a rotation.
    pub fn rotation_modulus_log2(&self) -> u32 {
        self.polynomial_size.trailing_zeros() + 1
    }
}

/// External products of one shape: digits go in, wrapped torus words come out.
///
/// The kernel first turns a GGSW ciphertext into a *spectrum* of its own. The order of the spectrum
/// is internal to the kernel, and a spectrum never leaves the process. GLWE ciphertexts have the
/// layout of [`accumulator`]. All methods take whole tiles, so that one read of the spectrum serves
/// many ciphertexts. None of the methods allocates.
pub struct ExternalProduct<T> {
    shape: GgswShape,
    plan: Plan,
    steps: Steps,
    /// Digit extraction by level, in the order of the key's rows.
    digits: Vec<Digit<T>>,
}

/// Working memory of one thread.
pub struct Scratch {
    /// Transform points, by row.
    points: Aligned<f64>,
    /// One group of vectors of every row.
    group: Aligned<f64>,
}

impl<T: Torus> ExternalProduct<T> {
    /// Creates a kernel for `shape` on the best instruction set of this machine.
    pub fn new(shape: GgswShape) -> Self {
        Self::with_level(shape, Level::detect())
    }

    /// Creates a kernel for `shape` on one instruction set.
    pub fn with_level(shape: GgswShape, level: Level) -> Self {
        assert!(Self::supports(shape), "no kernel for {shape:?}");
        // Key rows start with the level of the smallest weight.
        let digits = (1..=shape.gadget.levels).rev().map(|level| Digit::of_level(shape.gadget, level)).collect();
        let plan = Plan::new(shape.polynomial_size / 2, level);
        Self { shape, steps: plan.steps(shape.rows(), shape.glwe_size()), plan, digits }
    }

    /// Whether there is a kernel for `shape`. Every shape of the parameter sets has a kernel.
    pub fn supports(shape: GgswShape) -> bool {
        let (points, Decomposition { base_log, levels }) = (shape.polynomial_size / 2, shape.gadget);
        shape.polynomial_size.is_power_of_two()
            && POINTS.contains(&points)
            && SHAPES.contains(&(shape.glwe_dimension, levels))
            && base_log <= BASE_LOG_MAX
            && base_log.checked_mul(levels as u32).is_some_and(|kept| (1..T::BITS).contains(&kept))
    }

    /// Shape of the GGSW ciphertexts.
    pub fn shape(&self) -> GgswShape {
        self.shape
    }

    /// Number of f64 values in one spectrum.
    pub fn spectrum_len(&self) -> usize {
        self.shape.words()
    }

    /// Allocates one thread's working memory for the other methods.
    pub fn scratch(&self) -> Scratch {
        let group = self.shape.rows() * GROUP * 2 * self.plan.level.lanes();
        Scratch { points: Aligned::for_work(self.shape.body_words()), group: Aligned::new(group) }
    }

    /// Turns `ggsw` (standard domain, rows in key order) into `spectrum`.
    pub fn transform(&self, ggsw: &[T], spectrum: &mut [f64], scratch: &mut Scratch) {
        assert_eq!(ggsw.len(), self.shape.words(), "one GGSW ciphertext");
        assert_eq!(spectrum.len(), self.spectrum_len(), "room for its spectrum");
        let size = self.shape.polynomial_size;
        let (rows, columns) = (self.shape.rows(), self.shape.glwe_size());
        // Scales words to fractions of the torus and applies the factor 2/N that the transforms
        // leave out. Both factors are powers of two, so the product is exact.
        let scale = (-f64::from(T::BITS)).exp2() / (size / 2) as f64;
        let digit = Digit::of_level(self.shape.gadget, 1);
        let Scratch { points, group } = scratch;
        let points = &mut points[..size];
        for (index, polynomial) in ggsw.chunks_exact(size).enumerate() {
            T::dispatch_from_words(
                self.plan.level,
                FromWords { plan: &self.plan, polynomial, scale, digit, points: &mut *points },
            );
            let points = &mut *points;
            let (row, column) = (index / columns, index % columns);
            let store = StoreKey { plan: &self.plan, points, group, spectrum, rows, columns, row, column };
            store.run_on(self.plan.level);
        }
    }

    /// For each accumulator of `tile` and its own rotation r, below 2N:
    /// `glwe += ggsw * (X^r glwe - glwe)`. A rotation by 0 costs nothing.
    ///
    /// `next` is the spectrum of the following step, or empty, and is prefetched meanwhile.
    pub fn rotate_accumulate(
        &self,
        spectrum: &[f64],
        next: &[f64],
        tile: &mut [T],
        rotations: &[u32],
        scratch: &mut Scratch,
    ) {
        let words = self.shape.accumulator_words::<T>();
        assert_eq!(tile.len(), rotations.len() * words, "a rotation for each accumulator, margins included");
        assert_eq!(spectrum.len(), self.spectrum_len(), "one GGSW ciphertext's spectrum");
        let mut shares = ahead::shares(next, rotations.len());
        for (glwe, &rotation) in tile.chunks_exact_mut(words).zip(rotations) {
            let ahead = Ahead::new(spectrum, shares.next().unwrap_or_default(), &self.steps);
            assert!((rotation as usize) < 2 * self.shape.polynomial_size, "a rotation by {rotation}");
            if rotation != 0 {
                self.product(spectrum, ahead, glwe, Some(rotation as usize), scratch);
            }
        }
    }

    /// `glwe = ggsw * glwe`. `next` is the first data that is read afterwards, and is prefetched
    /// meanwhile.
    pub fn replace(&self, spectrum: &[f64], next: &[T], glwe: &mut [T], scratch: &mut Scratch) {
        assert_eq!(glwe.len(), self.shape.accumulator_words::<T>(), "one accumulator, margins included");
        assert_eq!(spectrum.len(), self.spectrum_len(), "one GGSW ciphertext's spectrum");
        // An empty slice may have an address that is not aligned for f64: the cast then fails, and
        // nothing is prefetched.
        let next = bytemuck::try_cast_slice(next).unwrap_or_default();
        let ahead = Ahead::new(spectrum, next, &self.steps);
        self.product(spectrum, ahead, glwe, None, scratch);
    }

    fn product(
        &self,
        key: &[f64],
        mut ahead: Ahead<'_>,
        glwe: &mut [T],
        rotation: Option<usize>,
        scratch: &mut Scratch,
    ) {
        let (level, plan, size) = (self.plan.level, &self.plan, self.shape.polynomial_size);
        let (columns, words) = (self.shape.glwe_size(), accumulator::stride::<T>(size));
        let (Scratch { points, group }, digits) = (scratch, &self.digits);
        for (index, polynomial) in glwe.chunks_exact(words).enumerate() {
            let (points, stride) = (&mut points[index * size..], columns * size);
            T::dispatch_from_digits(level, FromDigits { plan, polynomial, rotation, digits, points, stride });
        }
        let passes = ahead.cut(self.steps.groups + self.steps.middle);
        Product { plan, points, group, columns, key, ahead: passes }.run_on(level);
        let each = self.steps.end / columns;
        for (points, polynomial) in points.chunks_exact(size).zip(glwe.chunks_exact_mut(words)) {
            let ahead = ahead.cut(each);
            T::dispatch_to_words(level, ToWords { plan, points, polynomial, accumulate: rotation.is_some(), ahead });
        }
    }
}
