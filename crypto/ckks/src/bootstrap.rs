//! Bootstrapping: new levels for a ciphertext that has used up its own.
//!
//! 1. A key switch to a sparse secret, modulo the first prime q alone.
//! 2. Modulus raising: modulo many primes, the same polynomials represent the plaintext plus a
//!    small multiple of q in each coefficient. A second key switch returns to the secret.
//! 3. CoeffToSlot: matrices turn coefficients into numbers.
//! 4. EvalMod: the multiple of q is removed from each number (`remainder`).
//! 5. SlotToCoeff: matrices turn numbers into coefficients.
//!
//! A *lossy* bootstrap performs the last step first, at the lowest levels, where it is cheap. The
//! numbers are then a smaller part of q, so the noise is a larger part of the numbers.

mod keys;
mod packing;
mod remainder;

pub use keys::{BootstrapKeys, SeededBootstrapKeys};

use cloakwork_math::reals::root;
use cloakwork_params::ckks::{
    bootstrap::{BootstrapKind, BootstrapShape, Course, KeySize, MatrixShape, Turn},
    offsets::Offsets,
};

use self::remainder::Remainder;
use crate::{
    ciphertext::Ciphertext,
    complex::Complex,
    diagonals::Diagonals,
    error::CkksError,
    evaluator::{BootstrapStep, Evaluator},
    key::EvaluationKeys,
    linear::EncodedMatrix,
    poly::{Basis, Poly},
    ring::Ring,
};

/// A bootstrap for a fixed number of slots: all precomputed data that contains no key. All clients
/// share one instance.
pub struct Bootstrap<'r> {
    ring: &'r Ring,
    shape: BootstrapShape,
    /// All rotations of the bootstrap. The matrices are encoded to match them.
    course: Course,
    /// Factor of the remainders.
    amplitude: f64,
    to_coefficients: Vec<EncodedMatrix>,
    to_values: Vec<EncodedMatrix>,
}

/// log2 of the amplitude A that multiplies the remainders of a regular bootstrap. Its SlotToCoeff
/// matrices divide by A again.
///
/// A cosine after i of d angle doublings has the factor f_i = (A / 2 pi)^(1 / 2^(d - i)). Each
/// later doubling multiplies an error e of that step by up to 4 f_j. Since f_j squared is f_(j+1),
/// the product of these factors is 4^(d - i) f_d / f_i, with f_d = A / 2 pi. The result is A times
/// the remainder. As a fraction of the first prime, the error of the remainder is thus up to
/// 4^(d - i) e / (2 pi f_i).
///
/// The error is greatest for the cosine before any doubling, i = 0. There, A = 2^8 makes the error
/// 2^(8 / 2^d) times less than A = 1: two times for three doublings and four times for two. The
/// error of each later step is a sixth of it or less. To halve the first error again, A would have
/// to be 2^8 times as large (or 2^4). The cost of A is that the matrices are encoded with
/// log2(A) / stages bits less.
const AMPLITUDE_LOG2: i32 = 8;

/// log2 of the ratio of the first prime to a number of one in a lossy bootstrap, called p below.
///
/// The sine reduces its angle by a third power. A number m, at m / 2^p of the prime, loses
/// m^3 (2 pi / 2^p)^2 / 6. This is m^3 2^-23.3 at p = 13, and a quarter of that for each increment
/// of p.
///
/// The noise of remainders does not depend on p, so relative to a number it doubles with each
/// increment of p. Its size follows from regular bootstraps of `CKKS_45_60_50`. Their numbers are
/// 2^-8 of the prime and sum the noise of 2^16 coefficients. An error of 2^-24.1 is thus 2^-40.1 of
/// the prime in each coefficient. The two parts of a number then have 2^(p - 39.6): 2^-26.6 at
/// p = 13. The worst of 2^15 numbers has three times that, 2^-25. Under `CKKS_54_60`, numbers are
/// 2^-6 of the prime and the error is 2^-21.9, so the noise is some 16 times as much.
///
/// At p = 13 the largest numbers of the first set thus lose most to the sine. All numbers of the
/// second set lose most to noise. Another p would improve one set at the expense of the other.
const LOSSY_PART_LOG2: i32 = 13;

impl<'r> Bootstrap<'r> {
    /// Encodes the matrices of a regular bootstrap, `stages` in each direction, on one thread.
    pub fn new(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Result<Self, CkksError> {
        Self::of(ring, BootstrapShape { slots_log2, stages, size, kind: BootstrapKind::Regular }, 1)
    }

    /// As [`Self::new`] for a lossy bootstrap, which takes ciphertexts of level `stages` and leaves
    /// more levels afterwards.
    pub fn lossy(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Result<Self, CkksError> {
        Self::of(ring, BootstrapShape { slots_log2, stages, size, kind: BootstrapKind::Lossy }, 1)
    }

    /// As [`Self::new`] for any shape that the set supports, on `threads` threads.
    pub fn of(ring: &'r Ring, shape: BootstrapShape, threads: usize) -> Result<Self, CkksError> {
        shape.check(ring.set()).map_err(CkksError::NoSuchBootstrap)?;
        let mut bootstrap = Self {
            ring,
            shape,
            course: Course::of(shape, ring.set()),
            amplitude: 2_f64.powi(AMPLITUDE_LOG2),
            to_coefficients: vec![],
            to_values: vec![],
        };
        if shape.kind == BootstrapKind::Lossy {
            // Numbers return to the set's own scale.
            let unit = bootstrap.scale_after_remainder() * 2_f64.powi(-LOSSY_PART_LOG2);
            bootstrap.amplitude = ring.scale() / unit;
        }
        let evaluator = Evaluator::new(ring, threads);
        bootstrap.to_coefficients = bootstrap.encoded_to_coefficients(&evaluator)?;
        bootstrap.to_values = bootstrap.encoded_to_values(&evaluator)?;
        Ok(bootstrap)
    }

    /// Encodes the CoeffToSlot matrices. Their product yields a coefficient in units of `RANGE`
    /// times q. The coefficient is also halved, since its conjugate is added later. With few slots,
    /// it is divided by the number of its copies too, which the traces have added up.
    fn encoded_to_coefficients(&self, evaluator: &Evaluator<'_>) -> Result<Vec<EncodedMatrix>, CkksError> {
        let stages = self.shape.stages;
        let copies = self.ring.set().slots() / self.slots();
        let factor = 0.5 / (remainder::RANGE * copies) as f64;
        let matrices = self.ring.embedding(self.shape.slots_log2).to_coefficients(stages).into_iter();
        let encoded = matrices.zip(&self.course.to_coefficients).enumerate().map(|(index, (matrix, shape))| {
            let matrix = matrix.scale(Complex::from(root(factor, stages as u32)));
            let is_last = index + 1 == stages;
            let matrix = if self.is_packed() && is_last { packing::both_parts(&matrix) } else { matrix };
            let mut scale = self.prime(shape.level);
            if index == 0 {
                scale *= self.remainder_scale() / self.prime(0);
            }
            Self::encode(evaluator, &matrix, shape, scale)
        });
        encoded.collect()
    }

    fn encoded_to_values(&self, evaluator: &Evaluator<'_>) -> Result<Vec<EncodedMatrix>, CkksError> {
        let stages = self.shape.stages;
        let change = match self.shape.kind {
            BootstrapKind::Regular => {
                let unit = self.scale_after_remainder() * self.amplitude * self.ring.scale() / self.prime(0);
                self.ring.scale() / unit
            }
            BootstrapKind::Lossy => self.prime(0) * 2_f64.powi(-LOSSY_PART_LOG2) / self.ring.scale(),
        };
        let matrices = self.ring.embedding(self.shape.slots_log2).to_values(stages).into_iter();
        let encoded = matrices.zip(&self.course.to_values).enumerate().map(|(index, (matrix, shape))| {
            let matrix = if self.is_packed() && index == 0 { packing::of_both_parts(&matrix) } else { matrix };
            Self::encode(evaluator, &matrix, shape, self.prime(shape.level) * root(change, stages as u32))
        });
        encoded.collect()
    }

    fn encode(
        evaluator: &Evaluator<'_>,
        matrix: &Diagonals,
        shape: &MatrixShape,
        scale: f64,
    ) -> Result<EncodedMatrix, CkksError> {
        let MatrixShape { offsets, way, level, turned_before, turned_after } = shape;
        let matrix = matrix.turned(*turned_before, *turned_after);
        assert_eq!(Offsets::new(matrix.size(), matrix.offsets()), *offsets, "keys are made for these diagonals");
        EncodedMatrix::new(evaluator, &matrix, *way, *level, scale)
    }

    /// The ring.
    pub fn ring(&self) -> &'r Ring {
        self.ring
    }

    /// The shape, which determines the matrices and keys.
    pub fn shape(&self) -> BootstrapShape {
        self.shape
    }

    /// Minimum level of ciphertexts before the bootstrap.
    pub fn level_in(&self) -> usize {
        self.shape.level_in()
    }

    /// Level of ciphertexts after the bootstrap.
    pub fn level_out(&self) -> usize {
        self.shape.level_out(self.ring.set())
    }

    /// Size of the matrices in bytes.
    pub fn bytes(&self) -> usize {
        self.to_coefficients.iter().chain(&self.to_values).map(EncodedMatrix::bytes).sum()
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.shape.slots()
    }

    fn is_packed(&self) -> bool {
        self.shape.is_packed(self.ring.set())
    }

    fn raised_level(&self) -> usize {
        self.shape.raised_level(self.ring.set())
    }

    fn prime(&self, level: usize) -> f64 {
        self.ring.prime(level).modulus().value() as f64
    }

    fn remainder_scale(&self) -> f64 {
        self.prime(self.shape.remainder_level(self.ring.set()))
    }

    /// Scale of the remainders, as fractions of the first prime.
    fn scale_after_remainder(&self) -> f64 {
        let top = self.shape.remainder_level(self.ring.set());
        Remainder::of(self.ring.set()).scale_after(self.remainder_scale(), |below| self.prime(top - below))
    }
}

impl Evaluator<'_> {
    /// Bootstraps a ciphertext: returns the same numbers with new levels. Their magnitude must be
    /// at most about one, and the scale at most the set's own.
    pub fn bootstrap(
        &self,
        a: &Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &BootstrapKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.check_bootstrap(a, bootstrap, keys)?;
        self.together(|| self.bootstrap_of_checked(a, bootstrap, keys))
    }

    fn bootstrap_of_checked(
        &self,
        a: &Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &BootstrapKeys,
    ) -> Result<Ciphertext, CkksError> {
        let evaluation = &keys.evaluation;
        match bootstrap.shape.kind {
            BootstrapKind::Regular => {
                let numbers = self.numbers_of_coefficients(&a.at_level(0)?, bootstrap, keys)?;
                let mut numbers = self.remainders(&numbers, bootstrap, evaluation)?;
                numbers.scale *= a.scale / bootstrap.prime(0);
                let numbers = self.apply_to_values(numbers, bootstrap, evaluation)?;
                self.turned_back(numbers, bootstrap.course.numbers_back, evaluation)
            }
            BootstrapKind::Lossy => {
                // The matrices leave coefficients in the order of the numbers. Rotate the numbers
                // back before they become coefficients.
                let numbers = a.at_level(bootstrap.level_in())?;
                let numbers = self.turned_back(numbers, bootstrap.course.numbers_back, evaluation)?;
                let coefficients = self.apply_to_values(numbers, bootstrap, evaluation)?;
                let coefficients = self.turned_back(coefficients, bootstrap.course.coefficients_back, evaluation)?;
                let numbers = self.numbers_of_coefficients(&coefficients, bootstrap, keys)?;
                let mut numbers = self.remainders(&numbers, bootstrap, evaluation)?;
                numbers.scale *= coefficients.scale / bootstrap.prime(0);
                Ok(numbers)
            }
        }
    }

    /// Bootstraps two ciphertexts of real numbers as the parts of complex numbers. The results have
    /// twice the scale.
    pub fn bootstrap_both(
        &self,
        real: [&Ciphertext; 2],
        bootstrap: &Bootstrap<'_>,
        keys: &BootstrapKeys,
    ) -> Result<[Ciphertext; 2], CkksError> {
        let merged = self.bootstrap(&self.add(real[0], &self.times_i(real[1]))?, bootstrap, keys)?;
        let conjugate = self.conjugate(&merged, &keys.evaluation)?;
        let mut parts = [self.add(&merged, &conjugate)?, self.times_i(&self.sub(&conjugate, &merged)?)];
        parts.iter_mut().for_each(|part| part.scale *= 2.0);
        Ok(parts)
    }

    fn check_bootstrap(
        &self,
        a: &Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &BootstrapKeys,
    ) -> Result<(), CkksError> {
        self.check_slots(a.slots_log2, bootstrap.shape.slots_log2)?;
        let (left, right) = (self.ring().set(), bootstrap.ring.set());
        if left != right {
            return Err(CkksError::OtherSet { left: left.name, right: right.name });
        }
        if a.scale > 2.0 * self.ring().scale() {
            let modulus_log2 = bootstrap.prime(0).log2();
            return Err(CkksError::TooLarge { scale_log2: a.scale.log2(), modulus_log2 });
        }
        if a.level() < bootstrap.level_in() {
            let (got, least) = (a.level(), bootstrap.level_in());
            return Err(CkksError::LevelTooLow { what: "a lossy bootstrap with this number of stages", got, least });
        }
        let max = keys.to_dense.basis().level;
        let got = bootstrap.raised_level();
        if got > max {
            return Err(CkksError::LevelTooHigh { what: "the key from the sparse secret", got, max });
        }
        Ok(())
    }

    /// Raises a ciphertext of level 0 and applies CoeffToSlot. The resulting numbers are half the
    /// coefficients, as fractions of `RANGE` times the first prime.
    fn numbers_of_coefficients(
        &self,
        a: &Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &BootstrapKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.ask(BootstrapStep::Raise)?;
        let mut numbers = self.raise(a, bootstrap.raised_level(), keys);
        for turn in &bootstrap.course.traces {
            self.ask(BootstrapStep::ToCoefficients)?;
            let turned = self.rotate_full(&numbers, turn.steps, &keys.evaluation)?;
            self.add_polys(&mut numbers, &turned);
        }
        // With this scale, the multiples of the first prime are whole numbers.
        numbers.scale = bootstrap.prime(0);
        for (index, matrix) in bootstrap.to_coefficients.iter().enumerate() {
            self.ask(BootstrapStep::ToCoefficients)?;
            if bootstrap.is_packed() && index + 1 == bootstrap.to_coefficients.len() {
                numbers.slots_log2 += 1;
            }
            numbers = self.transform(&numbers, matrix, &keys.evaluation)?;
        }
        numbers.scale = bootstrap.remainder_scale();
        Ok(numbers)
    }

    /// EvalMod: the remainders of both parts of each number, given half of it. If the parts are
    /// packed side by side, the numbers have only one part.
    fn remainders(
        &self,
        halves: &Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.ask(BootstrapStep::Remainders)?;
        let conjugate = self.conjugate(halves, keys)?;
        let mut parts = vec![self.add(halves, &conjugate)?];
        if !bootstrap.is_packed() {
            parts.push(self.times_i(&self.sub(&conjugate, halves)?));
        }
        let remainder = Remainder::of(self.ring().set());
        let mut joined = remainder.take(self, parts, bootstrap.amplitude, keys)?;
        joined.scale *= bootstrap.amplitude;
        Ok(joined)
    }

    fn apply_to_values(
        &self,
        numbers: Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let mut numbers = numbers;
        for (index, matrix) in bootstrap.to_values.iter().enumerate() {
            self.ask(BootstrapStep::ToValues)?;
            numbers = self.transform(&numbers, matrix, keys)?;
            if let (0, Some(join)) = (index, bootstrap.course.join) {
                let turned = self.rotate_full(&numbers, join.steps, keys)?;
                self.add_polys(&mut numbers, &turned);
                numbers.slots_log2 -= 1;
            }
        }
        Ok(numbers)
    }

    fn turned_back(
        &self,
        numbers: Ciphertext,
        turn: Option<Turn>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        match turn {
            None => Ok(numbers),
            Some(turn) => self.rotate_full(&numbers, turn.steps, keys),
        }
    }

    /// The first step of a bootstrap: switches to the sparse secret, raises the modulus, and
    /// switches back. At the high level, each coefficient of the plaintext has a multiple of the
    /// first prime added.
    pub fn raise(&self, a: &Ciphertext, level: usize, keys: &BootstrapKeys) -> Ciphertext {
        assert_eq!(a.level(), 0, "only ciphertexts of level 0 can be raised");
        let [switched, mask] = self.switch(&a.polys[1], &keys.to_sparse);
        let mut body = a.polys[0].clone();
        self.add_to(&mut body, &switched);
        let digits = self.whole_digit(self.raised(&mask, Basis { level, special: keys.to_dense.basis().special }));
        let [mut switched, mask] = self.switched(&digits, &keys.to_dense);
        self.add_to(&mut switched, &self.raised(&body, Basis::of_level(level)));
        Ciphertext { polys: [switched, mask], scale: a.scale, slots_log2: a.slots_log2 }
    }

    /// Raises a polynomial of level 0 to the primes of another basis, with its coefficients of
    /// least magnitude.
    fn raised(&self, poly: &Poly, basis: Basis) -> Poly {
        let (ring, first) = (self.ring(), poly.row(0));
        let raising = ring.raising();
        let [mut prepared, mut wraps] = [ring.blank_rows(1), ring.blank_rows(1)];
        ring.prime(0).ntt.inverse_times_of(raising.prepare(0), &[first], &mut [&mut prepared]);
        raising.wraps(&[&prepared], &mut wraps);
        let mut raised = ring.blank(basis);
        self.each_row(&mut raised, |row, prime, to| match ring.index(basis, row).checked_sub(1) {
            None => to.copy_from_slice(first),
            Some(other) => {
                raising.residues(&[other], &[&prepared], &wraps, &mut [&mut *to]);
                prime.ntt.forward(&mut [to]);
            }
        });
        raised
    }

    /// Multiplies every number by i, exactly and without a level.
    pub fn times_i(&self, a: &Ciphertext) -> Ciphertext {
        let ring = self.ring();
        let polys = self.each_row_of_copies(a, a.level(), |_, row, _, to| ring.times_i(row, to));
        Ciphertext { polys, ..*a }
    }
}
