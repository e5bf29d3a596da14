//! Who computes.

use cloakwork_math::threads::Team;

use crate::{
    bootstrap::BootstrapStep,
    error::CkksError,
    poly::Poly,
    ring::{Prime, Ring},
};

/// Rows whose changes of basis are made at once, on each thread: what they are made of is read once for all of them.
const ROWS_TOGETHER: usize = 4;

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

    /// Works on a few rows at once, given an item for each row: the number of the first of them, and their items.
    pub(crate) fn each_rows<T: Send>(&self, items: impl IntoIterator<Item = T>, work: impl Fn(usize, Vec<T>) + Sync) {
        self.each(self.shares(0, items), |(first, items)| work(first, items));
    }

    /// Items of rows from row `first` on, in shares for each of which one thread makes all changes of basis at once, with the number
    /// of its first row. The last shares are small, so that threads are done at the same time.
    pub(crate) fn shares<T>(&self, first: usize, items: impl IntoIterator<Item = T>) -> Vec<(usize, Vec<T>)> {
        let items: Vec<T> = items.into_iter().collect();
        let (end, mut items) = (first + items.len(), items.into_iter());
        let mut shares = Vec::new();
        while items.len() > 0 {
            let together = items.len().div_ceil(self.team.threads()).min(ROWS_TOGETHER);
            shares.push((end - items.len(), items.by_ref().take(together).collect()));
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
