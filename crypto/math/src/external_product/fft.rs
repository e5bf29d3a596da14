//! External products by the `tfhe-fft` transform.

use dyn_stack::{PodBuffer, PodStack};
use tfhe_fft::{c64, unordered::Plan};

use super::{
    ExternalProduct, GgswShape,
    convert::{Digit, DigitsToPoints, PointsToTorus, TorusToPoints},
    multiply::{BLOCK, LANES, Multiply, StoreKey},
    plan::{Twist, plan},
};
use crate::{
    aligned::Aligned,
    simd::{Level, dispatch},
    torus::Torus,
};

/// External products of one shape by double-precision Fourier transform.
pub struct FftProduct<T> {
    shape: GgswShape,
    level: Level,
    plan: Plan,
    twist: Twist,
    /// By row of the key: the level's digit and the polynomial it is cut from.
    rows: Vec<(Digit<T>, usize)>,
}

/// Working memory of one thread.
pub struct Scratch {
    rows: Aligned<c64>,
    columns: Aligned<c64>,
    fft: PodBuffer,
}

impl<T: Torus> FftProduct<T> {
    /// A kernel for `shape` on the best instruction set of this machine.
    pub fn new(shape: GgswShape) -> Self {
        Self::with_level(shape, Level::detect())
    }

    /// A kernel for `shape` on one instruction set. (The transform itself always takes the best.)
    pub fn with_level(shape: GgswShape, level: Level) -> Self {
        let points = shape.polynomial_size / 2;
        assert!(points.is_power_of_two() && points >= LANES, "N must be a power of two, at least {}", 2 * LANES);
        assert!((1..=4).contains(&shape.glwe_dimension), "k must be 1 to 4");
        // Key rows start with the smallest weight.
        let rows = (1..=shape.gadget.levels)
            .rev()
            .flat_map(|level| {
                let digit = Digit::of_level(shape.gadget, level);
                (0..shape.glwe_size()).map(move |polynomial| (digit, polynomial))
            })
            .collect();
        Self { shape, level, plan: plan(points), twist: Twist::new(points), rows }
    }

    fn points(&self) -> usize {
        self.shape.polynomial_size / 2
    }

    /// The product of one GLWE ciphertext, rotated or not.
    fn product(&self, spectrum: &[f64], glwe: &mut [T], rotation: Option<usize>, ahead: &[f64], scratch: &mut Scratch) {
        let points = self.points();
        let mut ahead = ahead.chunks(ahead.len().div_ceil(self.shape.rows() + self.shape.glwe_size()).max(1));
        let Scratch { rows, columns, fft } = scratch;
        for ((digit, polynomial), points) in self.rows.iter().zip(rows.chunks_exact_mut(points)) {
            let polynomial = &glwe[polynomial * self.shape.polynomial_size..][..self.shape.polynomial_size];
            let kernel = DigitsToPoints {
                polynomial,
                rotation,
                digit: *digit,
                twist: &self.twist,
                points: &mut *points,
                ahead: ahead.next().unwrap_or_default(),
            };
            dispatch(self.level, kernel);
            self.plan.fwd(points, PodStack::new(fft));
        }
        dispatch(self.level, Multiply { rows, key: spectrum, columns, points });
        let polynomials = glwe.chunks_exact_mut(self.shape.polynomial_size);
        for (points, polynomial) in columns.chunks_exact_mut(points).zip(polynomials) {
            self.plan.inv(points, PodStack::new(fft));
            let accumulate = rotation.is_some();
            dispatch(
                self.level,
                PointsToTorus {
                    points,
                    twist: &self.twist,
                    polynomial,
                    accumulate,
                    ahead: ahead.next().unwrap_or_default(),
                },
            );
        }
    }
}

impl<T: Torus> ExternalProduct<T> for FftProduct<T> {
    fn shape(&self) -> GgswShape {
        self.shape
    }

    fn spectrum_len(&self) -> usize {
        self.shape.words()
    }

    fn scratch(&self) -> Scratch {
        let points = |count: usize| Aligned::new(count * self.points());
        Scratch {
            rows: points(self.shape.rows()),
            columns: points(self.shape.glwe_size()),
            fft: PodBuffer::new(self.plan.fft_scratch()),
        }
    }

    fn transform(&self, ggsw: &[T], spectrum: &mut [f64], scratch: &mut Scratch) {
        let points = self.points();
        // The torus' width and the transform's missing 1/points are folded into the key, exactly.
        let scale = (-f64::from(T::BITS)).exp2() / points as f64;
        let buffer = &mut scratch.rows[..points];
        for (index, polynomial) in ggsw.chunks_exact(self.shape.polynomial_size).enumerate() {
            dispatch(self.level, TorusToPoints { polynomial, scale, twist: &self.twist, points: &mut *buffer });
            self.plan.fwd(buffer, PodStack::new(&mut scratch.fft));
            // Rows times columns blocks lie between two blocks of one polynomial.
            let step = self.shape.rows() * self.shape.glwe_size() * BLOCK;
            dispatch(self.level, StoreKey { points: buffer, key: &mut spectrum[index * BLOCK..], step });
        }
    }

    fn rotate_accumulate(
        &self,
        spectrum: &[f64],
        next: &[f64],
        tile: &mut [T],
        rotations: &[u32],
        scratch: &mut Scratch,
    ) {
        let mut next = next.chunks(next.len().div_ceil(rotations.len()).max(1));
        for (glwe, &rotation) in tile.chunks_exact_mut(self.shape.glwe_words()).zip(rotations) {
            let ahead = next.next().unwrap_or_default();
            if rotation != 0 {
                self.product(spectrum, glwe, Some(rotation as usize), ahead, scratch);
            }
        }
    }

    fn replace(&self, spectrum: &[f64], glwe: &mut [T], scratch: &mut Scratch) {
        self.product(spectrum, glwe, None, &[], scratch);
    }
}
