//! Products of a matrix and encrypted numbers.
//!
//! Each diagonal multiplies the numbers rotated by its offset. An offset is the sum of a *giant*
//! and a *baby* step. The numbers are rotated by each baby step once. For each giant step, the sum
//! of its diagonals times these rotated numbers is rotated as a whole. The baby steps are hoisted:
//! they share the digits of the mask. The special primes are divided out only once, after all giant
//! steps are added.

mod walking;

use std::collections::BTreeMap;

use cloakwork_math::ntt::PART;
use cloakwork_params::ckks::offsets::{Offsets, Steps, TURNED_TOGETHER, Way, rows_turned_together};

use crate::{
    ciphertext::Ciphertext,
    complex::Complex,
    diagonals::Diagonals,
    digits::{DigitsOfRow, DigitsOfStretch},
    error::CkksError,
    evaluator::Evaluator,
    key::{EvaluationKeys, MoveKey, rotation_power},
    poly::{Basis, Poly, by_row},
    pool::Words,
    rows::{Part, Rows, Stretch, by_source, by_stretch, transposed},
};

/// A stretch that is rotated consists of whole parts.
const _: () = assert!(TURNED_TOGETHER.is_power_of_two() && TURNED_TOGETHER.is_multiple_of(PART));

/// A matrix encoded for ciphertexts of one level. The matrix does not depend on any key.
pub struct EncodedMatrix {
    level: usize,
    scale: f64,
    slots_log2: u32,
    /// If set, the product rotates in consecutive steps of these lengths.
    walk: Option<Steps>,
    rotations: Vec<i64>,
    /// Baby steps, by index.
    babies: Vec<i64>,
    /// Diagonals of each giant step, each with the index of its baby step.
    giants: BTreeMap<i64, Vec<(usize, Poly)>>,
}

impl EncodedMatrix {
    /// Encodes a matrix at a level, on the threads of the evaluator. The scale of a product is the
    /// scale of the numbers times `scale`, divided by the level's prime. `way` selects how the
    /// numbers are rotated.
    pub fn new(
        evaluator: &Evaluator<'_>,
        matrix: &Diagonals,
        way: Way,
        level: usize,
        scale: f64,
    ) -> Result<Self, CkksError> {
        let (ring, n) = (evaluator.ring(), matrix.size());
        let offsets = Offsets::new(n, matrix.offsets());
        let steps = offsets.steps(way);
        let walk = steps.is_walk().then_some(steps);
        // With consecutive rotations, each one divides the special primes out.
        let basis = Basis { level, special: if walk.is_some() { 0 } else { ring.set().special.len() } };
        let rotations = offsets.rotations(way).into_iter().collect();
        let (babies, giants) = (Vec::new(), BTreeMap::new());
        let mut encoded = Self { level, scale, slots_log2: n.ilog2(), walk, rotations, babies, giants };
        let encode = |offset: usize| {
            let (_, giant) = steps.cut(offset);
            let diagonal = matrix.diagonal(offset);
            let turned: Vec<Complex> =
                (0..n).map(|row| diagonal[(row as i64 - giant).rem_euclid(n as i64) as usize]).collect();
            ring.encode(&turned, scale, basis)
        };
        let mut diagonals: Vec<_> = matrix.offsets().map(|offset| (offset, None)).collect();
        evaluator.each(&mut diagonals, |(offset, encoded)| *encoded = Some(encode(*offset)));
        for (offset, diagonal) in diagonals {
            let (baby, giant) = steps.cut(offset);
            let poly = diagonal.expect("each of them was encoded")?.poly;
            let number = encoded.babies.iter().position(|step| *step == baby).unwrap_or_else(|| {
                encoded.babies.push(baby);
                encoded.babies.len() - 1
            });
            encoded.giants.entry(giant).or_default().push((number, poly));
        }
        Ok(encoded)
    }

    /// The level of the encoding.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Size of the matrix in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let polys = self.giants.values().flatten();
        polys.map(|(_, poly)| size_of_val(poly.words())).sum()
    }

    /// Rotations that a product needs keys for.
    pub fn rotations(&self) -> impl Iterator<Item = i64> {
        self.rotations.iter().copied()
    }
}

impl Evaluator<'_> {
    /// Multiplies the numbers by the matrix. The result is one level below the matrix, with the
    /// product of both scales divided by that level's prime.
    pub fn transform(
        &self,
        a: &Ciphertext,
        matrix: &EncodedMatrix,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.check_slots(a.slots_log2, matrix.slots_log2)?;
        if a.level() < matrix.level {
            return Err(CkksError::LevelTooLow { what: "this matrix", got: a.level(), least: matrix.level });
        }
        let lowered = (a.level() > matrix.level).then(|| a.at_level(matrix.level)).transpose()?;
        let a = lowered.as_ref().unwrap_or(a);
        let below = matrix.level.checked_sub(1);
        let below = below.ok_or(CkksError::LevelTooLow { what: "a matrix", got: 0, least: 1 })?;
        if let Some(steps) = matrix.walk {
            return self.transform_walking(a, matrix, steps, keys);
        }
        let ring = self.ring();
        let basis = Basis { level: matrix.level, special: ring.set().special.len() };
        let babies =
            matrix.babies.iter().map(|steps| self.mover(*steps, matrix.level, keys)).collect::<Result<Vec<_>, _>>()?;
        let giants =
            matrix.giants.keys().map(|steps| self.mover(*steps, matrix.level, keys)).collect::<Result<Vec<_>, _>>()?;
        let sums = self.giant_sums(a, matrix, &babies, basis);
        let last = ring.prime(matrix.level).modulus().value() as f64;
        Ok(Ciphertext {
            polys: self.turned_and_added(sums, &giants, basis, below),
            scale: a.scale * matrix.scale / last,
            slots_log2: a.slots_log2,
        })
    }

    /// For each giant step, computes the sum of its diagonals times the numbers rotated by the baby
    /// steps, times the product of the special primes. A few primes are processed at a time, so
    /// that memory holds the rotated numbers for these only.
    fn giant_sums(
        &self,
        a: &Ciphertext,
        matrix: &EncodedMatrix,
        babies: &[Option<&MoveKey>],
        basis: Basis,
    ) -> Vec<[Poly; 2]> {
        let ring = self.ring();
        let digits = self.digits(&a.polys[1], basis.special);
        let mut sums: Vec<[Poly; 2]> = matrix.giants.values().map(|_| [ring.blank(basis), ring.blank(basis)]).collect();
        let together = rows_turned_together(ring.size(), self.threads());
        for (first, mut sums) in self.shares(by_row(sums.as_flattened_mut())) {
            let mut digits = self.rows_of_digits(&digits, first..first + sums.len());
            let rows = (first..).step_by(together).zip(digits.chunks_mut(together).zip(sums.chunks_mut(together)));
            for (first, (digits, sums)) in rows {
                let turned = self.turned_rows(a, first, digits, babies, basis);
                self.sums_of_rows(matrix, basis, first, &turned, sums);
            }
        }
        sums
    }

    /// Computes some rows, from row `first` on, of body and mask rotated by each baby step, times
    /// the product of the special primes.
    fn turned_rows(
        &self,
        a: &Ciphertext,
        first: usize,
        digits: &mut [DigitsOfRow<'_>],
        babies: &[Option<&MoveKey>],
        basis: Basis,
    ) -> Vec<Words> {
        let (ring, size, len) = (self.ring(), self.ring().size(), TURNED_TOGETHER.min(self.ring().size()));
        let mut turned: Vec<Words> = digits.iter().map(|_| ring.blank_rows(2 * babies.len())).collect();
        let mut items = Vec::new();
        for (row, (digits, turned)) in (first..).zip(digits.iter_mut().zip(&mut turned)) {
            let turned = turned.chunks_exact_mut(2 * size).zip(babies).map(|(turned, mover)| {
                let turned = by_stretch(turned.chunks_exact_mut(size), len);
                if let Some(mover) = mover { by_source(&mover.automorphism, len, turned) } else { turned }
            });
            let of_row = self.stretches(basis, row, len).zip(digits.by_stretch(len));
            items.extend(of_row.zip(transposed(turned)));
        }
        self.each(items, |((stretch, mut digits), mut turned)| {
            self.turn(a, &stretch, &mut digits, babies, basis, &mut turned);
        });
        turned
    }

    /// As [`Self::turned_rows`], for one stretch, whose target by each baby step is given.
    fn turn(
        &self,
        a: &Ciphertext,
        stretch: &Stretch<'_>,
        digits: &mut DigitsOfStretch<'_>,
        babies: &[Option<&MoveKey>],
        basis: Basis,
        turned: &mut [Rows<'_>],
    ) {
        let (ring, Stretch { row, prime, words }) = (self.ring(), stretch);
        let special = prime.modulus().factor(ring.special_product(basis.special, prime.modulus()));
        let raise = |which: usize, to: &mut [u64]| {
            if *row <= basis.level {
                to.copy_from_slice(&a.polys[which].row(*row)[words.clone()]);
                prime.pointwise.scale(to, special);
            } else {
                to.fill(0);
            }
        };
        let (mut body, mut switched) = (ring.blank_words(words.len()), ring.blank_words(2 * PART.min(words.len())));
        raise(0, &mut body);
        for (turned, _) in turned.iter_mut().zip(babies).filter(|(_, mover)| mover.is_none()) {
            turned[0].copy_from_slice(&body);
            raise(1, turned[1]);
        }
        let first = babies.iter().flatten().next();
        let next = first.map_or_else(Vec::new, |mover| self.rows_of_key(&mover.key, basis, *row));
        digits.of(stretch).each_part(&next, |part, digits| {
            for (turned, mover) in turned.iter_mut().zip(babies) {
                let Some(mover) = mover else { continue };
                let body = &body[part.in_stretch.clone()];
                self.moved_part(&digits[0], mover, basis, stretch, part, body, &mut switched, turned);
            }
        });
    }

    /// Computes some rows of the sum of each giant step, from row `first` on, from the numbers
    /// rotated by the baby steps.
    fn sums_of_rows(
        &self,
        matrix: &EncodedMatrix,
        basis: Basis,
        first: usize,
        turned: &[Words],
        sums: &mut [Rows<'_>],
    ) {
        let (size, mut items) = (self.ring().size(), Vec::new());
        for (row, (turned, sums)) in (first..).zip(turned.iter().zip(sums)) {
            let sums = by_stretch(sums.iter_mut().map(|row| &mut **row), TURNED_TOGETHER);
            let stretches = self.stretches(basis, row, TURNED_TOGETHER).zip(sums);
            items.extend(stretches.map(|(stretch, sums)| (stretch, turned, sums)));
        }
        self.each(items, |(Stretch { row, prime, words }, turned, mut sums)| {
            let turned: Vec<&[u64]> = turned.chunks_exact(size).map(|row| &row[words.clone()]).collect();
            for (diagonals, sums) in matrix.giants.values().zip(sums.chunks_exact_mut(2)) {
                let terms = diagonals
                    .iter()
                    .map(|(baby, poly)| (&poly.row(row)[words.clone()], [turned[2 * baby], turned[2 * baby + 1]]));
                let [body, mask] = sums else { unreachable!("body and mask for each giant step") };
                prime.pointwise.sums_of_products(&terms.collect::<Vec<_>>(), [body, mask]);
            }
        });
    }

    /// Rotates the sum of each giant step by its step, adds all of them, and divides by the special
    /// primes and the last prime.
    fn turned_and_added(
        &self,
        sums: Vec<[Poly; 2]>,
        giants: &[Option<&MoveKey>],
        basis: Basis,
        below: usize,
    ) -> [Poly; 2] {
        let ring = self.ring();
        let (mut total, mut movers, mut bodies, mut masks) = (None, Vec::new(), Vec::new(), Vec::new());
        for ([body, mask], mover) in sums.into_iter().zip(giants) {
            match mover {
                // At most one giant step is 0.
                None => total = Some([body, mask]),
                Some(mover) => {
                    movers.push(*mover);
                    bodies.push(body);
                    masks.push(mask);
                }
            }
        }
        let mut total = total.unwrap_or_else(|| [ring.zero(basis), ring.zero(basis)]);
        if movers.is_empty() {
            return self.lowered(total, below);
        }
        self.lower(&mut masks, basis.level);
        let masks: Vec<Poly> = masks.into_iter().map(|mask| mask.cut(basis.level)).collect();
        for (place, ((mover, body), mask)) in movers.iter().zip(&bodies).zip(&masks).enumerate() {
            let digits = self.digits(mask, basis.special).moved_by(&mover.automorphism);
            let add = |stretch: &Stretch<'_>, digits: &mut DigitsOfStretch<'_>, total: &mut Rows<'_>| {
                self.add_turned(mover, body, digits, basis, stretch, total);
            };
            if place + 1 == movers.len() {
                self.lower_made(&digits, &mut total, below, add);
            } else {
                self.each_stretch_of_digits(&digits, by_row(&mut total), add);
            }
        }
        total.map(|poly| poly.cut(below))
    }

    /// Adds to one stretch the words that a giant step moves there from its sum, given the digits
    /// of the sum's mask for that stretch.
    fn add_turned(
        &self,
        mover: &MoveKey,
        body: &Poly,
        digits: &mut DigitsOfStretch<'_>,
        basis: Basis,
        stretch: &Stretch<'_>,
        total: &mut Rows<'_>,
    ) {
        let (ring, part) = (self.ring(), PART.min(self.ring().size()));
        let [mut switched, mut moved] = [2, 2].map(|count| ring.blank_words(count * part));
        let mut moved: Rows<'_> = moved.chunks_exact_mut(part).collect();
        digits.each_part(&self.rows_of_key(&mover.key, basis, stretch.row), |part, digits| {
            let body = &body.row(stretch.row)[part.in_row.clone()];
            self.moved_part(&digits[0], mover, basis, stretch, part, body, &mut switched, &mut moved);
            let target = mover.automorphism.target(part.in_row.start, body.len()) - stretch.words.start;
            for (to, moved) in total.iter_mut().zip(&moved) {
                stretch.prime.pointwise.add(&mut to[target..][..body.len()], moved);
            }
        });
    }

    /// Multiplies a part of one row by a key and applies the automorphism. The intermediate product
    /// stays in cache.
    fn moved_part(
        &self,
        digits: &[&[u64]],
        mover: &MoveKey,
        basis: Basis,
        stretch: &Stretch<'_>,
        part: &Part,
        body: &[u64],
        switched: &mut [u64],
        to: &mut Rows<'_>,
    ) {
        let (switched_body, switched_mask) = switched.split_at_mut(body.len());
        self.product_of_part(digits, &mover.key, basis, stretch, part, [&mut *switched_body, &mut *switched_mask]);
        stretch.prime.pointwise.add(switched_body, body);
        for (from, to) in [switched_body, switched_mask].into_iter().zip(to) {
            mover.automorphism.apply_part(part.in_row.start, from, to);
        }
    }

    fn mover<'k>(&self, steps: i64, level: usize, keys: &'k EvaluationKeys) -> Result<Option<&'k MoveKey>, CkksError> {
        let power = rotation_power(self.ring(), steps);
        (steps != 0).then(|| keys.mover(power, level, || format!("a rotation by {steps}"))).transpose()
    }
}
