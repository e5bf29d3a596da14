//! A matrix times encrypted numbers with two keys.

use cloakwork_params::ckks::offsets::Steps;

use super::EncodedMatrix;
use crate::{ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys, poly::Basis};

impl Evaluator<'_> {
    /// One key switch after the other: each baby step takes the numbers on from where the one before it left them, and each
    /// giant step takes on the sum of those beyond it.
    pub(super) fn transform_walking(
        &self,
        a: &Ciphertext,
        matrix: &EncodedMatrix,
        steps: Steps,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let (ring, basis) = (self.ring(), Basis::of_level(matrix.level));
        let [baby, giant] = steps.lengths();
        let mut turned = vec![a.clone()];
        for _ in 1..=matrix.babies.iter().max().map_or(0, |last| last / baby) {
            turned.push(self.rotate_full(&turned[turned.len() - 1], baby, keys)?);
        }
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
                        let turned = &turned[(matrix.babies[*number] / baby) as usize];
                        (poly.row(row), turned.polys.each_ref().map(|poly| poly.row(row)))
                    })
                    .collect();
                prime.pointwise.sums_of_products(&terms, to);
            });
            let mut sum = Ciphertext { polys, scale: a.scale * matrix.scale, slots_log2: a.slots_log2 };
            total.iter().for_each(|total| self.add_polys(&mut sum, total));
            total = Some(sum);
        }
        let total = total.unwrap_or_else(|| Ciphertext {
            polys: [ring.zero(basis), ring.zero(basis)],
            scale: a.scale * matrix.scale,
            slots_log2: a.slots_log2,
        });
        self.rescale(&total)
    }
}
