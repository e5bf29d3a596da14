//! What a plan takes: work in the unit that jobs are counted in, and memory.

use std::collections::BTreeMap;

use cloakwork_params::ckks::{
    CkksSet,
    bootstrap::{BootstrapShape, Course},
    chebyshev,
    offsets::{Offsets, Way, rows_turned_together},
};

use super::{Action, Clear, Input, Output, Step, Vector, WAY_OF_CLEAR_MATRICES, polynomial, vector_of};

/// What a row takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Millions of multiplications, at least 1.
    pub work: u64,
    /// Bytes of the values that there are at a time, and of what is worked on beside them, on one thread.
    pub memory_bytes: u64,
    /// The same where it is more on more threads.
    threaded: Threaded,
    /// Bootstraps.
    pub bootstraps: u64,
}

/// What there is at a time, in bytes or in rows, where threads work on as many primes at once as give each of them something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Threaded {
    /// However many they are.
    shared: u64,
    /// For each prime that is worked on.
    of_prime: u64,
    /// Primes, at most.
    primes: u64,
    /// Words modulo one of them.
    size: usize,
}

impl Threaded {
    fn on(self, threads: usize) -> u64 {
        // Where there is nothing for each prime, there is no size either.
        let primes = (rows_turned_together(self.size.max(1), threads) as u64).min(self.primes);
        self.shared.saturating_add(self.of_prime.saturating_mul(primes))
    }

    /// Enough for both, which are of one set.
    fn or(self, other: Self) -> Self {
        Self {
            shared: self.shared.max(other.shared),
            of_prime: self.of_prime.max(other.of_prime),
            primes: self.primes.max(other.primes),
            size: self.size.max(other.size),
        }
    }
}

/// Multiplications modulo a prime of up to 61 bits take so many times as long as the ones that bootstraps of TFHE are made of:
/// a transform of N = 2^16 takes 120 microseconds, and as many of the others 40.
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

    /// Bytes at a time on so many threads.
    pub fn memory_bytes_on(&self, threads: usize) -> u64 {
        self.memory_bytes.max(self.threaded.on(threads))
    }
}

/// Bytes of a ciphertext.
fn bytes(set: &CkksSet, vector: Vector) -> u64 {
    2 * (vector.level as u64 + 1) * row_bytes(set)
}

/// Of a polynomial modulo one prime.
fn row_bytes(set: &CkksSet) -> u64 {
    8 * set.size() as u64
}

/// What is done, by polynomials modulo one prime.
#[derive(Clone, Copy, Default)]
struct Work {
    /// To values or back.
    transforms: u64,
    /// Multiplied word by word.
    products: u64,
    /// That there are at a time, beside arguments and results, on one thread.
    rows_at_a_time: u64,
    /// The same where it is more on more threads.
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

    /// One after the other.
    fn and(self, other: Self) -> Self {
        Self {
            transforms: self.transforms + other.transforms,
            products: self.products + other.products,
            rows_at_a_time: self.rows_at_a_time.max(other.rows_at_a_time),
            threaded: self.threaded.or(other.threaded),
        }
    }

    /// With so many rows more all the while, however many threads there are.
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
    /// Of each kind, worked out once.
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

    /// Primes of each digit that a level has.
    fn digits(&self, level: usize) -> impl Iterator<Item = usize> + Clone {
        let digits = self.set.digits().take_while(move |digit| digit.start <= level);
        digits.map(move |digit| digit.end.min(level + 1) - digit.start)
    }

    /// Cutting a polynomial into digits.
    fn cut(&self, level: usize) -> Work {
        let (rows, all) = (level + 1, level + 1 + self.special());
        let moved: usize = self.digits(level).map(|own| all - own).sum();
        let changes: usize = self.digits(level).map(|own| own * (all - own)).sum();
        Work::new(rows + moved, changes, self.digits(level).count() * all + rows)
    }

    /// Digits times a key.
    fn times_key(&self, level: usize) -> Work {
        let all = level + 1 + self.special();
        Work::new(0, 2 * self.digits(level).count() * all, 2 * all)
    }

    /// Primes taken away from a polynomial.
    fn lowered(&self, gone: usize, kept: usize) -> Work {
        Work::new(gone + kept, gone * kept + kept, kept)
    }

    fn rescale(&self, level: usize) -> Work {
        self.lowered(1, level).times(2)
    }

    fn turn(&self, level: usize) -> Work {
        let switch = self.cut(level).and(self.times_key(level)).and(self.lowered(self.special(), level + 1).times(2));
        // Each part of a row moves as soon as it is divided, so that the result is there beside the product. A total has one more
        // ciphertext.
        switch.and(Work::new(0, 0, self.switched(level) + 2 * (level + 1)))
    }

    /// Rows that a key switch takes at a time: what is cut, the product, and either digits or what is taken away.
    fn switched(&self, level: usize) -> usize {
        let (rows, all) = (level + 1, level + 1 + self.special());
        let moved: usize = self.digits(level).map(|own| all - own).sum();
        rows + self.digits(level).count() + 2 * all + moved.max(2 * rows + 2)
    }

    /// A product, rescaled.
    fn product(&self, level: usize) -> Work {
        self.sum_of_products(level, 1)
    }

    /// A sum of so many: one key switch and one rescale do for all of them.
    fn sum_of_products(&self, level: usize, count: usize) -> Work {
        let own = Work::new(0, 8 * count * (level + 1), 0);
        let switch = self.cut(level).and(self.times_key(level));
        // What goes with the square of the secret stays until the end.
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

    /// A matrix that is encoded.
    fn matrix(&self, matrix: &Offsets, way: Way, level: usize) -> Work {
        let [babies, giants] = matrix.turns(way);
        if way == Way::Walked {
            let rows = level + 1;
            // Where each baby step leaves the numbers is kept.
            let diagonals = Work::new(0, 2 * matrix.count() * rows, 2 * (babies + 3) * rows);
            let turns = self.turn(level).times(babies + giants);
            let rows_at_a_time = diagonals.rows_at_a_time + turns.rows_at_a_time;
            return Work { rows_at_a_time, ..diagonals.and(turns).and(self.rescale(level)) };
        }
        let all = level + 1 + self.special();
        let diagonals = Work::new(0, 2 * matrix.count() * all, 0);
        let giant = self.lowered(self.special(), level + 1).and(self.cut(level)).and(self.times_key(level));
        let cut = self.cut(level);
        // Beside the sums of all giant steps there are first the digits that the baby steps share, and modulo one prime what each
        // of these has turned, and of as many threads as one is enough for, a piece of the argument and of a product.
        let sums = 2 * (giants + 1) * all;
        let turned_by_babies = Threaded {
            shared: cut.rows_at_a_time + sums as u64,
            of_prime: 2 * (babies as u64 + 1) + 3,
            primes: all as u64,
            size: self.set.size(),
        };
        // Then what the masks of all of them are rounded by at once; then digits of one after the other.
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

    /// Of one part of some numbers, or of both.
    fn remainders(&self, level: usize, parts: usize) -> Work {
        let bootstrap = &self.set.bootstrap;
        let degree = bootstrap.cosine_degree();
        let cosine = self.chebyshev(level, degree);
        let doubled = level - chebyshev::depth(degree);
        let last = bootstrap.doublings - 1;
        let of_part = (0..last).map(|below| self.product(doubled - below)).fold(cosine, Work::and);
        // Both are there at once, until the last doubling makes one of them.
        let rows_at_a_time = of_part.rows_at_a_time * parts as u64;
        let of_parts = Work { rows_at_a_time, ..of_part.times(parts) };
        of_parts.and(self.sum_of_products(doubled - last, parts))
    }
}
