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

use self::remainder::Remainder;
use crate::{
    ciphertext::Ciphertext,
    complex::Complex,
    diagonals::Diagonals,
    error::CkksError,
    evaluator::Evaluator,
    key::EvaluationKeys,
    linear::{EncodedMatrix, turns_to_the_right},
    poly::Basis,
    ring::Ring,
};

/// How many keys for rotations a bootstrap has: more keys make it faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySize {
    /// Two for each pair of matrices: rotations go one step after the other.
    Small,
    /// About as many baby steps as giant ones.
    Medium,
    /// Twice as many baby steps, which are cheaper.
    Large,
}

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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Numbers become coefficients at the end.
    Regular,
    /// They do at the beginning.
    Lossy,
}

/// A bootstrap of ciphertexts of some number of slots: what it needs that no key is in. One is shared by everybody.
pub struct Bootstrap<'r> {
    ring: &'r Ring,
    slots_log2: u32,
    order: Order,
    remainder_level: usize,
    raised_level: usize,
    /// What remainders are multiplied by.
    amplitude: f64,
    to_coefficients: Vec<EncodedMatrix>,
    to_values: Vec<EncodedMatrix>,
    /// Places to the left that numbers have turned by after the last matrix, and the level at which that is made up for.
    turned: usize,
    turning_level: usize,
    /// The same of a lossy one's coefficients, at level 0.
    coefficients_turned: usize,
}

/// log2 of the amplitude of remainders: the larger they are, the less of them is noise. Matrices make up for it.
const AMPLITUDE_LOG2: i32 = 8;

/// log2 of the part of the first prime that numbers are in a lossy bootstrap.
const LOSSY_PART_LOG2: i32 = 13;

impl<'r> Bootstrap<'r> {
    /// Encodes the matrices, `stages` in each direction.
    pub fn new(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Result<Self, CkksError> {
        Self::of(ring, slots_log2, stages, size, Order::Regular)
    }

    /// The same of a lossy bootstrap: it takes ciphertexts of level `stages`, and leaves them more levels.
    pub fn lossy(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Result<Self, CkksError> {
        Self::of(ring, slots_log2, stages, size, Order::Lossy)
    }

    fn of(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize, order: Order) -> Result<Self, CkksError> {
        let set = ring.set();
        let max = set.size_log2 - 1;
        if !(1..=max).contains(&slots_log2) {
            return Err(CkksError::WrongSlots { got: 1 << slots_log2.min(31), max: 1 << max });
        }
        if !(1..=set.bootstrap.raised.len()).contains(&stages) || stages > slots_log2 as usize {
            return Err(CkksError::WrongStages { got: stages, slots: 1 << slots_log2 });
        }
        let raised_level = set.bootstrap.raised[stages - 1];
        let mut bootstrap = Self {
            ring,
            slots_log2,
            order,
            remainder_level: raised_level - stages,
            raised_level,
            amplitude: 2_f64.powi(AMPLITUDE_LOG2),
            to_coefficients: vec![],
            to_values: vec![],
            turned: 0,
            turning_level: 0,
            coefficients_turned: 0,
        };
        if order == Order::Lossy {
            // Numbers have the set's own scale again.
            let unit = bootstrap.scale_after_remainder() * 2_f64.powi(-LOSSY_PART_LOG2);
            bootstrap.amplitude = ring.scale() / unit;
            bootstrap.turning_level = stages;
            bootstrap.encode_to_values(stages, size)?;
            bootstrap.coefficients_turned = std::mem::take(&mut bootstrap.turned);
            bootstrap.encode_to_coefficients(stages, size)?;
        } else {
            bootstrap.encode_to_coefficients(stages, size)?;
            bootstrap.encode_to_values(stages, size)?;
            bootstrap.turning_level = bootstrap.level_out();
        }
        Ok(bootstrap)
    }

    /// Matrices whose product leaves a coefficient in parts of `range` times q, and half of it, for its conjugate is added;
    /// and of few slots, each coefficient has been added up from all its copies.
    fn encode_to_coefficients(&mut self, stages: usize, size: KeySize) -> Result<(), CkksError> {
        let copies = self.ring.set().slots() >> self.slots_log2;
        let factor = 0.5 / (remainder::RANGE * copies) as f64;
        let matrices = self.ring.embedding(self.slots_log2).to_coefficients(stages);
        for (index, matrix) in matrices.into_iter().enumerate() {
            let level = self.raised_level - index;
            let matrix = matrix.scale(Complex::from(factor.powf(1.0 / stages as f64)));
            let is_last = index + 1 == stages;
            let matrix = if self.is_packed() && is_last { packing::both_parts(&matrix) } else { matrix };
            let mut scale = self.prime(level);
            if index == 0 {
                scale *= self.remainder_scale() / self.prime(0);
            }
            let encoded = self.encode(&matrix, size, level, scale)?;
            self.to_coefficients.push(encoded);
        }
        Ok(())
    }

    fn encode_to_values(&mut self, stages: usize, size: KeySize) -> Result<(), CkksError> {
        let (start, change) = match self.order {
            Order::Regular => {
                let unit = self.scale_after_remainder() * self.amplitude * self.ring.scale() / self.prime(0);
                (self.remainder_level - remainder::DEPTH, self.ring.scale() / unit)
            }
            Order::Lossy => (stages, self.prime(0) * 2_f64.powi(-LOSSY_PART_LOG2) / self.ring.scale()),
        };
        let matrices = self.ring.embedding(self.slots_log2).to_values(stages);
        for (index, matrix) in matrices.into_iter().enumerate() {
            let level = start - index;
            let matrix = if self.is_packed() && index == 0 { packing::of_both_parts(&matrix) } else { matrix };
            let scale = self.prime(level) * change.powf(1.0 / stages as f64);
            let encoded = self.encode(&matrix, size, level, scale)?;
            self.to_values.push(encoded);
        }
        Ok(())
    }

    fn encode(
        &mut self,
        matrix: &Diagonals,
        size: KeySize,
        level: usize,
        scale: f64,
    ) -> Result<EncodedMatrix, CkksError> {
        match size {
            KeySize::Small => {
                let (before, after) = (self.turned, self.turned + turns_to_the_right(matrix));
                self.turned = after % self.ring.set().slots();
                EncodedMatrix::walked(self.ring, &matrix.turned(before, after), level, scale)
            }
            KeySize::Medium => EncodedMatrix::new(self.ring, matrix, 0, level, scale),
            KeySize::Large => EncodedMatrix::new(self.ring, matrix, 1, level, scale),
        }
    }

    /// The ring.
    pub fn ring(&self) -> &'r Ring {
        self.ring
    }

    /// The level that ciphertexts have at least beforehand.
    pub fn level_in(&self) -> usize {
        if self.order == Order::Lossy { self.to_values.len() } else { 0 }
    }

    /// The level that ciphertexts have afterwards.
    pub fn level_out(&self) -> usize {
        let taken = if self.order == Order::Lossy { 0 } else { self.to_values.len() };
        self.remainder_level - remainder::DEPTH - taken
    }

    /// The level that ciphertexts are raised to: keys go up to it.
    pub fn raised_level(&self) -> usize {
        self.raised_level
    }

    /// The level after the first matrices: keys for products and conjugates go up to it.
    pub fn remainder_level(&self) -> usize {
        self.remainder_level
    }

    /// Rotations that it takes, each with the highest level it is needed at.
    pub fn rotations(&self) -> Vec<(i64, usize)> {
        let mut highest = std::collections::BTreeMap::new();
        let matrices = self.to_coefficients.iter().chain(&self.to_values);
        let of_matrices = matrices.flat_map(|matrix| matrix.rotations().map(|steps| (steps, matrix.level())));
        let traces = self.traces().map(|steps| (steps, self.raised_level));
        let joins = self.is_packed().then(|| (self.slots() as i64, self.to_values[0].level() - 1));
        let turns = [(self.turned, self.turning_level), (self.coefficients_turned, 0)];
        let turns = turns.into_iter().filter_map(|(turned, level)| Some((self.turn_back(turned)?, level)));
        for (steps, level) in of_matrices.chain(traces).chain(joins).chain(turns) {
            // Turns to the left and to the right that come to the same have one key.
            let level_max: &mut usize = highest.entry(steps.rem_euclid(self.ring.set().slots() as i64)).or_default();
            *level_max = level.max(*level_max);
        }
        highest.into_iter().collect()
    }

    /// Bytes of the matrices.
    pub fn bytes(&self) -> usize {
        self.to_coefficients.iter().chain(&self.to_values).map(EncodedMatrix::bytes).sum()
    }

    /// How many numbers it is for.
    pub fn slots(&self) -> usize {
        1 << self.slots_log2
    }

    /// Are both parts of the coefficients side by side in one ciphertext? There is room for them but in a full one, and
    /// afterwards a matrix brings them together.
    fn is_packed(&self) -> bool {
        self.slots() < self.ring.set().slots() && self.order == Order::Regular
    }

    fn traces(&self) -> impl Iterator<Item = i64> + use<> {
        (self.slots_log2..self.ring.set().size_log2 - 1).map(|log2| 1 << log2)
    }

    /// The turn that makes up for one by so many places.
    fn turn_back(&self, turned: usize) -> Option<i64> {
        let turned = turned % self.slots();
        (turned != 0).then(|| (self.slots() - turned) as i64)
    }

    fn prime(&self, level: usize) -> f64 {
        self.ring.prime(level).modulus().value() as f64
    }

    fn remainder_scale(&self) -> f64 {
        self.prime(self.remainder_level)
    }

    /// Of remainders, in parts of the first prime.
    fn scale_after_remainder(&self) -> f64 {
        let top = self.remainder_level;
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
        let evaluation = &keys.evaluation;
        match bootstrap.order {
            Order::Regular => {
                let numbers = self.numbers_of_coefficients(&a.at_level(0)?, bootstrap, keys)?;
                let mut numbers = self.remainders(&numbers, bootstrap, evaluation)?;
                numbers.scale *= a.scale / bootstrap.prime(0);
                let numbers = self.apply_to_values(numbers, bootstrap, evaluation)?;
                self.turned_back(numbers, bootstrap.turn_back(bootstrap.turned), evaluation)
            }
            Order::Lossy => {
                // Coefficients are in the order of the numbers: these are turned before they become that.
                let numbers = a.at_level(bootstrap.level_in())?;
                let numbers = self.turned_back(numbers, bootstrap.turn_back(bootstrap.turned), evaluation)?;
                let coefficients = self.apply_to_values(numbers, bootstrap, evaluation)?;
                let turn = bootstrap.turn_back(bootstrap.coefficients_turned);
                let coefficients = self.turned_back(coefficients, turn, evaluation)?;
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
        self.check_slots(a.slots_log2, bootstrap.slots_log2)?;
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
        if bootstrap.raised_level > max {
            let got = bootstrap.raised_level;
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
        self.begins(BootstrapStep::Raise);
        let mut numbers = self.raise(a, bootstrap.raised_level, keys);
        self.begins(BootstrapStep::ToCoefficients);
        for steps in bootstrap.traces() {
            let turned = self.rotate_full(&numbers, steps, &keys.evaluation)?;
            self.add_polys(&mut numbers, &turned);
        }
        // What is taken for the scale makes the multiples of the first prime whole numbers.
        numbers.scale = bootstrap.prime(0);
        for (index, matrix) in bootstrap.to_coefficients.iter().enumerate() {
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
        self.begins(BootstrapStep::Remainders);
        let conjugate = self.conjugate(halves, keys)?;
        let remainder = Remainder::of(self.ring().set());
        let of_part = |part: &Ciphertext| remainder.take(self, part, bootstrap.amplitude, keys);
        let mut joined = of_part(&self.add(halves, &conjugate)?)?;
        if !bootstrap.is_packed() {
            let imaginary = self.times_i(&self.sub(&conjugate, halves)?);
            self.add_polys(&mut joined, &self.times_i(&of_part(&imaginary)?));
        }
        joined.scale *= bootstrap.amplitude;
        Ok(joined)
    }

    fn apply_to_values(
        &self,
        numbers: Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.begins(BootstrapStep::ToValues);
        let mut numbers = numbers;
        for (index, matrix) in bootstrap.to_values.iter().enumerate() {
            numbers = self.transform(&numbers, matrix, keys)?;
            if bootstrap.is_packed() && index == 0 {
                let turned = self.rotate_full(&numbers, bootstrap.slots() as i64, keys)?;
                self.add_polys(&mut numbers, &turned);
                numbers.slots_log2 -= 1;
            }
        }
        Ok(numbers)
    }

    fn turned_back(
        &self,
        numbers: Ciphertext,
        steps: Option<i64>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        match steps {
            None => Ok(numbers),
            Some(steps) => self.rotate_full(&numbers, steps, keys),
        }
    }

    /// Through the sparse secret to a high level.
    fn raise(&self, a: &Ciphertext, level: usize, keys: &BootstrapKeys) -> Ciphertext {
        let ring = self.ring();
        let [switched, mask] = self.switch(&a.polys[1], &keys.to_sparse);
        let mut body = a.polys[0].clone();
        self.add_to(&mut body, &switched);
        let digits = self.whole_digit(ring.raised(&mask, Basis { level, special: keys.to_dense.basis().special }));
        let [mut switched, mask] = self.without_special(self.product(&digits, &keys.to_dense));
        self.add_to(&mut switched, &ring.raised(&body, Basis::of_level(level)));
        Ciphertext { polys: [switched, mask], scale: a.scale, slots_log2: a.slots_log2 }
    }

    /// Every number times i.
    fn times_i(&self, a: &Ciphertext) -> Ciphertext {
        let (ring, basis) = (self.ring(), a.basis());
        let mut product = a.clone();
        self.each_row_of_both(&mut product.polys, |row, _, to| {
            to.into_iter().for_each(|to| ring.times_i(ring.index(basis, row), to));
        });
        product
    }
}
