//! A matrix times encrypted numbers.
//!
//! Each diagonal is multiplied by the numbers turned by its offset. Offsets are a *giant* and a *baby* step: the numbers
//! are turned by each baby step once, and each giant step's sum of diagonals times those is turned as a whole. What the
//! baby steps have in common, the digits of the mask, is worked out once, and nothing leaves the special primes before all
//! giant steps are added up.

mod walking;

use std::{collections::BTreeMap, ops::Range, slice};

use cloakwork_math::ntt::PART;
use cloakwork_params::ckks::offsets::{GIANTS_TOGETHER, Offsets, Steps, Way};

use crate::{
    ciphertext::Ciphertext,
    complex::Complex,
    diagonals::Diagonals,
    digits::{DigitsOfRow, parts},
    error::CkksError,
    evaluator::Evaluator,
    key::{EvaluationKeys, MoveKey, rotation_power},
    lowering::Rows,
    poly::{Basis, Poly, by_row},
    pool::Words,
    ring::Prime,
};

/// A matrix encoded for ciphertexts of one level. It knows nothing of any key.
pub struct EncodedMatrix {
    level: usize,
    scale: f64,
    slots_log2: u32,
    /// Where the product goes one step after the other: how long they are.
    walk: Option<Steps>,
    rotations: Vec<i64>,
    /// Baby steps, in the order of their numbers.
    babies: Vec<i64>,
    /// By giant step, its diagonals, each with the number of its baby step.
    giants: BTreeMap<i64, Vec<(usize, Poly)>>,
}

impl EncodedMatrix {
    /// Encodes a matrix at a level; what comes out of a product with it has `scale` times the scale, over the level's prime.
    /// Numbers turn by its steps in the way that is asked for. The evaluator's threads encode it.
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
        // Where turns go one after the other, each leaves the special primes.
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

    /// The level that it is for.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let polys = self.giants.values().flatten();
        polys.map(|(_, poly)| size_of_val(poly.words())).sum()
    }

    /// Rotations that a product with it takes keys for.
    pub fn rotations(&self) -> impl Iterator<Item = i64> {
        self.rotations.iter().copied()
    }
}

impl Evaluator<'_> {
    /// The matrix times the numbers, a level below it, with the product of both scales over that level's prime.
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

    /// For each giant step, the sum of its diagonals times the numbers turned by the baby steps, times the product of the
    /// special primes: prime by prime, so that the turned numbers need be kept for one prime only.
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
        let mut rows = by_row(sums.as_flattened_mut());
        self.each_row_of_digits(slice::from_ref(&digits), &mut rows, |row, prime, digits, sums| {
            let turned = self.turned_rows(a, &mut digits[0], babies, basis, row, prime);
            let turned: Vec<&[u64]> = turned.chunks_exact(ring.size()).collect();
            for part in parts(ring.size()) {
                for (diagonals, sums) in matrix.giants.values().zip(sums.chunks_exact_mut(2)) {
                    let terms: Vec<(&[u64], [&[u64]; 2])> = diagonals
                        .iter()
                        .map(|(baby, poly)| {
                            let turned = [turned[2 * baby], turned[2 * baby + 1]];
                            (&poly.row(row)[part.clone()], turned.map(|row| &row[part.clone()]))
                        })
                        .collect();
                    let [body, mask] = sums else { unreachable!("body and mask for each giant step") };
                    prime.pointwise.sums_of_products(&terms, [&mut body[part.clone()], &mut mask[part.clone()]]);
                }
            }
        });
        sums
    }

    /// Modulo one prime, body and mask turned by each baby step, times the product of the special primes.
    fn turned_rows(
        &self,
        a: &Ciphertext,
        digits: &mut DigitsOfRow<'_>,
        babies: &[Option<&MoveKey>],
        basis: Basis,
        row: usize,
        prime: &Prime,
    ) -> Words {
        let (ring, modulus) = (self.ring(), prime.modulus());
        let special = modulus.factor(ring.special_product(basis.special, modulus));
        let raise = |which: usize, to: &mut [u64]| {
            if row <= basis.level {
                to.copy_from_slice(a.polys[which].row(row));
                prime.pointwise.scale(to, special);
            } else {
                to.fill(0);
            }
        };
        let (size, mut turned) = (ring.size(), ring.blank_rows(2 * babies.len()));
        let mut body = ring.blank_rows(1);
        raise(0, &mut body);
        for (turned, _) in turned.chunks_exact_mut(2 * size).zip(babies).filter(|(_, mover)| mover.is_none()) {
            let (turned_body, turned_mask) = turned.split_at_mut(size);
            turned_body.copy_from_slice(&body);
            raise(1, turned_mask);
        }
        let mut switched = ring.blank_words(2 * PART.min(size));
        let first = babies.iter().flatten().next();
        let next = first.map_or_else(Vec::new, |mover| self.rows_of_key(&mover.key, basis, row));
        digits.each_part(&next, |part, digits| {
            for (turned, mover) in turned.chunks_exact_mut(2 * size).zip(babies) {
                let Some(mover) = mover else { continue };
                let moved = turned.split_at_mut(size).into();
                self.moved_part(&digits[0], mover, basis, row, prime, part.clone(), &body, &mut switched, moved);
            }
        });
        turned
    }

    /// The sum of all giant steps' sums, each turned by its step, divided by the special primes and the last one.
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
                // There is one step of none.
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
        for first in (0..movers.len()).step_by(GIANTS_TOGETHER) {
            let group = first..movers.len().min(first + GIANTS_TOGETHER);
            let is_last = group.end == movers.len();
            let digits = self.digits_of_each(&masks[group.clone()], basis.special);
            let (movers, bodies) = (&movers[group.clone()], &bodies[group]);
            let add = |row: usize, prime: &Prime, digits: &mut [DigitsOfRow<'_>], total: &mut Rows<'_>| {
                self.add_turned(movers, bodies, digits, basis, row, prime, total);
            };
            if is_last {
                self.lower_made(&digits, &mut total, below, add);
            } else {
                self.each_row_of_digits(&digits, &mut by_row(&mut total), add);
            }
        }
        total.map(|poly| poly.cut(below))
    }

    /// Adds to one row what it has of some giant steps' sums, each turned by its step, given the digits of their masks.
    fn add_turned(
        &self,
        movers: &[&MoveKey],
        bodies: &[Poly],
        digits: &mut [DigitsOfRow<'_>],
        basis: Basis,
        row: usize,
        prime: &Prime,
        total: &mut Rows<'_>,
    ) {
        let (ring, size) = (self.ring(), self.ring().size());
        let mut switched = ring.blank_words(2 * PART.min(size));
        let mut moved: Vec<Words> = movers.iter().map(|_| ring.blank_rows(2)).collect();
        for part in parts(size) {
            for (((mover, digits), body), moved) in movers.iter().zip(&mut *digits).zip(bodies).zip(&mut moved) {
                let digits = digits.part(part.clone(), &self.rows_of_key(&mover.key, basis, row));
                let moved = moved.split_at_mut(size).into();
                let (body, part) = (body.row(row), part.clone());
                self.moved_part(&digits[0], mover, basis, row, prime, part, body, &mut switched, moved);
            }
        }
        for moved in &moved {
            total.iter_mut().zip(moved.chunks_exact(size)).for_each(|(to, moved)| prime.pointwise.add(to, moved));
        }
    }

    /// A part of one row: what it comes to before it moves stays in a cache.
    fn moved_part(
        &self,
        digits: &[&[u64]],
        mover: &MoveKey,
        basis: Basis,
        row: usize,
        prime: &Prime,
        part: Range<usize>,
        body: &[u64],
        switched: &mut [u64],
        [to_body, to_mask]: [&mut [u64]; 2],
    ) {
        let (switched_body, switched_mask) = switched.split_at_mut(part.len());
        let start = part.start;
        self.product_of_part(
            digits,
            &mover.key,
            basis,
            row,
            prime,
            part.clone(),
            [&mut *switched_body, &mut *switched_mask],
        );
        prime.pointwise.add(switched_body, &body[part]);
        mover.automorphism.apply_part(start, switched_body, to_body);
        mover.automorphism.apply_part(start, switched_mask, to_mask);
    }

    fn mover<'k>(&self, steps: i64, level: usize, keys: &'k EvaluationKeys) -> Result<Option<&'k MoveKey>, CkksError> {
        let power = rotation_power(self.ring(), steps);
        (steps != 0).then(|| keys.mover(power, level, || format!("a rotation by {steps}"))).transpose()
    }
}
