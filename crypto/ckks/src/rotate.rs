//! Rotations and conjugation.

use crate::{
    ciphertext::Ciphertext,
    error::CkksError,
    evaluator::Evaluator,
    key::{EvaluationKeys, MoveKey, conjugation_power, rotation_power},
    poly::by_row,
    rows::{by_source, by_stretch},
};

impl Evaluator<'_> {
    /// Rotates the numbers to the left with wrap-around: number i becomes the former number i +
    /// `steps`.
    pub fn rotate(&self, a: &Ciphertext, steps: i64, keys: &EvaluationKeys) -> Result<Ciphertext, CkksError> {
        let steps = steps.rem_euclid(a.slots() as i64);
        if steps == 0 {
            return Ok(a.clone());
        }
        // With fewer than N / 2 numbers, rotations to the left and to the right are two
        // automorphisms with the same effect. Either key will do.
        let powers = [steps, steps - a.slots() as i64].map(|steps| rotation_power(self.ring(), steps));
        let [left, right] = powers.map(|power| keys.mover(power, a.level(), || format!("a rotation by {steps}")));
        Ok(self.moved(a, left.or_else(|error| right.map_err(|_| error))?))
    }

    /// Rotates as if the ciphertext had N / 2 numbers: the numbers in its slots, repeated.
    pub(crate) fn rotate_full(
        &self,
        a: &Ciphertext,
        steps: i64,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let power = rotation_power(self.ring(), steps);
        Ok(self.moved(a, keys.mover(power, a.level(), || format!("a rotation by {steps}"))?))
    }

    /// Replaces each number by its conjugate.
    pub fn conjugate(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, CkksError> {
        Ok(self.moved(a, keys.mover(conjugation_power(self.ring()), a.level(), || "conjugation".into())?))
    }

    fn moved(&self, a: &Ciphertext, mover: &MoveKey) -> Ciphertext {
        let ring = self.ring();
        let digits = self.digits(&a.polys[1], mover.key.basis().special);
        let basis = digits.basis();
        let mut switched = [ring.blank(basis), ring.blank(basis)];
        let mut polys = [ring.blank(a.basis()), ring.blank(a.basis())];
        let moved = by_row(&mut polys)
            .into_iter()
            .map(|rows| by_source(&mover.automorphism, self.stretch(), by_stretch(rows, self.stretch())));
        self.lower_made_and_then(
            &digits,
            &mut switched,
            moved.collect(),
            |stretch, digits, to| self.product_of_stretch(digits, &mover.key, basis, stretch, to),
            |stretch, moved, part, switched| {
                let body = a.polys[0].row(stretch.row);
                stretch.prime.pointwise.add(switched[0], &body[part.in_row.clone()]);
                for (from, to) in switched.iter().zip(moved) {
                    mover.automorphism.apply_part(part.in_row.start, from, to);
                }
            },
        );
        Ciphertext { polys, scale: a.scale, slots_log2: a.slots_log2 }
    }
}
