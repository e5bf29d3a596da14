//! Who computes.

use cloakwork_math::threads;

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
#[derive(Clone, Copy)]
pub struct Evaluator<'a> {
    ring: &'a Ring,
    threads: usize,
    watch: Option<&'a Watch<'a>>,
}

impl<'a> Evaluator<'a> {
    /// On so many threads, the caller's among them. Results are the same on any number.
    pub fn new(ring: &'a Ring, threads: usize) -> Self {
        Self { ring, threads, watch: None }
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

    /// Works on each item, on all threads.
    pub(crate) fn each<I>(&self, items: I, work: impl Fn(I::Item) + Sync)
    where
        I: IntoIterator<IntoIter: ExactSizeIterator + Send>,
    {
        threads::for_each(self.threads, items, work);
    }

    /// Works on a few rows at once, given an item for each row: the number of the first of them, and their items. No thread
    /// has more to do than another.
    pub(crate) fn each_rows<T: Send>(&self, items: impl IntoIterator<Item = T>, work: impl Fn(usize, Vec<T>) + Sync) {
        let mut items: Vec<T> = items.into_iter().collect();
        let rows = items.len();
        let count = rows.div_ceil(ROWS_TOGETHER).next_multiple_of(self.threads.max(1)).min(rows);
        let mut parts: Vec<(usize, Vec<T>)> = Vec::with_capacity(count);
        for part in (0..count).rev() {
            let first = part * rows / count;
            parts.push((first, items.split_off(first)));
        }
        self.each(parts.into_iter().rev(), |(first, items)| work(first, items));
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
