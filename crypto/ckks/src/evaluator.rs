//! Who computes.

use std::iter;

use cloakwork_math::threads;

use crate::{
    bootstrap::BootstrapStep,
    poly::Poly,
    ring::{Prime, Ring},
};

/// Rows whose changes of basis are made at once, on each thread: what they are made of is read once for all of them.
const ROWS_TOGETHER: usize = 4;

/// Computes on ciphertexts of one ring.
#[derive(Clone, Copy)]
pub struct Evaluator<'a> {
    ring: &'a Ring,
    threads: usize,
    watch: Option<&'a (dyn Fn(BootstrapStep) + Sync)>,
}

impl<'a> Evaluator<'a> {
    /// On so many threads, the caller's among them. Results are the same on any number.
    pub fn new(ring: &'a Ring, threads: usize) -> Self {
        Self { ring, threads, watch: None }
    }

    /// The same, and `watch` is told when a step of a bootstrap begins.
    pub fn watched(self, watch: &'a (dyn Fn(BootstrapStep) + Sync)) -> Self {
        Self { watch: Some(watch), ..self }
    }

    pub(crate) fn begins(&self, step: BootstrapStep) {
        if let Some(watch) = self.watch {
            watch(step);
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

    /// Works on a few rows at once, given an item for each row: the number of the first of them, and their items.
    pub(crate) fn each_rows<T: Send>(&self, items: impl IntoIterator<Item = T>, work: impl Fn(usize, Vec<T>) + Sync) {
        let mut items = items.into_iter();
        let parts = iter::from_fn(|| {
            Some(items.by_ref().take(ROWS_TOGETHER).collect()).filter(|part: &Vec<T>| !part.is_empty())
        });
        let parts: Vec<(usize, Vec<T>)> = (0..).step_by(ROWS_TOGETHER).zip(parts).collect();
        self.each(parts, |(first, items)| work(first, items));
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
