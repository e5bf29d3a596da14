//! Who computes.

use cloakwork_math::{ntt::PART, threads::Team};

use crate::{
    bootstrap::BootstrapStep,
    error::CkksError,
    poly::{Basis, Poly},
    ring::{Prime, Ring},
    rows::{Stretch, pieces},
};

/// Rows that a few threads work on at once: what their changes of basis are made of is read once for all of them, and their digits fit a
/// cache.
const ROWS_TOGETHER: usize = 4;

/// Words of the shortest stretches of long rows.
const STRETCH_MIN: usize = 2 * PART;
/// Words of the longest stretches.
const STRETCH_MAX: usize = 8 * PART;

/// Is told which step of a bootstrap is to come, or to go on, and says whether it shall.
type Watch<'a> = dyn Fn(BootstrapStep) -> bool + Sync + 'a;

/// Computes on ciphertexts of one ring.
pub struct Evaluator<'a> {
    ring: &'a Ring,
    team: Team,
    watch: Option<&'a Watch<'a>>,
}

impl<'a> Evaluator<'a> {
    /// On so many threads, which are its own unless it is one. Results are the same on any number.
    pub fn new(ring: &'a Ring, threads: usize) -> Self {
        Self { ring, team: Team::new(threads), watch: None }
    }

    /// The same, and `watch` is asked before each part of a bootstrap, of which a step has one or more, whether to go on. Where it
    /// says no, the bootstrap ends with [`CkksError::GivenUp`], and nothing of it is left.
    pub fn watched(self, watch: &'a Watch<'a>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Asks whoever watches.
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

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.team.threads()
    }

    /// Words of a stretch of a row: a power of two, since automorphisms move such ones as wholes. There is about one for each thread,
    /// but none so short that to hand it over would take long, and none that is all of a long row, so that two threads are done at the
    /// same time.
    pub(crate) fn stretch(&self) -> usize {
        let of_thread = self.ring.size().div_ceil(self.threads()).next_power_of_two();
        of_thread.clamp(STRETCH_MIN, STRETCH_MAX).min(self.ring.size())
    }

    /// A row of a basis in stretches of so many words.
    pub(crate) fn stretches(
        &self,
        basis: Basis,
        row: usize,
        len: usize,
    ) -> impl ExactSizeIterator<Item = Stretch<'a>> + use<'a> {
        let prime = self.ring.prime(self.ring.index(basis, row));
        pieces(self.ring.size(), len).map(move |words| Stretch { row, prime, words })
    }

    /// Does work on one of the threads, while the others stand by: for many operations one after the other.
    pub fn together<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.team.together(work)
    }

    /// Works on each item, on all threads.
    pub(crate) fn each<I>(&self, items: I, work: impl Fn(I::Item) + Sync)
    where
        I: IntoIterator<IntoIter: ExactSizeIterator + Send>,
    {
        self.team.for_each(items, work);
    }

    /// Items of rows, in shares that are worked on one after the other, each by all threads, with the number of its first row. They are
    /// about equally long: a few rows, or as many as there are threads where these are more, since transforms begin row by row.
    pub(crate) fn shares<T>(&self, items: impl IntoIterator<Item = T>) -> Vec<(usize, Vec<T>)> {
        let items: Vec<T> = items.into_iter().collect();
        let (end, mut items) = (items.len(), items.into_iter());
        let mut left = items.len().div_ceil(ROWS_TOGETHER.max(self.threads()));
        let mut shares = Vec::new();
        while items.len() > 0 {
            let len = items.len().div_ceil(left);
            shares.push((end - items.len(), items.by_ref().take(len).collect()));
            left -= 1;
        }
        shares
    }

    /// Works on each row of a polynomial: its number, its prime and its words.
    pub(crate) fn each_row(&self, poly: &mut Poly, work: impl Fn(usize, &Prime, &mut [u64]) + Sync) {
        let rows: Vec<_> = self.ring.primes(poly.basis()).zip(poly.rows_mut()).enumerate().collect();
        self.each(rows, |(row, (prime, words))| work(row, prime, words));
    }

    /// Works on the same row of two polynomials.
    pub(crate) fn each_row_of_both(&self, polys: &mut [Poly; 2], work: impl Fn(usize, &Prime, [&mut [u64]; 2]) + Sync) {
        let [left, right] = polys;
        let primes = self.ring.primes(left.basis());
        let rows: Vec<_> = primes.zip(left.rows_mut().zip(right.rows_mut())).enumerate().collect();
        self.each(rows, |(row, (prime, (left, right)))| work(row, prime, [left, right]));
    }
}
