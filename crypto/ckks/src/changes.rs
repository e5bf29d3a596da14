//! Changes of basis, and the transforms that follow them, on all threads.

use cloakwork_math::{
    basis::BasisChange,
    ntt::{Ntt, PART},
};

use crate::{
    evaluator::Evaluator,
    pool::Words,
    rows::{Rows, by_stretch, pieces},
};

/// Coefficients in one basis, and rows for what they are in another.
pub(crate) struct Change<'c> {
    pub(crate) change: &'c BasisChange,
    /// Modulo each old prime, times what the change asks for.
    pub(crate) prepared: Vec<&'c [u64]>,
    /// What the change takes away.
    pub(crate) wraps: &'c [u64],
    /// Places of new primes in the change.
    pub(crate) targets: Vec<usize>,
    /// A row for each of those.
    pub(crate) to: Rows<'c>,
}

impl Evaluator<'_> {
    /// Works out what each change takes away, given its prepared rows.
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

    /// Makes all changes.
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

    /// Begins transforms.
    pub(crate) fn start_each<'w>(&self, rows: impl Iterator<Item = (&'w Ntt, &'w mut [u64])>) {
        self.each(rows.collect::<Vec<_>>(), |(ntt, row)| ntt.start(&mut [row]));
    }
}
