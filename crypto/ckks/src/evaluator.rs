//! The evaluator: computation on several threads.

use cloakwork_math::{ntt::PART, threads::Team};

use crate::{
    error::CkksError,
    poly::{Basis, Poly},
    prime::Prime,
    ring::Ring,
    rows::{Stretch, pieces},
};

/// Number of rows that a few threads work on at once. The rows share one read of the inputs of
/// their changes of basis, and their digits fit a cache.
const ROWS_PER_SHARE: usize = 4;

/// Minimum number of words in a stretch of a long row.
const STRETCH_MIN: usize = 2 * PART;
/// Maximum number of words in a stretch.
const STRETCH_MAX: usize = 8 * PART;

/// The steps of a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BootstrapStep {
    /// Key switch to the sparse secret, modulus raising to a high level, and key switch back.
    Raise,
    /// CoeffToSlot: coefficients become numbers.
    ToCoefficients,
    /// EvalMod: multiples of the first prime are removed.
    Remainders,
    /// SlotToCoeff: numbers become coefficients.
    ToValues,
}

/// Watcher of a bootstrap: receives the step that starts or continues next, and returns whether to
/// go on.
type Watch<'a> = dyn Fn(BootstrapStep) -> bool + Sync + 'a;

/// Computes on ciphertexts of one ring.
pub struct Evaluator<'a> {
    ring: &'a Ring,
    team: Team,
    watch: Option<&'a Watch<'a>>,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator with `threads` threads of its own; one thread means the caller's.
    /// Results do not depend on the number of threads.
    pub fn new(ring: &'a Ring, threads: usize) -> Self {
        Self { ring, team: Team::new(threads), watch: None }
    }

    /// Sets a watcher, which is called before each part of a bootstrap. A step has one or more
    /// parts. If `watch` returns false, the bootstrap ends with [`CkksError::GivenUp`] and leaves
    /// no result.
    pub fn watched(self, watch: &'a Watch<'a>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Asks the watcher whether to go on.
    pub(crate) fn ask(&self, step: BootstrapStep) -> Result<(), CkksError> {
        match self.watch {
            Some(watch) if !watch(step) => Err(CkksError::GivenUp),
            _ => Ok(()),
        }
    }

    /// The ring.
    pub fn ring(&self) -> &'a Ring {
        self.ring
    }

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.team.threads()
    }

    /// Number of words in a stretch of a row: a power of two, since automorphisms move such
    /// stretches as a whole. There is about one stretch per thread. A minimum length keeps the
    /// hand-over to a thread cheap. A maximum length splits long rows, so that two threads finish
    /// at the same time.
    pub(crate) fn stretch(&self) -> usize {
        let of_thread = self.ring.size().div_ceil(self.threads()).next_power_of_two();
        of_thread.clamp(STRETCH_MIN, STRETCH_MAX).min(self.ring.size())
    }

    /// Splits a row of a basis into stretches of `len` words.
    pub(crate) fn stretches(
        &self,
        basis: Basis,
        row: usize,
        len: usize,
    ) -> impl ExactSizeIterator<Item = Stretch<'a>> + use<'a> {
        let prime = self.ring.prime(self.ring.index(basis, row));
        pieces(self.ring.size(), len).map(move |words| Stretch { row, prime, words })
    }

    /// Runs `work` on one of the threads while the others stand by, for many operations one after
    /// the other.
    pub fn together<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.team.together(work)
    }

    /// Calls `work` on each item, on all threads.
    pub(crate) fn each<I>(&self, items: I, work: impl Fn(I::Item) + Sync)
    where
        I: IntoIterator<IntoIter: ExactSizeIterator + Send>,
    {
        self.team.for_each(items, work);
    }

    /// Divides items of rows into shares, each with the index of its first row. All threads work on
    /// a share before the next one. Shares are about equally long: a few rows, or one row per
    /// thread if there are more threads, since transforms start row by row.
    pub(crate) fn shares<T>(&self, items: impl IntoIterator<Item = T>) -> Vec<(usize, Vec<T>)> {
        let items: Vec<T> = items.into_iter().collect();
        let (end, mut items) = (items.len(), items.into_iter());
        let mut left = items.len().div_ceil(ROWS_PER_SHARE.max(self.threads()));
        let mut shares = Vec::new();
        while items.len() > 0 {
            let len = items.len().div_ceil(left);
            shares.push((end - items.len(), items.by_ref().take(len).collect()));
            left -= 1;
        }
        shares
    }

    /// Calls `work` on each row of a polynomial with its number, its prime and its words.
    pub(crate) fn each_row(&self, poly: &mut Poly, work: impl Fn(usize, &Prime, &mut [u64]) + Sync) {
        let rows: Vec<_> = self.ring.primes(poly.basis()).zip(poly.rows_mut()).enumerate().collect();
        self.each(rows, |(row, (prime, words))| work(row, prime, words));
    }

    /// Calls `work` on each row of two polynomials.
    pub(crate) fn each_row_of_both(&self, polys: &mut [Poly; 2], work: impl Fn(usize, &Prime, [&mut [u64]; 2]) + Sync) {
        let [left, right] = polys;
        let primes = self.ring.primes(left.basis());
        let rows: Vec<_> = primes.zip(left.rows_mut().zip(right.rows_mut())).enumerate().collect();
        self.each(rows, |(row, (prime, (left, right)))| work(row, prime, [left, right]));
    }
}
