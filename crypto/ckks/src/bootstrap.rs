//! New levels for a ciphertext that has none left.
//!
//! 1. The secret changes to a sparse one, modulo the first prime q alone.
//! 2. Modulo many primes, the same polynomials stand for the plaintext and a small multiple of q in each coefficient.
//!    The secret changes back.
//! 3. Coefficients become numbers, by some matrices.
//! 4. Multiples of q are taken off each (`remainder`).
//! 5. Numbers become coefficients.
//!
//! A *lossy* one takes the last step first, while the ciphertext has some levels left: there it is cheap. Numbers are then a
//! smaller part of q, and the noise a larger one of them.

mod keys;
mod packing;
mod remainder;

pub use keys::{BootstrapKeys, SeededBootstrapKeys};

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
    evaluator::Evaluator,
    key::EvaluationKeys,
    linear::EncodedMatrix,
    poly::{Basis, Poly},
    ring::Ring,
};

/// What a bootstrap does, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BootstrapStep {
    /// To the sparse secret, to a high level, and back to the secret.
    Raise,
    /// Coefficients become numbers.
    ToCoefficients,
    /// Multiples of the first prime are taken off.
    Remainders,
    /// Numbers become coefficients.
    ToValues,
}

/// A bootstrap of ciphertexts of some number of slots: what it needs that no key is in. One is shared by everybody.
pub struct Bootstrap<'r> {
    ring: &'r Ring,
    shape: BootstrapShape,
    /// All that it turns, by which its matrices were made.
    course: Course,
    /// What remainders are multiplied by.
    amplitude: f64,
    to_coefficients: Vec<EncodedMatrix>,
    to_values: Vec<EncodedMatrix>,
}

/// log2 of the amplitude A of remainders in a regular bootstrap, which its matrices take away again.
///
/// After i of d doublings, cosines are multiplied by f_i = (A / 2 pi)^(1 / 2^(d - i)). An error e that arises there is multiplied by up
/// to 4 f_j by each doubling from then on. As f_j squared is f_(j+1), all of these are 4^(d - i) f_d / f_i, and f_d = A / 2 pi. What
/// comes out is A times the remainder: of that, in parts of the first prime, the error is up to 4^(d - i) e / (2 pi f_i). It is greatest
/// for the cosine before it is doubled, i = 0. There, A = 2^8 makes it 2^(8 / 2^d) times less than 1 does, two times for three doublings
/// and four times for two, and each later one is a sixth of it or less. To halve the first again, A is to be 2^8 times as large (or
/// 2^4), and the matrices are encoded with log2(A) / stages bits less.
const AMPLITUDE_LOG2: i32 = 8;

/// log2 of the part of the first prime that a number of one is in a lossy bootstrap.
///
/// A sine is less than its angle by a third power: of a number m as the part m / 2^p, it takes m^3 (2 pi / 2^p)^2 / 6, which is
/// m^3 2^-23.3 at p = 13, and a quarter of that with each p more. The noise of remainders is the same whatever the part, so that it
/// is twice as much of a number with each p more. Regular bootstraps of `CKKS_45_60_50` tell it: their numbers are 2^-8 of the prime, and
/// gather it from 2^16 coefficients, so that an error of 2^-24.1 is 2^-40.1 of the prime in each. The two parts of a number have
/// 2^(p - 39.6) then: 2^-26.6 at p = 13, and the worst of 2^15 numbers three times that, 2^-25. Of `CKKS_54_60`, where numbers are 2^-6
/// of the prime and the error is 2^-21.9, it is some 16 times as much. So at 13 the largest numbers of the one set lose most to the sine,
/// and all of the other to noise: what another p brought one of them, it would cost the other.
const LOSSY_PART_LOG2: i32 = 13;

impl<'r> Bootstrap<'r> {
    /// Encodes the matrices, `stages` in each direction, on one thread.
    pub fn new(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Result<Self, CkksError> {
        Self::of(ring, BootstrapShape { slots_log2, stages, size, kind: BootstrapKind::Regular }, 1)
    }

    /// The same of a lossy bootstrap: it takes ciphertexts of level `stages`, and leaves them more levels.
    pub fn lossy(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Result<Self, CkksError> {
        Self::of(ring, BootstrapShape { slots_log2, stages, size, kind: BootstrapKind::Lossy }, 1)
    }

    /// The same of any shape that there is, on so many threads.
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
            // Numbers have the set's own scale again.
            let unit = bootstrap.scale_after_remainder() * 2_f64.powi(-LOSSY_PART_LOG2);
            bootstrap.amplitude = ring.scale() / unit;
        }
        let evaluator = Evaluator::new(ring, threads);
        bootstrap.to_coefficients = bootstrap.encoded_to_coefficients(&evaluator)?;
        bootstrap.to_values = bootstrap.encoded_to_values(&evaluator)?;
        Ok(bootstrap)
    }

    /// Matrices whose product leaves a coefficient in parts of `range` times q, and half of it, for its conjugate is added;
    /// and of few slots, each coefficient has been added up from all its copies.
    fn encoded_to_coefficients(&self, evaluator: &Evaluator<'_>) -> Result<Vec<EncodedMatrix>, CkksError> {
        let stages = self.shape.stages;
        let copies = self.ring.set().slots() / self.slots();
        let factor = 0.5 / (remainder::RANGE * copies) as f64;
        let matrices = self.ring.embedding(self.shape.slots_log2).to_coefficients(stages).into_iter();
        let encoded = matrices.zip(&self.course.to_coefficients).enumerate().map(|(index, (matrix, shape))| {
            let matrix = matrix.scale(Complex::from(factor.powf(1.0 / stages as f64)));
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
            Self::encode(evaluator, &matrix, shape, self.prime(shape.level) * change.powf(1.0 / stages as f64))
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

    /// What decides which matrices and keys it takes.
    pub fn shape(&self) -> BootstrapShape {
        self.shape
    }

    /// The level that ciphertexts have at least beforehand.
    pub fn level_in(&self) -> usize {
        self.shape.level_in()
    }

    /// The level that ciphertexts have afterwards.
    pub fn level_out(&self) -> usize {
        self.shape.level_out(self.ring.set())
    }

    /// Bytes of the matrices.
    pub fn bytes(&self) -> usize {
        self.to_coefficients.iter().chain(&self.to_values).map(EncodedMatrix::bytes).sum()
    }

    /// How many numbers it is for.
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

    /// Of remainders, in parts of the first prime.
    fn scale_after_remainder(&self) -> f64 {
        let top = self.shape.remainder_level(self.ring.set());
        Remainder::of(self.ring.set()).scale_after(self.remainder_scale(), |below| self.prime(top - below))
    }
}

impl Evaluator<'_> {
    /// The same numbers, of magnitude up to about one and with a scale up to the set's, with new levels.
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
                // Coefficients are in the order of the numbers: these are turned before they become that.
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

    /// Two ciphertexts of real numbers in one bootstrap, as the parts of complex ones. Afterwards they have twice the scale.
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
            return Err(CkksError::LevelTooLow { what: "a lossy bootstrap of as many stages", got, least });
        }
        let max = keys.to_dense.basis().level;
        let got = bootstrap.raised_level();
        if got > max {
            return Err(CkksError::LevelTooHigh { what: "the key from the sparse secret", got, max });
        }
        Ok(())
    }

    /// Raises a ciphertext of level 0, and makes numbers of half its coefficients in parts of the first prime.
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
        // What is taken for the scale makes the multiples of the first prime whole numbers.
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

    /// Of both parts of each number, given half of it; or of the one part, where the parts are side by side.
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

    /// Through the sparse secret to a high level, where the plaintext has a multiple of the first prime added to each
    /// coefficient: what a bootstrap begins with.
    pub fn raise(&self, a: &Ciphertext, level: usize, keys: &BootstrapKeys) -> Ciphertext {
        assert_eq!(a.level(), 0, "what is raised is modulo the first prime");
        let [switched, mask] = self.switch(&a.polys[1], &keys.to_sparse);
        let mut body = a.polys[0].clone();
        self.add_to(&mut body, &switched);
        let digits = self.whole_digit(self.raised(&mask, Basis { level, special: keys.to_dense.basis().special }));
        let [mut switched, mask] = self.switched(&digits, &keys.to_dense);
        self.add_to(&mut switched, &self.raised(&body, Basis::of_level(level)));
        Ciphertext { polys: [switched, mask], scale: a.scale, slots_log2: a.slots_log2 }
    }

    /// A polynomial of level 0 modulo the primes of another basis: its coefficients are those of least magnitude.
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

    /// Every number times i: exact, and at no cost of levels.
    pub fn times_i(&self, a: &Ciphertext) -> Ciphertext {
        let ring = self.ring();
        let polys = self.each_row_of_copies(a, a.level(), |_, row, _, to| ring.times_i(row, to));
        Ciphertext { polys, ..*a }
    }
}
