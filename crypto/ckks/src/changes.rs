//! Changes of basis and the transforms that follow them, on all threads.

use cloakwork_math::{
    basis::BasisChange,
    ntt::{Ntt, PART},
};

use crate::{
    evaluator::Evaluator,
    pool::Words,
    rows::{Rows, by_stretch, pieces},
};

/// A change of basis for the coefficients of one polynomial, with the rows of its result.
pub(crate) struct Change<'c> {
    pub(crate) change: &'c BasisChange,
    /// Coefficients modulo each old prime, times the factor from [`BasisChange::prepare`].
    pub(crate) prepared: Vec<&'c [u64]>,
    /// How many times the product of the old primes the change subtracts, by coefficient.
    pub(crate) wraps: &'c [u64],
    /// Indices of the new primes in the change.
    pub(crate) targets: Vec<usize>,
    /// Output row of each new prime.
    pub(crate) to: Rows<'c>,
}

impl Evaluator<'_> {
    /// Computes the number of subtracted multiples of each change from its prepared rows.
    pub(crate) fn each_wraps<'w>(
        &self,
        changes: impl Iterator<Item = (&'w BasisChange, Vec<&'w [u64]>, &'w mut Words)>,
    ) {
        let size = self.ring().size();
        let mut items = Vec::new();
        for (change, prepared, wraps) in changes {
            for (part, wraps) in pieces(size, PART).zip(wraps.chunks_mut(PART)) {
                items.push((change, prepared.iter().map(|row| &row[part.clone()]).collect::<Vec<_>>(), wraps));
            }
        }
        self.each(items, |(change, prepared, wraps)| change.wraps(&prepared, wraps));
    }

    /// Performs all changes of basis.
    pub(crate) fn each_change<'c>(&self, changes: impl IntoIterator<Item = Change<'c>>) {
        let (mut shared, mut rows) = (Vec::new(), Vec::new());
        for Change { change, prepared, wraps, targets, to } in changes {
            shared.push((change, prepared, wraps, targets));
            rows.push(to);
        }
        let mut items = Vec::new();
        for (shared, to) in shared.iter().zip(rows) {
            let stretches = pieces(self.ring().size(), self.stretch()).zip(by_stretch(to, self.stretch()));
            items.extend(stretches.map(|(words, to)| (shared, words, to)));
        }
        self.each(items, |((change, prepared, wraps, targets), words, mut to)| {
            let prepared: Vec<&[u64]> = prepared.iter().map(|row| &row[words.clone()]).collect();
            change.residues(targets, &prepared, &wraps[words], &mut to);
        });
    }

    /// Starts the forward transform of each row.
    pub(crate) fn start_each<'w>(&self, rows: impl Iterator<Item = (&'w Ntt, &'w mut [u64])>) {
        self.each(rows.collect::<Vec<_>>(), |(ntt, row)| ntt.start(&mut [row]));
    }
}
