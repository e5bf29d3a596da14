//! Products of a matrix and encrypted numbers with two rotation keys.

use cloakwork_params::ckks::offsets::Steps;

use super::EncodedMatrix;
use crate::{ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys, poly::Basis};

impl Evaluator<'_> {
    /// Multiplies with one key switch after the other. Each baby step rotates the result of the
    /// previous baby step. Each giant step rotates the sum of the giant steps beyond it.
    pub(super) fn transform_walking(
        &self,
        a: &Ciphertext,
        matrix: &EncodedMatrix,
        steps: Steps,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let (ring, basis) = (self.ring(), Basis::of_level(matrix.level));
        let [baby, giant] = steps.lengths();
        let mut turned: Vec<Ciphertext> = Vec::new();
        for _ in 1..=matrix.babies.iter().max().map_or(0, |last| last / baby) {
            turned.push(self.rotate_full(turned.last().unwrap_or(a), baby, keys)?);
        }
        let turned_by = |steps: i64| ((steps / baby) as usize).checked_sub(1).map_or(a, |place| &turned[place]);
        let mut total: Option<Ciphertext> = None;
        let mut giants = matrix.giants.iter().rev().peekable();
        let last = giants.peek().map_or(0, |(last, _)| **last / giant);
        for place in (0..=last).rev() {
            total = total.map(|total| self.rotate_full(&total, giant, keys)).transpose()?;
            let Some((_, diagonals)) = giants.next_if(|(steps, _)| **steps == place * giant) else { continue };
            let mut polys = [ring.blank(basis), ring.blank(basis)];
            self.each_row_of_both(&mut polys, |row, prime, to| {
                let terms: Vec<(&[u64], [&[u64]; 2])> = diagonals
                    .iter()
                    .map(|(number, poly)| {
                        let turned = turned_by(matrix.babies[*number]);
                        (poly.row(row), turned.polys.each_ref().map(|poly| poly.row(row)))
                    })
                    .collect();
                let [body, mask] = to;
                prime.pointwise.sums_of_products(&terms, [&mut *body, &mut *mask]);
                if let Some(total) = &total {
                    let total = total.polys.iter().map(|poly| poly.row(row));
                    [body, mask].into_iter().zip(total).for_each(|(to, row)| prime.pointwise.add(to, row));
                }
            });
            total = Some(Ciphertext { polys, scale: a.scale * matrix.scale, slots_log2: a.slots_log2 });
        }
        let total = total.unwrap_or_else(|| Ciphertext {
            polys: [ring.zero(basis), ring.zero(basis)],
            scale: a.scale * matrix.scale,
            slots_log2: a.slots_log2,
        });
        self.rescaled(total)
    }
}
