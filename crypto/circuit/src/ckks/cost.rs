//! Cost of a plan: work in the unit in which jobs are counted, and memory.

use std::collections::BTreeMap;

use cloakwork_params::ckks::{
    CkksSet,
    bootstrap::{BootstrapShape, Course},
    chebyshev,
    offsets::{Offsets, Way, rows_turned_together},
};

use super::{Action, Clear, Input, Output, Step, Vector, WAY_OF_CLEAR_MATRICES, polynomial, vector_of};

/// Cost of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Millions of multiplications, at least 1.
    pub work: u64,
    /// Bytes of the values in memory at a time, and of working memory beside them, on one thread.
    pub memory_bytes: u64,
    /// Peak memory of steps that take more memory on more threads.
    threaded: Threaded,
    /// Number of bootstraps.
    pub bootstraps: u64,
}

/// Memory at a time, in bytes or in rows, of steps whose threads work on several primes at once.
/// The number of primes in work is as large as it takes to keep every thread busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Threaded {
    /// Memory that does not depend on the number of threads.
    shared: u64,
    /// Memory for each prime in work.
    of_prime: u64,
    /// Largest number of primes in work.
    primes: u64,
    /// Words of a polynomial modulo one prime.
    size: usize,
}

impl Threaded {
    fn on(self, threads: usize) -> u64 {
        // Without memory for each prime, the size is 0.
        let primes = (rows_turned_together(self.size.max(1), threads) as u64).min(self.primes);
        self.shared.saturating_add(self.of_prime.saturating_mul(primes))
    }

    /// The maximum of both, which must be of one parameter set.
    fn or(self, other: Self) -> Self {
        Self {
            shared: self.shared.max(other.shared),
            of_prime: self.of_prime.max(other.of_prime),
            primes: self.primes.max(other.primes),
            size: self.size.max(other.size),
        }
    }
}

/// Time of a multiplication modulo a prime of up to 61 bits, in multiplications of TFHE bootstraps.
/// A transform of N = 2^16 takes 120 microseconds, and as many multiplications of a TFHE bootstrap
/// take 40.
pub const MULTIPLICATIONS_OF_A_MODULAR_ONE: u64 = 3;

impl Cost {
    pub(super) fn of(set: &CkksSet, inputs: &[Input], steps: &[Step], outputs: &[Output], clear: &Clear) -> Self {
        let mut counts = Counts { set, bootstraps: BTreeMap::new() };
        let mut held: u64 = inputs.iter().map(|input| bytes(set, input.vector)).sum();
        let mut cost = Self { memory_bytes: held, ..Self::default() };
        let mut work = Work::default();
        for step in steps {
            let from =
                step.action.arguments().map(|value| vector_of(inputs, steps, value)).min_by_key(|vector| vector.level);
            let own = counts.step(step, from.unwrap_or(step.vector), clear);
            work = work.and(own);
            held += bytes(set, step.vector);
            cost.memory_bytes = cost.memory_bytes.max(held.saturating_add(own.rows_at_a_time * row_bytes(set)));
            let Threaded { shared, of_prime, .. } = own.threaded;
            let shared = held.saturating_add(shared * row_bytes(set));
            cost.threaded = cost.threaded.or(Threaded { shared, of_prime: of_prime * row_bytes(set), ..own.threaded });
            held -= step.last_uses.iter().map(|value| bytes(set, vector_of(inputs, steps, *value))).sum::<u64>();
            cost.bootstraps += u64::from(matches!(step.action, Action::Bootstrap(..)));
        }
        let returned: u64 = outputs.iter().map(|output| bytes(set, output.vector)).sum();
        cost.memory_bytes = cost.memory_bytes.saturating_add(returned);
        cost.threaded.shared = cost.threaded.shared.saturating_add(returned);
        let modular =
            work.transforms * (set.size() as u64 / 2) * u64::from(set.size_log2) + work.products * set.size() as u64;
        cost.work = ((modular * MULTIPLICATIONS_OF_A_MODULAR_ONE) >> 20).max(1);
        cost
    }

    /// Bytes in memory at a time on this many threads.
    pub fn memory_bytes_on(&self, threads: usize) -> u64 {
        self.memory_bytes.max(self.threaded.on(threads))
    }
}

/// Bytes of a ciphertext.
fn bytes(set: &CkksSet, vector: Vector) -> u64 {
    2 * (vector.level as u64 + 1) * row_bytes(set)
}

/// Bytes of a row: a polynomial modulo one prime.
fn row_bytes(set: &CkksSet) -> u64 {
    8 * set.size() as u64
}

/// Amount of work, counted in polynomials modulo one prime, which are called rows.
#[derive(Clone, Copy, Default)]
struct Work {
    /// Transforms of a row, in either direction.
    transforms: u64,
    /// Word by word multiplications of a row.
    products: u64,
    /// Rows in memory at a time, in addition to arguments and results, on one thread.
    rows_at_a_time: u64,
    /// Rows in memory at a time, if the work takes more memory on more threads.
    threaded: Threaded,
}

impl Work {
    fn new(transforms: usize, products: usize, rows_at_a_time: usize) -> Self {
        Self {
            transforms: transforms as u64,
            products: products as u64,
            rows_at_a_time: rows_at_a_time as u64,
            threaded: Threaded::default(),
        }
    }

    /// This work, followed by other work.
    fn and(self, other: Self) -> Self {
        Self {
            transforms: self.transforms + other.transforms,
            products: self.products + other.products,
            rows_at_a_time: self.rows_at_a_time.max(other.rows_at_a_time),
            threaded: self.threaded.or(other.threaded),
        }
    }

    /// The work with additional rows in memory throughout, on any number of threads.
    fn beside(mut self, rows: usize) -> Self {
        self.rows_at_a_time += rows as u64;
        self.threaded.shared += rows as u64;
        self
    }

    fn times(self, count: usize) -> Self {
        Self { transforms: self.transforms * count as u64, products: self.products * count as u64, ..self }
    }
}

struct Counts<'s> {
    set: &'s CkksSet,
    /// Work of each kind of bootstrap, computed once.
    bootstraps: BTreeMap<BootstrapShape, Work>,
}

impl Counts<'_> {
    fn step(&mut self, step: &Step, from: Vector, clear: &Clear) -> Work {
        let rows = from.level + 1;
        match &step.action {
            Action::Add(..)
            | Action::Subtract(..)
            | Action::Negate(_)
            | Action::TimesI(_)
            | Action::AddNumber(..)
            | Action::Lower(_) => Work::new(0, 2 * rows, 0),
            Action::AddClear(..) => Work::new(rows, 2 * rows, rows),
            Action::MultiplyNumber(..) => Work::new(0, 2 * rows, 2 * rows).and(self.rescale(step.vector.level + 1)),
            Action::MultiplyClear(..) => Work::new(rows, 2 * rows, 3 * rows).and(self.rescale(from.level)),
            Action::Multiply(..) => self.product(from.level),
            Action::Rotate(..) | Action::Conjugate(_) => self.turn(from.level),
            Action::Total(_) => self.turn(from.level).times(from.slots_log2 as usize),
            Action::Chebyshev(_, coefficients) => self.chebyshev(from.level, coefficients.len() - 1),
            Action::Transform(_, matrix) => {
                let matrix = clear.offsets(*matrix, from.slots_log2);
                let encoded = matrix.count() * (rows + self.special());
                let product = self.matrix(&matrix, WAY_OF_CLEAR_MATRICES, from.level);
                Work::new(encoded, 0, 0).and(product).beside(encoded)
            }
            Action::Bootstrap(_, bootstrap) => {
                let known = self.bootstraps.get(bootstrap).copied();
                let work = known.unwrap_or_else(|| self.bootstrap(*bootstrap));
                self.bootstraps.insert(*bootstrap, work);
                work
            }
        }
    }

    fn special(&self) -> usize {
        self.set.special.len()
    }

    /// Number of primes in each digit at a level.
    fn digits(&self, level: usize) -> impl Iterator<Item = usize> + Clone {
        let digits = self.set.digits().take_while(move |digit| digit.start <= level);
        digits.map(move |digit| digit.end.min(level + 1) - digit.start)
    }

    /// Gadget decomposition of a polynomial into digits.
    fn cut(&self, level: usize) -> Work {
        let (rows, all) = (level + 1, level + 1 + self.special());
        let moved: usize = self.digits(level).map(|own| all - own).sum();
        let changes: usize = self.digits(level).map(|own| own * (all - own)).sum();
        Work::new(rows + moved, changes, self.digits(level).count() * all + rows)
    }

    /// Products of digits and a key.
    fn times_key(&self, level: usize) -> Work {
        let all = level + 1 + self.special();
        Work::new(0, 2 * self.digits(level).count() * all, 2 * all)
    }

    /// Division of a polynomial by some of its primes.
    fn lowered(&self, gone: usize, kept: usize) -> Work {
        Work::new(gone + kept, gone * kept + kept, kept)
    }

    fn rescale(&self, level: usize) -> Work {
        self.lowered(1, level).times(2)
    }

    fn turn(&self, level: usize) -> Work {
        let switch = self.cut(level).and(self.times_key(level)).and(self.lowered(self.special(), level + 1).times(2));
        // Each part of a row moves as soon as it is divided, so the result is in memory beside the
        // product. A total holds one more ciphertext.
        switch.and(Work::new(0, 0, self.switched(level) + 2 * (level + 1)))
    }

    /// Rows in memory during a key switch: the input, the product, and either the digits or the
    /// rows that are divided away.
    fn switched(&self, level: usize) -> usize {
        let (rows, all) = (level + 1, level + 1 + self.special());
        let moved: usize = self.digits(level).map(|own| all - own).sum();
        rows + self.digits(level).count() + 2 * all + moved.max(2 * rows + 2)
    }

    /// A product, rescaled.
    fn product(&self, level: usize) -> Work {
        self.sum_of_products(level, 1)
    }

    /// A sum of products, which share one key switch and one rescaling.
    fn sum_of_products(&self, level: usize, count: usize) -> Work {
        let own = Work::new(0, 8 * count * (level + 1), 0);
        let switch = self.cut(level).and(self.times_key(level));
        // The parts that belong to the square of the secret stay in memory until the end.
        let held = Work::new(0, 0, count * (level + 1 + self.switched(level)));
        own.and(switch).and(held).and(self.lowered(self.special() + 1, level).times(2))
    }

    fn chebyshev(&self, level: usize, degree: usize) -> Work {
        let products = polynomial::products(degree);
        let powers = 2 * (level + 1) * (products.len() + 1);
        let work = products
            .into_iter()
            .map(|below| self.product(level.saturating_sub(below)))
            .fold(Work::default(), Work::and);
        // Sums of powers, each rescaled.
        let sums = degree / 4 + 1;
        work.and(self.rescale(level).and(Work::new(0, 16 * (level + 1), 0)).times(sums)).beside(powers)
    }

    /// A product with a matrix that is encoded already.
    fn matrix(&self, matrix: &Offsets, way: Way, level: usize) -> Work {
        let [babies, giants] = matrix.turns(way);
        if way == Way::Walked {
            let rows = level + 1;
            // The result of each baby step stays in memory.
            let diagonals = Work::new(0, 2 * matrix.count() * rows, 2 * (babies + 3) * rows);
            let turns = self.turn(level).times(babies + giants);
            let rows_at_a_time = diagonals.rows_at_a_time + turns.rows_at_a_time;
            return Work { rows_at_a_time, ..diagonals.and(turns).and(self.rescale(level)) };
        }
        let all = level + 1 + self.special();
        let diagonals = Work::new(0, 2 * matrix.count() * all, 0);
        let giant = self.lowered(self.special(), level + 1).and(self.cut(level)).and(self.times_key(level));
        let cut = self.cut(level);
        // First, memory holds the sums of all giant steps and the digits that the baby steps share.
        // For each prime in work, it also holds the rotations of all baby steps. Threads that work
        // on this prime add a piece of the argument and of a product.
        let sums = 2 * (giants + 1) * all;
        let turned_by_babies = Threaded {
            shared: cut.rows_at_a_time + sums as u64,
            of_prime: 2 * (babies as u64 + 1) + 3,
            primes: all as u64,
            size: self.set.size(),
        };
        // Then memory holds the rounding terms for the masks of all giant steps at once, and after
        // that the digits of one giant step at a time.
        let rounded = giants * (level + 2);
        let mut work = cut.and(self.times_key(level).times(babies)).and(diagonals);
        work.threaded = turned_by_babies;
        work.rows_at_a_time = turned_by_babies.on(1).max(sums as u64 + giant.rows_at_a_time.max(rounded as u64));
        work.and(giant.times(giants)).and(self.lowered(self.special() + 1, level).times(2))
    }

    fn bootstrap(&self, bootstrap: BootstrapShape) -> Work {
        let (set, course) = (self.set, Course::of(bootstrap, self.set));
        let (raised, remainder) = (bootstrap.raised_level(set), bootstrap.remainder_level(set));
        let all = raised + 1 + self.special();
        let raise =
            Work::new(all + raised + 1, 4 * all, 3 * all).and(self.lowered(self.special(), raised + 1).times(2));
        let turns = course.turns().map(|turn| self.turn(turn.level));
        let matrices = course.matrices().map(|matrix| self.matrix(&matrix.offsets, matrix.way, matrix.level));
        let parts = if bootstrap.is_packed(set) { 1 } else { 2 };
        turns.chain(matrices).fold(raise, Work::and).and(self.turn(remainder)).and(self.remainders(remainder, parts))
    }

    /// Remainders of one part of the numbers, real or imaginary, or of both parts.
    fn remainders(&self, level: usize, parts: usize) -> Work {
        let bootstrap = &self.set.bootstrap;
        let degree = bootstrap.cosine_degree();
        let cosine = self.chebyshev(level, degree);
        let doubled = level - chebyshev::depth(degree);
        let last = bootstrap.doublings - 1;
        let of_part = (0..last).map(|below| self.product(doubled - below)).fold(cosine, Work::and);
        // Both parts are in memory at once, until the last doubling combines them.
        let rows_at_a_time = of_part.rows_at_a_time * parts as u64;
        let of_parts = Work { rows_at_a_time, ..of_part.times(parts) };
        of_parts.and(self.sum_of_products(doubled - last, parts))
    }
}
